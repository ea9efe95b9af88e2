//! Trust by rustls. The provider of cryptography is aws-lc-rs, named here and nowhere else; the process-wide default is
//! never used.

mod lenient;
mod rejected;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::lenient::LenientVerifier;
use self::rejected::RejectedCertificate;

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

/// Why there is no client that checks servers.
#[derive(Debug, thiserror::Error)]
pub enum TlsClientError {
    /// There is nothing to check them by.
    #[error(transparent)]
    Roots(#[from] TrustRootsError),
    /// See [`TlsConfigError`].
    #[error(transparent)]
    Config(#[from] TlsConfigError),
}

/// The cryptography of this build provides no TLS.
#[derive(Debug, thiserror::Error)]
#[error("TLS is not available: {0}")]
pub struct TlsConfigError(#[from] rustls::Error);

impl Trust {
    /// Trust in these roots; unusable ones are left out.
    ///
    /// # Errors
    /// [`TlsConfigError`], if the cryptography has no version of TLS.
    pub fn new(roots: Vec<CertificateDer<'static>>) -> Result<Self, TlsConfigError> {
        let config = Arc::new(client_config(roots.clone())?);
        Ok(Self { roots: roots.into(), config })
    }

    /// Trust in the system's roots, or only in those of this PEM file.
    ///
    /// # Errors
    /// See [`TlsClientError`].
    pub fn from_roots(file: Option<&Path>) -> Result<Self, TlsClientError> {
        Ok(Self::new(roots(file)?)?)
    }

    /// The same for servers of which HTTP/1.1 is asked (ALPN).
    #[must_use]
    pub fn for_http1(mut self) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![b"http/1.1".to_vec()];
        self
    }

    /// Makes the handshake with a server that has to be `host`: a name, or an address without brackets.
    ///
    /// # Errors
    /// The server cannot prove that ([`is_about_certificate`]), speaks no TLS, or has gone.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await.map_err(rejected::in_words)
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

/// Whether the server's certificate was rejected.
#[must_use]
pub fn is_about_certificate(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<RejectedCertificate>())
}

/// The certificates of this PEM file, or the system's; never empty.
///
/// # Errors
/// [`TlsClientError::Roots`].
pub fn roots(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsClientError> {
    Ok(file.map_or_else(system, of_file)?)
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
fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustRootsError> {
    of_pem(&std::fs::read(path).map_err(|error| TrustRootsError::Invalid(error.to_string()))?)
}

/// The certificates of a text in PEM; never empty. All of them must be valid, because the operator chose each.
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

/// A client configuration that trusts the system's roots, or only those of this PEM file, for a driver that does the rest
/// itself.
///
/// # Errors
/// See [`TlsClientError`].
pub fn client(file: Option<&Path>) -> Result<ClientConfig, TlsClientError> {
    Ok(client_config(roots(file)?)?)
}

/// The same, whatever name the server's certificate bears.
///
/// # Errors
/// See [`TlsClientError`].
pub fn client_of_any_name(file: Option<&Path>) -> Result<ClientConfig, TlsClientError> {
    let store = Arc::new(store_of(roots(file)?));
    let authority = WebPkiServerVerifier::builder_with_provider(store, provider()).build();
    let authority = authority.map_err(|error| TrustRootsError::Invalid(error.to_string()))?;
    Ok(lenient_client(Some(authority))?)
}

/// A client configuration that takes any certificate.
///
/// # Errors
/// [`TlsClientError::Config`].
pub fn unchecked_client() -> Result<ClientConfig, TlsClientError> {
    Ok(lenient_client(None)?)
}

fn client_config(roots: Vec<CertificateDer<'static>>) -> Result<ClientConfig, TlsConfigError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(store_of(roots)).with_no_client_auth())
}

fn lenient_client(authority: Option<Arc<WebPkiServerVerifier>>) -> Result<ClientConfig, TlsConfigError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let verifier = LenientVerifier { authority, provider: provider() };
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Unusable roots are left out.
fn store_of(roots: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    store
}
