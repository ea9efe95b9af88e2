//! Builds the TLS acceptor from the certificates of the file.
//!
//! The surprising thing: a gate that starts takes an expired certificate, and one that runs does not take it over: it has a
//! better one.

use crate::net::tls::{Acceptor, Certificate, SessionCache, TlsConfigError, TlsSettings};
use crate::time::Time;

/// Shakes hands with these certificates; `None` without any.
pub(super) fn acceptor(
    settings: &TlsSettings,
    memory: &SessionCache,
) -> Result<Option<Acceptor>, TlsConfigError> {
    if settings.certificates.is_empty() {
        return Ok(None);
    }
    Acceptor::new(&settings.certificates, settings.minimum, memory, &PROTOCOLS).map(Some)
}

/// A certificate that has expired and does not run already.
pub(super) fn newly_expired<'n>(
    old: &TlsSettings,
    new: &'n TlsSettings,
    now: Time,
) -> Option<&'n Certificate> {
    let is_new = |certificate: &&Certificate| !old.certificates.contains(certificate);
    new.certificates.iter().filter(is_new).find(|certificate| certificate.expires() <= now)
}

/// What is spoken inside, the best first (ALPN).
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];
