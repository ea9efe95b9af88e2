//! Builds the TLS acceptor from the certificates of the file.
//!
//! A gate that starts takes an expired certificate. A reload refuses one: the gate still has the certificate that it
//! runs with.

use crate::net::tls::{Acceptor, Certificate, SessionCache, TlsConfigError, TlsSettings};
use crate::time::Time;

/// The acceptor for these certificates; `None` without any.
pub(super) fn acceptor(
    settings: &TlsSettings,
    sessions: &SessionCache,
) -> Result<Option<Acceptor>, TlsConfigError> {
    if settings.certificates.is_empty() {
        return Ok(None);
    }
    Acceptor::new(&settings.certificates, settings.minimum, sessions, &PROTOCOLS).map(Some)
}

/// A certificate that has expired and is not in use yet.
pub(super) fn newly_expired<'n>(
    old: &TlsSettings,
    new: &'n TlsSettings,
    now: Time,
) -> Option<&'n Certificate> {
    let is_new = |certificate: &&Certificate| !old.certificates.contains(certificate);
    new.certificates.iter().filter(is_new).find(|certificate| certificate.expires() <= now)
}

/// The protocols offered by ALPN, the preferred one first.
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];
