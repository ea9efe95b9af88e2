//! TLS in a build without it: the same names, of which no value exists.
//!
//! The check of the configuration refuses every file that needs TLS, so none of this is ever called. The compiler
//! knows that as well: whatever would handle a certificate or a handshake is left out of the program.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::{MinVersion, OnDemand};
use crate::net::stream::NetStream;
pub use crate::net::tls_stream::{CertificateDer, common_name};
use crate::time::Time;
pub use tollgate_base::tls::{self as trust, NoTls, TlsConfigError, Trust, is_about_certificate};

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate(Infallible);

/// The server side of TLS.
#[derive(Debug, Clone)]
pub struct Acceptor(Infallible);

/// The authorities of clients' certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuth(Infallible);

/// Checks signatures.
#[derive(Debug, Clone, Copy)]
pub struct Ed25519(Infallible);

/// Sessions of returning clients: there are none.
#[derive(Debug, Clone, Default)]
pub struct SessionCache;

/// The answers of open orders: there are none.
#[derive(Debug, Default)]
pub struct Validations;

/// Why there is no authority.
pub use tollgate_base::tls::NoTls as ClientAuthError;

/// Why there is no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct CertificateError(NoTls);

impl CertificateError {
    /// It is about neither of the two files.
    #[must_use]
    pub fn is_about_the_key(self) -> bool {
        false
    }
}

impl Certificate {
    /// # Errors
    /// Always.
    pub fn from_pem(_: &[u8], _: &[u8], _: &str) -> Result<Self, CertificateError> {
        Err(CertificateError(NoTls))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// Its DNS names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        match self.0 {}
    }

    /// Whether it is for this name.
    #[must_use]
    pub fn is_for(&self, _: &str) -> bool {
        match self.0 {}
    }

    /// When it becomes valid.
    #[must_use]
    pub fn begins(&self) -> Time {
        match self.0 {}
    }

    /// Until when it is valid.
    #[must_use]
    pub fn expires(&self) -> Time {
        match self.0 {}
    }

    /// Whether its renewal is late.
    #[must_use]
    pub fn ends_soon(&self, _: Time) -> bool {
        match self.0 {}
    }
}

impl Ed25519 {
    /// None.
    #[must_use]
    pub fn new() -> Option<Self> {
        None
    }

    /// Whether the holder of this key signed the message.
    #[must_use]
    pub fn verifies(&self, _: &[u8; 32], _: &[u8], _: &[u8]) -> bool {
        match self.0 {}
    }
}

impl SessionCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Validations {
    /// The key authorization for a token.
    #[must_use]
    pub fn key_authorization(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

impl Acceptor {
    /// # Errors
    /// Always.
    pub fn new(
        _: &[Certificate],
        _: MinVersion,
        _: &SessionCache,
        _: &[&str],
        _: Option<&ClientAuth>,
    ) -> Result<Self, TlsConfigError> {
        Err(NoTls)
    }

    /// The same.
    #[must_use]
    pub fn with_fingerprints(self, _: bool) -> Self {
        self
    }

    /// The same.
    #[must_use]
    pub fn ordering(self, _: &Arc<OnDemand>) -> Self {
        self
    }

    /// The same.
    #[must_use]
    pub fn answering(self, _: &Arc<Validations>) -> Self {
        self
    }
}

impl ClientAuth {
    /// # Errors
    /// Always.
    pub fn from_pem(_: &[u8], _: bool) -> Result<Self, ClientAuthError> {
        Err(NoTls)
    }

    /// Whether a client without a certificate is turned away.
    #[must_use]
    pub fn is_required(&self) -> bool {
        match self.0 {}
    }
}

/// # Errors
/// Always.
pub fn name_in_der(_: &[u8]) -> Result<Option<String>, ClientAuthError> {
    Err(NoTls)
}

/// # Errors
/// Always.
pub fn name_in_pem(_: &[u8]) -> Result<Option<String>, ClientAuthError> {
    Err(NoTls)
}

/// # Errors
/// Never: there is no acceptor.
pub async fn accept(_: TcpStream, acceptor: &Acceptor) -> io::Result<NetStream> {
    match acceptor.0 {}
}

/// # Errors
/// Never: there is no trust.
pub async fn connect(stream: TcpStream, host: &str, trust: &Trust) -> io::Result<NetStream> {
    trust.connect(stream, host).await.map(NetStream::Tcp)
}

/// No fingerprint.
pub async fn fingerprint_of(_: &TcpStream, acceptor: &Acceptor) -> Option<String> {
    match acceptor.0 {}
}
