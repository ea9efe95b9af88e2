//! Queues store requests by bucket.
//!
//! Whoever comes first for a bucket sees to it; the others wait for the next round, in which all of them are decided
//! together. So there is one swap in flight for each bucket and process, however many attempts there are. The surprising thing:
//! an empty list means that somebody is at it, and no list that nobody is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::request::StoreRequest;
use crate::bucket::Key;

/// Jobs by bucket.
#[derive(Debug)]
pub(super) struct RequestQueue {
    shards: Box<[Mutex<RequestsByKey>]>,
}

type RequestsByKey = HashMap<u128, Vec<StoreRequest>, BuildHasherDefault<AlreadyHashed>>;

/// Keys are hashes under a secret already.
#[derive(Debug, Default)]
pub(super) struct AlreadyHashed(u64);

impl Default for RequestQueue {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl RequestQueue {
    /// Adds a job. Says whether nobody sees to this bucket yet: then the caller has to have it done.
    pub(super) fn push(&self, job: StoreRequest) -> bool {
        let mut waiting = self.shard(job.bucket.key);
        match waiting.get_mut(&job.bucket.key.0) {
            Some(jobs) => {
                jobs.push(job);
                false
            }
            None => {
                waiting.insert(job.bucket.key.0, vec![job]);
                true
            }
        }
    }

    /// All jobs for this bucket; `None` if there are none, and then nobody sees to it any more.
    pub(super) fn take(&self, key: Key) -> Option<Vec<StoreRequest>> {
        let mut waiting = self.shard(key);
        let jobs = waiting.get_mut(&key.0)?;
        if jobs.is_empty() {
            waiting.remove(&key.0);
            return None;
        }
        Some(std::mem::take(jobs))
    }

    /// Forgets whatever waits for this bucket, so that the next one who comes sees to it.
    pub(super) fn abandon(&self, key: Key) -> Option<Vec<StoreRequest>> {
        self.shard(key).remove(&key.0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_ok_and(|waiting| waiting.is_empty()))
    }

    fn shard(&self, Key(key): Key) -> MutexGuard<'_, RequestsByKey> {
        // The lower half, since the upper one picks a line of the mirror.
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
