//! Builds the TLS acceptors from the certificates of the file: for clients, and for the admin pages.
//!
//! A gate that starts takes an expired certificate. A reload refuses one: the gate still has the certificate that it
//! runs with.

use crate::config::Config;
use crate::net::listener::ListenAddress;
use crate::net::tls::{Acceptor, Certificate, SessionCache, TlsConfigError, TlsSettings};
use crate::observe::admin::AdminSettings;
use crate::time::Time;

/// The acceptor for these certificates; `None` without any.
fn acceptor(settings: &TlsSettings, sessions: &SessionCache) -> Result<Option<Acceptor>, TlsConfigError> {
    if settings.certificates.is_empty() {
        return Ok(None);
    }
    Acceptor::new(&settings.certificates, settings.minimum, sessions, &PROTOCOLS).map(Some)
}

/// Both of what a configuration makes of its certificates.
pub(super) fn acceptors(
    config: &Config,
    sessions: &SessionCache,
) -> Result<(Option<Acceptor>, AdminSettings), TlsConfigError> {
    Ok((acceptor(&config.tls, sessions)?, admin_settings(config, sessions)?))
}

/// What the admin pages take from this configuration. They speak HTTP/1 alone.
fn admin_settings(config: &Config, sessions: &SessionCache) -> Result<AdminSettings, TlsConfigError> {
    let certificates = &config.tls.certificates;
    let tls = match config.admin.iter().any(ListenAddress::is_tls) && !certificates.is_empty() {
        true => Some(Acceptor::new(certificates, config.tls.minimum, sessions, &PROTOCOLS[1..])?),
        false => None,
    };
    let hosts = certificates.iter().flat_map(Certificate::names).cloned().collect();
    Ok(AdminSettings { token: config.admin_token.clone(), hosts, tls })
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
