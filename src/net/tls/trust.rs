//! Trusted roots for connections to upstreams and stores: the system's, or a file of the operator's.
//!
//! Roots are read on each call, not once per process, so a new root needs no restart. The handshake is left to
//! [`connect`](super::connect).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::{TlsConfigError, provider};

/// Trusted roots, and a client configuration that trusts them.
#[derive(Clone)]
pub struct Trust {
    roots: Arc<[CertificateDer<'static>]>,
    pub(super) config: Arc<ClientConfig>,
}

/// Why there are no roots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustRootsError {
    /// The file cannot be read, or holds an invalid certificate.
    #[error("the file of roots: {0}")]
    Invalid(String),
    /// There is no root.
    #[error("there are no roots to trust")]
    Empty,
}

impl Trust {
    /// Trust in these roots, for a server that speaks this protocol (ALPN).
    ///
    /// # Errors
    /// [`TlsConfigError`], if the cryptography has no version of TLS.
    pub fn new(roots: Vec<CertificateDer<'static>>, protocol: &str) -> Result<Self, TlsConfigError> {
        let mut config = client_config(roots.clone())?;
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Self { roots: roots.into(), config: Arc::new(config) })
    }

    /// Whether both are the same value, and not only the same roots.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        self.roots == other.roots
    }
}

impl Eq for Trust {}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({} roots)", self.roots.len())
    }
}

/// A client configuration that trusts these roots; unusable ones are left out.
///
/// # Errors
/// [`TlsConfigError`], if the cryptography has no version of TLS.
pub fn client_config(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, TlsConfigError> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(TlsConfigError)?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// The system's roots; never empty.
///
/// # Errors
/// [`TrustRootsError::Empty`].
pub fn system() -> Result<Vec<CertificateDer<'static>>, TrustRootsError> {
    // Certificates that cannot be read are left out: one damaged file among hundreds must not disable all roots.
    some(rustls_native_certs::load_native_certs().certs.into_iter().filter(is_root).collect())
}

/// The certificates of a PEM file; never empty. All of them must be valid, because the operator chose each.
///
/// # Errors
/// See [`TrustRootsError`].
pub fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustRootsError> {
    of_pem(&std::fs::read(path).map_err(|error| TrustRootsError::Invalid(error.to_string()))?)
}

/// The same for a text in PEM.
///
/// # Errors
/// See [`TrustRootsError`].
pub fn of_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustRootsError> {
    let mut found = Vec::new();
    for root in CertificateDer::pem_slice_iter(text) {
        let root = root.map_err(|error| TrustRootsError::Invalid(error.to_string()))?;
        if !is_root(&root) {
            return Err(TrustRootsError::Invalid("holds a certificate that cannot be read".to_owned()));
        }
        found.push(root);
    }
    some(found)
}

/// Whether a certificate can name this host: a DNS name or an address without brackets.
#[must_use]
pub fn is_server_name(host: &str) -> bool {
    ServerName::try_from(host).is_ok()
}

fn is_root(root: &CertificateDer<'static>) -> bool {
    RootCertStore::empty().add(root.clone()).is_ok()
}

fn some(roots: Vec<CertificateDer<'static>>) -> Result<Vec<CertificateDer<'static>>, TrustRootsError> {
    if roots.is_empty() { Err(TrustRootsError::Empty) } else { Ok(roots) }
}
