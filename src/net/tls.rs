//! TLS by rustls: towards clients with the operator's certificates, towards servers with trusted roots.
//!
//! The provider of cryptography is aws-lc-rs, named only here; the process-wide default is never used. Every
//! configuration is built whole and then swapped, so a connection never sees half of a new certificate. Watching files
//! is left to the reload.

mod acceptor;
pub mod acme;
pub mod certificate;
mod challenges;
mod client_auth;
mod handshake;
mod ja4;

pub use self::acceptor::{Acceptor, MinVersion, SessionCache};
pub use self::acme::{AcmeSettings, ChallengeKind};
pub use self::certificate::Certificate;
pub use self::challenges::{ChallengeError, Challenges, OpenChallenge};
pub use self::client_auth::{ClientAuth, ClientAuthError, common_name};
pub use self::handshake::{accept, connect, is_about_certificate, ja4_of};
pub use tollgate_store::tls::{self as trust, TlsConfigError, Trust};

use tollgate_store::tls::provider;

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
    /// Whether a limit tells clients apart by JA4.
    pub has_ja4: bool,
}
