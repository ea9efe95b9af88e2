//! TLS by rustls, with the cryptography of aws-lc-rs.

mod acceptor;
mod certificate;
mod client_auth;
mod ed25519;
mod handshake;
mod ja4;
mod validations;

pub use self::acceptor::{Acceptor, SessionCache};
pub use self::certificate::{Certificate, CertificateError};
pub use self::client_auth::{ClientAuth, ClientAuthError, common_name, name_in_der, name_in_pem};
pub use self::ed25519::Ed25519;
pub use self::handshake::{accept, connect};
pub use self::ja4::fingerprint_of;
pub use self::validations::{OpenValidation, ValidationError, Validations};
pub use tollgate_base::tls::{self as trust, TlsConfigError, Trust, is_about_certificate};

use tollgate_base::tls::provider;
