//! Limits that count bytes of answers instead of attempts: `unit = "bytes"`.
//!
//! They refuse nothing: an answer waits until its bucket has the bytes. What keeps the buckets is a module of a higher
//! layer, like a [`Defence`](super::Defence); the proxy passes an answer on by a [`Pace`], and knows no more of it.

use std::fmt::Debug;
use std::sync::Arc;

use super::Policy;
use super::limit::Limit;
use tollgate_bucket::{Key, Span, Time};

/// A limit that counts bytes.
pub trait ByteLimit: Debug + Send + Sync {
    /// Its name, key, mode and exempt clients. It has no buckets of attempts.
    fn limit(&self) -> &Limit;

    /// What it lets through, as in `at most 50MB at once, then 10MB a second`.
    fn describe(&self) -> String;

    /// The buckets that are not full, and those that were forgotten for others.
    fn usage(&self, now: Time) -> (usize, u64);

    /// The bytes that had to wait for nothing so far, and those that waited, or would have if it did not only observe.
    fn passed(&self) -> [u64; 2];

    /// The most bytes that are taken of a bucket at once.
    fn piece(&self, bucket: Key, now: Time) -> usize;

    /// Takes so many bytes of a bucket, in advance if it lacks them. They may pass after this time.
    fn take(&self, bucket: Key, bytes: usize, now: Time) -> Span;

    /// Gives bytes back that did not pass.
    fn give_back(&self, bucket: Key, bytes: usize);
}

/// A bucket of bytes that an answer passes by.
#[derive(Debug, Clone)]
pub struct Pace {
    /// The limit.
    pub limit: Arc<dyn ByteLimit>,
    /// Its bucket.
    pub bucket: Key,
}

impl Policy {
    /// The limits that count bytes, as far as they apply to a route.
    #[must_use]
    pub fn byte_limits(&self) -> &[Arc<dyn ByteLimit>] {
        let mut of_routes = self.routes.iter().map(|route| route.defences.byte_limits());
        of_routes.find(|limits| !limits.is_empty()).unwrap_or_default()
    }
}
