//! Queues store requests by bucket.
//!
//! The first request for a bucket needs a worker; later ones wait for its next batch, in which all of them are decided
//! together. So each process has one swap in flight per bucket, however many attempts there are. Deciding is left to
//! [`batch`](super::batch).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::request::StoreRequest;
use tollgate_bucket::Key;

/// Requests by bucket. An empty list means that a worker is running, no list that none is.
#[derive(Debug)]
pub(super) struct RequestQueue {
    shards: Box<[Mutex<RequestsByKey>]>,
}

type RequestsByKey = HashMap<u128, Vec<StoreRequest>, BuildHasherDefault<AlreadyHashed>>;

/// The hasher for keys, which are keyed hashes already.
#[derive(Debug, Default)]
pub(super) struct AlreadyHashed(u64);

impl Default for RequestQueue {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl RequestQueue {
    /// Adds a request. Returns whether the bucket has no worker yet: then the caller must start one.
    pub(super) fn push(&self, request: StoreRequest) -> bool {
        let mut waiting = self.shard(request.bucket.key);
        match waiting.get_mut(&request.bucket.key.0) {
            Some(requests) => {
                requests.push(request);
                false
            }
            None => {
                waiting.insert(request.bucket.key.0, vec![request]);
                true
            }
        }
    }

    /// Takes all requests for this bucket; `None` if there are none, and then its worker must end.
    pub(super) fn take(&self, key: Key) -> Option<Vec<StoreRequest>> {
        let mut waiting = self.shard(key);
        let requests = waiting.get_mut(&key.0)?;
        if requests.is_empty() {
            waiting.remove(&key.0);
            return None;
        }
        Some(std::mem::take(requests))
    }

    /// Removes the requests of a worker that was cut short, so that the next request gets a new one.
    pub(super) fn abandon(&self, key: Key) -> Option<Vec<StoreRequest>> {
        self.shard(key).remove(&key.0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_ok_and(|waiting| waiting.is_empty()))
    }

    fn shard(&self, Key(key): Key) -> MutexGuard<'_, RequestsByKey> {
        // The lower half, because the upper half picks a line of the mirror.
        let shard = usize::try_from(key % SHARDS as u128).unwrap_or(0);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hasher for AlreadyHashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the middle of a hash")]
    fn write_u128(&mut self, key: u128) {
        self.0 = (key >> 32) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const SHARDS: usize = 64;
