//! The TLS acceptor: certificate selection, versions and session resumption.
//!
//! The certificate is chosen by the name that the client asks for: the name itself, then a wildcard for one label, then
//! the first certificate of the file. There is no early data, because an eavesdropper can send it again. Tickets are
//! encrypted by a [`SessionCache`] that outlives every change of certificates. The handshake is left to
//! [`handshake`](super::handshake).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions,
};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SignatureScheme, SupportedProtocolVersion, version};

use super::client_auth::ClientAuth;
use super::validations::{ValidationResolver, Validations};
use super::{Certificate, TlsConfigError, provider};
use crate::net::stream::ACME_TLS;
use crate::net::tls::MinVersion;

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
    pub(super) config: Arc<ServerConfig>,
    /// Whether the fingerprints of clients are read.
    pub(super) reads_fingerprints: bool,
}

/// The certificates of each name.
#[derive(Debug)]
struct CertResolver {
    exact: CertsByName,
    /// By the part behind `*.`.
    wildcard: CertsByName,
    first: Option<Arc<CertifiedKey>>,
}

/// Several certificates of one name are of different kinds, as ECDSA and RSA.
type CertsByName = HashMap<String, Vec<Arc<CertifiedKey>>>;

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
        let resolver = Arc::new(CertResolver::new(certificates));
        let builder = match client_auth {
            Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(resolver);
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
        Ok(Self { config: Arc::new(config), reads_fingerprints: false })
    }

    /// The same, reading the fingerprints of clients or not.
    #[must_use]
    pub fn with_fingerprints(self, reads_fingerprints: bool) -> Self {
        Self { reads_fingerprints, ..self }
    }

    /// The same, answering an authority that checks a name (tls-alpn-01) as well.
    #[must_use]
    pub fn answering(self, validations: &Arc<Validations>) -> Self {
        let mut config = Arc::unwrap_or_clone(self.config);
        config.alpn_protocols.push(ACME_TLS.to_vec());
        let (validations, others) = (Arc::clone(validations), config.cert_resolver);
        config.cert_resolver = Arc::new(ValidationResolver { validations, others });
        Self { config: Arc::new(config), ..self }
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
    fn new(certificates: &[Certificate]) -> Self {
        let (mut exact, mut wildcard) = (CertsByName::new(), CertsByName::new());
        for certificate in certificates {
            for name in certificate.names() {
                let (names, key) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut wildcard, parent),
                    None => (&mut exact, name.as_str()),
                };
                names.entry(key.to_owned()).or_default().push(Arc::clone(&certificate.pair));
            }
        }
        let first = certificates.first().map(|certificate| Arc::clone(&certificate.pair));
        Self { exact, wildcard, first }
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let found = name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let parent = || self.wildcard.get(name.split_once('.')?.1);
            self.exact.get(&name).or_else(parent)
        });
        found.and_then(|fitting| one_that_fits(fitting, schemes)).or(self.first.as_ref()).map(Arc::clone)
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
