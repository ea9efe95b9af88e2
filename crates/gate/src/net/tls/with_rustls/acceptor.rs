//! The TLS acceptor: certificate selection, versions and session resumption.
//!
//! The certificate is chosen by the name that the client asks for: the name itself, then a wildcard for one label, then
//! the first certificate of the file. A client that asks for no name has connected to an address: it gets the certificate
//! of that address, then the first one for any address (the gate's own may be another one), then the first one. There is
//! no early data, because an eavesdropper can send it again. Tickets are encrypted by a [`SessionCache`] that outlives
//! every change of certificates. The handshake is left to [`handshake`](super::handshake).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions,
};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme, SupportedProtocolVersion, version};
use tokio::net::TcpStream;

use super::client_auth::ClientAuth;
use super::validations::{ValidationResolver, Validations, is_validation};
use super::{Certificate, TlsConfigError, provider};
use crate::net::stream::ACME_TLS;
use crate::net::tls::{MinVersion, OnDemand};

/// Resumes the sessions of returning clients. One for the life of a gate.
///
/// Made when the first listener of TLS is: the first random bytes of the cryptography cost tens of milliseconds.
#[derive(Clone)]
pub struct SessionCache(Arc<LazyLock<Resumption>>);

struct Resumption {
    sessions: Arc<dyn StoresServerSessions>,
    tickets: Option<Arc<dyn ProducesTickets>>,
}

/// The server side of TLS.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// For connections to the addresses that certificates name.
    by_address: HashMap<IpAddr, Arc<ServerConfig>>,
    names: Arc<CertNames>,
    on_demand: Option<Arc<OnDemand>>,
    /// Whether the fingerprints of clients are read.
    pub(super) reads_fingerprints: bool,
}

/// The certificates of each name, at one address.
#[derive(Debug)]
struct CertResolver {
    names: Arc<CertNames>,
    /// For clients that ask for no name.
    nameless: Vec<Arc<CertifiedKey>>,
    first: Option<Arc<CertifiedKey>>,
}

#[derive(Debug, Default)]
struct CertNames {
    exact: CertsByName,
    /// By the part behind `*.`.
    wildcard: CertsByName,
}

/// Several certificates of one name are of different kinds, as ECDSA and RSA.
type CertsByName = HashMap<String, Vec<Arc<CertifiedKey>>>;
type CertsByAddress = HashMap<IpAddr, Vec<Arc<CertifiedKey>>>;

impl SessionCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(LazyLock::new(Resumption::new)))
    }
}

impl Resumption {
    fn new() -> Self {
        // Without randomness for the key there are no tickets, and sessions are stored here.
        let tickets = Ticketer::new().ok();
        Self { sessions: ServerSessionMemoryCache::new(MAX_SESSIONS), tickets }
    }
}

impl Default for SessionCache {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCache(hidden)")
    }
}

impl Acceptor {
    /// An acceptor with these certificates; the first one is for clients that ask for no name, or for an unknown one.
    /// With `client_auth` it asks clients for theirs.
    ///
    /// # Errors
    /// [`TlsConfigError`], if the cryptography supports none of these versions.
    pub fn new(
        certificates: &[Certificate],
        minimum: MinVersion,
        cache: &SessionCache,
        protocols: &[&str],
        client_auth: Option<&ClientAuth>,
    ) -> Result<Self, TlsConfigError> {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(versions(minimum))?;
        let builder = match client_auth {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
            None => builder.with_no_client_auth(),
        };
        let (resolver, at_addresses) = CertResolver::all(certificates);
        let names = Arc::clone(&resolver.names);
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        if client_auth.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            config.session_storage = Arc::clone(&cache.0.sessions);
            cache.0.tickets.iter().for_each(|tickets| config.ticketer = Arc::clone(tickets));
        }
        // All suites are good, but scanners report a choice by the client as neglect.
        config.ignore_client_order = true;
        // The default, stated on purpose: a request that was sent twice must not be served twice.
        config.max_early_data_size = 0;
        let by_address = at_addresses.map(|(address, resolver)| {
            let mut there = config.clone();
            there.cert_resolver = Arc::new(resolver);
            (address, Arc::new(there))
        });
        let by_address = by_address.collect();
        let config = Arc::new(config);
        Ok(Self { config, by_address, names, on_demand: None, reads_fingerprints: false })
    }

    /// What serves this connection.
    pub(super) fn config_for(&self, stream: &TcpStream) -> Arc<ServerConfig> {
        // Without certificates for addresses the kernel is not asked.
        let found = match self.by_address.is_empty() {
            true => None,
            false => stream.local_addr().ok().and_then(|at| self.by_address.get(&at.ip().to_canonical())),
        };
        Arc::clone(found.unwrap_or(&self.config))
    }

    /// The same, reading the fingerprints of clients or not.
    #[must_use]
    pub fn with_fingerprints(self, reads_fingerprints: bool) -> Self {
        Self { reads_fingerprints, ..self }
    }

    /// The same, answering an authority that checks a name (tls-alpn-01) as well.
    #[must_use]
    pub fn answering(self, validations: &Arc<Validations>) -> Self {
        self.with_each(|config| {
            config.alpn_protocols.push(ACME_TLS.to_vec());
            let (validations, others) = (Arc::clone(validations), Arc::clone(&config.cert_resolver));
            config.cert_resolver = Arc::new(ValidationResolver { validations, others });
        })
    }

    /// The same, with certificates that are ordered when clients ask for their names. Before [`answering`](Self::answering).
    #[must_use]
    pub fn ordering(self, on_demand: &Arc<OnDemand>) -> Self {
        let names = Arc::clone(&self.names);
        let acceptor = self.with_each(|config| {
            let (on_demand, names) = (Arc::clone(on_demand), Arc::clone(&names));
            let others = Arc::clone(&config.cert_resolver);
            config.cert_resolver = Arc::new(DemandResolver { on_demand, names, others });
        });
        Self { on_demand: Some(Arc::clone(on_demand)), ..acceptor }
    }

    fn with_each(self, change: impl Fn(&mut ServerConfig)) -> Self {
        let changed = |config| {
            let mut config = Arc::unwrap_or_clone(config);
            change(&mut config);
            Arc::new(config)
        };
        let by_address = self.by_address.into_iter().map(|(address, config)| (address, changed(config)));
        Self { config: changed(self.config), by_address: by_address.collect(), ..self }
    }

    /// Whether handshakes may have to wait for certificates.
    pub(super) fn orders(&self) -> bool {
        self.on_demand.is_some()
    }

    /// What orders a certificate for this name, if none of the file fits.
    pub(super) fn demand_for(&self, hello: &ClientHello<'_>) -> Option<(&OnDemand, String)> {
        let on_demand = self.on_demand.as_deref()?;
        let name = hello.server_name()?.to_ascii_lowercase();
        (self.names.of(&name).is_empty() && !is_validation(hello)).then_some((on_demand, name))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(hidden)")
    }
}

