//! The address of a store (`store.url`), parsed but not connected to.
//!
//! Each backend parses its own grammar. An address usually holds a password, so only its scheme is displayed, and parse
//! errors never repeat the input.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};

/// The address of a store.
#[derive(Clone)]
pub struct StoreAddress {
    url: Arc<str>,
    remote: Option<Arc<dyn Remote>>,
}

/// A parsed address of a database.
pub(super) trait Remote: Send + Sync {
    /// Opens the database. Connections are made on demand, and again when they break. Must be called within the runtime
    /// that sends the requests.
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError>;
}

/// A backend's parser of its addresses, scheme included. Its errors contain no secret.
pub(super) type ParseAddress = fn(&str) -> Result<Arc<dyn Remote>, BadStoreAddress>;

/// Why a text is not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStoreAddress {
    /// The scheme is unknown.
    #[error("not a store; stores are memory:, {}", super::SCHEMES.join(", "))]
    Unknown,
    /// This build leaves out the backend, whose feature this is.
    #[error("this program was built without {0}")]
    NotInThisBuild(&'static str),
    /// The backend cannot parse it. The text contains no secret.
    #[error("{0}")]
    Wrong(String),
}

impl StoreAddress {
    /// The address of this process's memory.
    #[must_use]
    pub fn memory() -> Self {
        Self { url: "memory:".into(), remote: None }
    }

    /// Whether other processes share the buckets.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.remote.is_some()
    }

    /// Files that the backend may read each time it connects: the values of all options.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let options = self.url.split_once('?').map_or("", |(_, options)| options);
        let values = options.split('&').filter_map(|option| option.split_once('='));
        values.map(|(_, path)| percent_decode_str(path).decode_utf8_lossy().into_owned().into())
    }

    /// Opens the database; `None` for the memory of this process.
    ///
    /// # Errors
    /// Errors that need no connection, such as an unreadable CA file.
    pub fn open(&self, namespace: &Namespace) -> Option<Result<Arc<dyn CompareAndSwap>, StoreError>> {
        Some(self.remote.as_ref()?.open(namespace))
    }
}

impl FromStr for StoreAddress {
    type Err = BadStoreAddress;

    fn from_str(text: &str) -> Result<Self, BadStoreAddress> {
        if text == "memory:" {
            return Ok(Self::memory());
        }
        let scheme = super::SCHEMES.into_iter().find(|scheme| text.starts_with(scheme));
        let scheme = scheme.ok_or(BadStoreAddress::Unknown)?;
        let parse = super::parser_of(scheme)
            .ok_or_else(|| BadStoreAddress::NotInThisBuild(super::feature_of(scheme)))?;
        let remote = parse(text)?;
        Ok(Self { url: text.into(), remote: Some(remote) })
    }
}

impl From<&str> for BadStoreAddress {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<String> for BadStoreAddress {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl PartialEq for StoreAddress {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.split(':').next().unwrap_or_default())
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreAddress({self})")
    }
}

/// Whether traffic to this name or address, without brackets, stays on this machine.
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql", feature = "dynamodb"))]
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}
