//! TLS by rustls: towards clients with certificates of the operator's, towards servers with roots to trust.
//!
//! The provider of cryptography is aws-lc-rs, named here and nowhere else; the process-wide default is never asked for.
//! The surprising thing: everything is a value that is built whole and then swapped, so a connection never sees half of a
//! new certificate.

mod acceptor;
pub mod certificate;
mod handshake;
pub mod trust;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;

pub use self::acceptor::{Acceptor, MinVersion, SessionCache};
pub use self::certificate::Certificate;
pub use self::handshake::{accept, connect, is_about_certificate};
pub use self::trust::Trust;

/// What the file says about clients that speak TLS, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// The first is for clients that ask for no name, or one that nobody has.
    pub certificates: Vec<Certificate>,
    /// The oldest version that is spoken.
    pub minimum: MinVersion,
}

/// TLS cannot be had with what this program was built with.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be had: {0}")]
pub struct TlsConfigError(rustls::Error);

/// Cryptography for both sides.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