fn versions(minimum: MinVersion) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match minimum {
        MinVersion::Tls12 => &BOTH,
        MinVersion::Tls13 => &BOTH[..1],
    }
}

impl CertResolver {
    /// The one for any address, and those for the addresses that certificates name.
    fn all(certificates: &[Certificate]) -> (Self, impl Iterator<Item = (IpAddr, Self)>) {
        let names = Arc::new(CertNames::new(certificates));
        let first = certificates.first().map(|certificate| Arc::clone(&certificate.pair));
        let mut addresses = CertsByAddress::new();
        for certificate in certificates {
            for address in certificate.addresses() {
                addresses.entry(*address).or_default().push(Arc::clone(&certificate.pair));
            }
        }
        let any = certificates.iter().flat_map(Certificate::addresses).find(|address| !address.is_loopback());
        let nameless = any.and_then(|address| addresses.get(address)).cloned().unwrap_or_default();
        let elsewhere = Self { names: Arc::clone(&names), nameless, first: first.clone() };
        let there = move |(address, nameless)| {
            (address, Self { names: Arc::clone(&names), nameless, first: first.clone() })
        };
        (elsewhere, addresses.into_iter().map(there))
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let found = match name {
            Some(name) => self.names.of(&name.to_ascii_lowercase()),
            None => self.nameless.as_slice(),
        };
        one_that_fits(found, schemes).or(self.first.as_ref()).map(Arc::clone)
    }
}

/// Shows certificates that clients asked for earlier to those whose name no other certificate has.
#[derive(Debug)]
struct DemandResolver {
    on_demand: Arc<OnDemand>,
    names: Arc<CertNames>,
    others: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for DemandResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let unknown = name.filter(|name| self.names.of(name).is_empty());
        let shown = unknown.and_then(|name| self.on_demand.show(&name, |known| Arc::clone(&known.pair)));
        shown.or_else(|| self.others.resolve(hello))
    }
}

impl CertNames {
    fn new(certificates: &[Certificate]) -> Self {
        let mut all = Self::default();
        for certificate in certificates {
            for name in certificate.names() {
                let (names, key) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut all.wildcard, parent),
                    None => (&mut all.exact, name.as_str()),
                };
                names.entry(key.to_owned()).or_default().push(Arc::clone(&certificate.pair));
            }
        }
        all
    }

    /// The certificates of a name in lower case.
    fn of(&self, name: &str) -> &[Arc<CertifiedKey>] {
        let parent = || self.wildcard.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(parent).map_or(&[], Vec::as_slice)
    }
}

/// The first certificate that the client can verify; if there is none, the client reports that itself.
fn one_that_fits<'k>(
    several: &'k [Arc<CertifiedKey>],
    schemes: &[SignatureScheme],
) -> Option<&'k Arc<CertifiedKey>> {
    let fits = |pair: &&Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
    match several {
        [only] => Some(only),
        _ => several.iter().find(fits).or(several.first()),
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

/// Sessions of TLS 1.2 clients without tickets.
const MAX_SESSIONS: usize = 4096;
