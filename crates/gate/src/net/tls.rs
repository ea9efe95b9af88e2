//! TLS by rustls: towards clients with the operator's certificates, towards servers with trusted roots.
//!
//! The provider of cryptography is aws-lc-rs, named only here; the process-wide default is never used. Every
//! configuration is built whole and then swapped, so a connection never sees half of a new certificate. Watching files
//! is left to the reload. A build without the feature `tls` has the same names from `absent`.

#[cfg(not(feature = "tls"))]
mod absent;
pub mod acme;
mod on_demand;
#[cfg(feature = "tls")]
mod with_rustls;

#[cfg(not(feature = "tls"))]
pub use self::absent::*;
pub use self::acme::{AcmeSettings, DnsHook, ExternalAccount, ValidationMethod};
pub use self::on_demand::{AllowedNames, OnDemand, OnDemandSettings};
#[cfg(feature = "tls")]
pub use self::with_rustls::*;

/// The oldest version that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinVersion {
    /// TLS 1.2, with forward secrecy and authenticated encryption only.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The only common name of a certificate as text; `None` for one that is empty or longer than 256 bytes.
#[must_use]
pub fn single_name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (1..=MAX_NAME).contains(&text.len()).then(|| text.to_owned())
}

const MAX_NAME: usize = 256;

/// The file's settings for clients that speak TLS, checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// The first one is for clients that ask for no name, or for an unknown one. Those of an authority come last.
    pub certificates: Vec<Certificate>,
    /// The certificates that an authority issues to the gate itself.
    pub acme: Option<AcmeSettings>,
    /// The oldest version that is accepted.
    pub minimum: MinVersion,
    /// Whose certificates clients may show, or have to.
    pub client_auth: Option<ClientAuth>,
    /// Whether the fingerprints of clients are read.
    pub reads_fingerprints: bool,
}
