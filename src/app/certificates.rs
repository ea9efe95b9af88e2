//! Certificates on their way from the file to those who shake hands.
//!
//! The surprising thing: a gate that starts takes an expired certificate, and one that runs does not take it over: it has a
//! better one.

use crate::net::tls::{Certificate, Doorkeeper, Memory, Settings, Unusable};
use crate::time::Time;

/// Shakes hands with these certificates; `None` without any.
pub(super) fn doorkeeper(settings: &Settings, memory: &Memory) -> Result<Option<Doorkeeper>, Unusable> {
    if settings.certificates.is_empty() {
        return Ok(None);
    }
    Doorkeeper::new(&settings.certificates, settings.minimum, memory, &PROTOCOLS).map(Some)
}

/// A certificate that has expired and does not run already.
pub(super) fn newly_expired<'n>(old: &Settings, new: &'n Settings, now: Time) -> Option<&'n Certificate> {
    let is_new = |certificate: &&Certificate| !old.certificates.contains(certificate);
    new.certificates.iter().filter(is_new).find(|certificate| certificate.expires() <= now)
}

/// What is spoken inside, the best first (ALPN).
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];
