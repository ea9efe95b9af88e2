//! Builds the TLS acceptors from the certificates of the file: for clients, and for the admin pages.
//!
//! A gate that starts takes an expired certificate. A reload refuses one: the gate still has the certificate that it
//! runs with.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::{Config, OperatorSettings};
use crate::net::listener::ListenAddress;
use crate::net::tls::{
    Acceptor, AcmeSettings, Certificate, OnDemand, SessionCache, TlsConfigError, TlsSettings,
    ValidationMethod, Validations,
};
use crate::observe::admin::AdminSettings;
use crate::proxy::request::validation::ValidationHosts;
use crate::time::Time;

/// What TLS keeps while certificates and configurations change.
pub(super) struct TlsState {
    /// For the life of the gate, also when certificates change.
    sessions: SessionCache,
    /// Answers to an authority, while an order is open.
    pub(super) validations: Arc<Validations>,
    /// Certificates that clients' handshakes ask for.
    pub(super) on_demand: Arc<OnDemand>,
    /// The settings in force.
    pub(super) settings: ArcSwap<TlsSettings>,
}

impl TlsState {
    pub(super) fn new(settings: &TlsSettings) -> Self {
        let (sessions, validations, on_demand) = (SessionCache::new(), Arc::default(), Arc::default());
        let state = Self { sessions, validations, on_demand, settings: ArcSwap::default() };
        state.set(settings.clone());
        state
    }

    /// Puts these settings in force.
    pub(super) fn set(&self, settings: TlsSettings) {
        self.on_demand.set(settings.acme.as_ref().and_then(|acme| acme.on_demand.as_ref()));
        self.settings.store(Arc::new(settings));
    }

    /// Both of what a configuration makes of its certificates.
    pub(super) fn acceptors(
        &self,
        config: &Config,
    ) -> Result<(Option<Acceptor>, AdminSettings), TlsConfigError> {
        Ok((self.acceptor(&config.front.tls)?, admin_settings(config, &self.sessions)?))
    }

    /// The names that are proved by requests; `None` if there are none.
    pub(super) fn validation_hosts(&self, settings: &TlsSettings) -> Option<ValidationHosts> {
        let acme = settings.acme.as_ref().filter(|acme| acme.validation == ValidationMethod::Http01)?;
        let names = acme.domains.iter().map(|(name, _)| name.clone()).collect();
        Some(ValidationHosts { names, validations: Arc::clone(&self.validations) })
    }

    /// The acceptor for these certificates, and for the validations of an authority; `None` without either.
    fn acceptor(&self, settings: &TlsSettings) -> Result<Option<Acceptor>, TlsConfigError> {
        if settings.certificates.is_empty() && settings.acme.is_none() {
            return Ok(None);
        }
        let TlsSettings { certificates, minimum, client_auth, .. } = settings;
        let acceptor =
            Acceptor::new(certificates, *minimum, &self.sessions, &PROTOCOLS, client_auth.as_ref())?
                .with_fingerprints(settings.reads_fingerprints);
        let acceptor = match settings.acme.as_ref().is_some_and(|acme| acme.on_demand.is_some()) {
            true => acceptor.ordering(&self.on_demand),
            false => acceptor,
        };
        let is_by_handshake = |acme: &AcmeSettings| acme.validation == ValidationMethod::TlsAlpn01;
        let is_validated = settings.acme.as_ref().is_some_and(is_by_handshake);
        Ok(Some(if is_validated { acceptor.answering(&self.validations) } else { acceptor }))
    }
}

#[cfg(not(feature = "acme"))]
impl super::Parts {
    /// Nothing, for ever: the check refuses `tls.acme`.
    pub(super) async fn keep_certificates(&self) {
        std::future::pending().await
    }
}

/// What the admin pages take from this configuration. They speak HTTP/1 alone.
fn admin_settings(config: &Config, sessions: &SessionCache) -> Result<AdminSettings, TlsConfigError> {
    let certificates = &config.front.tls.certificates;
    let tls = match config.operators.admin.iter().any(ListenAddress::is_tls) && !certificates.is_empty() {
        true => Some(Acceptor::new(certificates, config.front.tls.minimum, sessions, &PROTOCOLS[1..], None)?),
        false => None,
    };
    let hosts = certificates.iter().flat_map(Certificate::names).cloned().collect();
    let OperatorSettings { tokens, exempts_operators, .. } = &config.operators;
    Ok(AdminSettings { tokens: tokens.clone(), hosts, tls, exempts_operators: *exempts_operators })
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
