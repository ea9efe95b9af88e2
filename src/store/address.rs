//! The address of a store (`store.url`), parsed but not connected to.
//!
//! Each backend reads its own grammar. The surprising thing: an address holds a password as a rule, so it is shown as its
//! scheme only, and a mistake in it never repeats what was written.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};

/// Where the buckets are.
#[derive(Clone)]
pub struct StoreAddress {
    url: Arc<str>,
    remote: Option<Arc<dyn Remote>>,
}

/// A database that can be connected to.
pub(super) trait Remote: Send + Sync {
    /// Prepares to ask it; connections are made when they are needed, and again when they break. Has to be called within
    /// the runtime that the questions are asked in.
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError>;
}

/// How a backend reads its address, scheme and all. A mistake is said in words that repeat nothing secret.
pub(super) type ParseAddress = fn(&str) -> Result<Arc<dyn Remote>, String>;

/// Not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStoreAddress {
    /// Nothing that anybody knows.
    #[error("not a store; stores are {}", SCHEMES.join(", "))]
    Unknown,
    /// Left out of this build.
    #[error("this build has no support for `{0}`")]
    NotInThisBuild(&'static str),
    /// The backend cannot read it.
    #[error("{0}")]
    Wrong(String),
}

impl StoreAddress {
    /// The memory of this process.
    #[must_use]
    pub fn memory() -> Self {
        Self { url: "memory:".into(), remote: None }
    }

    /// Whether other processes see what is written here.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.remote.is_some()
    }

    /// Files that the database's backend may read each time it connects: whatever its options name.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let options = self.url.split_once('?').map_or("", |(_, options)| options);
        let values = options.split('&').filter_map(|option| option.split_once('='));
        values.map(|(_, path)| percent_decode_str(path).decode_utf8_lossy().into_owned().into())
    }

    /// Prepares to ask the database; `None` for the memory of this process.
    ///
    /// # Errors
    /// What can be known without asking it.
    pub fn open(&self, names: &Namespace) -> Option<Result<Arc<dyn CompareAndSwap>, StoreError>> {
        Some(self.remote.as_ref()?.open(names))
    }
}

impl FromStr for StoreAddress {
    type Err = BadStoreAddress;

    fn from_str(text: &str) -> Result<Self, BadStoreAddress> {
        if text == "memory:" {
            return Ok(Self::memory());
        }
        let (scheme, _) = text.split_once("://").ok_or(BadStoreAddress::Unknown)?;
        let known = |name: &&&str| name.strip_suffix("://") == Some(scheme);
        let name = SCHEMES.iter().find(known).ok_or(BadStoreAddress::Unknown)?;
        let parse = super::parser_of(scheme).ok_or(BadStoreAddress::NotInThisBuild(name))?;
        let remote = parse(text).map_err(BadStoreAddress::Wrong)?;
        Ok(Self { url: text.into(), remote: Some(remote) })
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
        write!(f, "Address({self})")
    }
}

const SCHEMES: [&str; 8] = [
    "memory:",
    "redis://",
    "rediss://",
    "redis-cluster://",
    "memcached://",
    "postgres://",
    "mysql://",
    "dynamodb://",
];
