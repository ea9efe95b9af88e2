//! TLS to databases and other servers, by rustls: whom to trust. The system's roots, or a file of the operator's.
//!
//! The provider of cryptography is aws-lc-rs, named here and nowhere else; the process-wide default is never used. Roots
//! are read when they are needed, not once per process, so a new root needs no restart.

#[cfg(feature = "postgres")]
mod lenient;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "postgres")]
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

#[cfg(feature = "postgres")]
use self::lenient::LenientVerifier;

#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql", feature = "dynamodb"))]
use super::compare_and_swap::StoreError;

/// Trusted roots, and a client configuration that trusts them.
#[derive(Clone)]
pub struct Trust {
    roots: Arc<[CertificateDer<'static>]>,
    config: Arc<ClientConfig>,
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

    /// The configuration for the client side of a handshake.
    #[must_use]
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
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
    let builder = builder.with_safe_default_protocol_versions()?;
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

/// Cryptography for both sides.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The cryptography of this build provides no TLS.
#[derive(Debug, thiserror::Error)]
#[error("TLS is not available: {0}")]
pub struct TlsConfigError(#[from] rustls::Error);

/// A client that trusts the system's roots, or only those of this PEM file.
///
/// # Errors
/// [`StoreError::Refused`] if there are none, or the file cannot be read.
#[cfg(any(feature = "redis", feature = "postgres", feature = "dynamodb"))]
pub(crate) fn client(file: Option<&Path>) -> Result<ClientConfig, StoreError> {
    client_config(roots(file)?).map_err(|error| StoreError::Refused(error.to_string()))
}

/// The same, whatever name the server's certificate bears.
///
/// # Errors
/// As [`client`].
#[cfg(feature = "postgres")]
pub(crate) fn client_of_any_name(file: Option<&Path>) -> Result<ClientConfig, StoreError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots(file)?);
    let authority = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider()).build();
    lenient_client(Some(authority.map_err(|error| StoreError::Refused(error.to_string()))?))
}

/// A client that takes any certificate.
///
/// # Errors
/// [`StoreError::Refused`], if the cryptography has no version of TLS.
#[cfg(feature = "postgres")]
pub(crate) fn unchecked_client() -> Result<ClientConfig, StoreError> {
    lenient_client(None)
}

#[cfg(feature = "postgres")]
fn lenient_client(authority: Option<Arc<WebPkiServerVerifier>>) -> Result<ClientConfig, StoreError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| StoreError::Refused(error.to_string()))?;
    let verifier = LenientVerifier { authority, provider: provider() };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// The certificates of this PEM file, or the system's, for a driver that builds the rest itself; never empty.
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql", feature = "dynamodb"))]
pub(crate) fn roots(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = file.map_or_else(system, of_file);
    found.map_err(|error| StoreError::Refused(error.to_string()))
}
