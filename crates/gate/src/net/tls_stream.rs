//! The stream of a TLS connection after its handshake, of either side: that of rustls. Handshakes are left to
//! [`tls`](super::tls). A build without the feature `tls` has the same names from `absent`.

#[cfg(not(feature = "tls"))]
mod absent;

#[cfg(not(feature = "tls"))]
pub use self::absent::{CertificateDer, TlsStream, common_name};
#[cfg(feature = "tls")]
pub use rustls::pki_types::CertificateDer;

/// A connection after its handshake.
#[cfg(feature = "tls")]
pub type TlsStream = tokio_rustls::TlsStream<tokio::net::TcpStream>;
