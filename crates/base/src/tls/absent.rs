//! Trust in a build without TLS: the same names, of which no value exists.

use std::convert::Infallible;
use std::io;

use tokio::net::TcpStream;

/// Trusted roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust(Infallible);

/// This program has no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot be used: this program was built without tls")]
pub struct NoTls;

/// Why there is no trust.
pub use self::NoTls as TlsConfigError;

impl Trust {
    /// # Errors
    /// Always.
    pub fn new(_: Vec<Infallible>) -> Result<Self, TlsConfigError> {
        Err(NoTls)
    }

    /// The same.
    #[must_use]
    pub fn for_http1(self) -> Self {
        self
    }

    /// # Errors
    /// Never: there is no trust.
    pub async fn connect(&self, _: TcpStream, _: &str) -> io::Result<TcpStream> {
        match self.0 {}
    }

    /// Whether both are the same value.
    #[must_use]
    pub fn ptr_eq(&self, _: &Self) -> bool {
        match self.0 {}
    }
}

/// # Errors
/// Always.
pub fn system() -> Result<Vec<Infallible>, NoTls> {
    Err(NoTls)
}

/// # Errors
/// Always.
pub fn of_pem(_: &[u8]) -> Result<Vec<Infallible>, NoTls> {
    Err(NoTls)
}

/// Whether a certificate can name this host.
#[must_use]
pub fn is_server_name(host: &str) -> bool {
    !host.is_empty()
}

/// Whether the server's certificate was rejected.
#[must_use]
pub fn is_about_certificate(_: &io::Error) -> bool {
    false
}
