//! The buckets that a gate could write back if the store lost them: those that it saw last.
//!
//! A table of buckets does not know their keys. So those are kept that matter most: buckets without a token, and those with an
//! order or a rate of an operator. All else that a gate has seen it writes back when an attempt comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::mirror::Mirror;
use crate::memory::BucketKey;
use tollgate_bucket::Key;

/// The newest of some buckets.
#[derive(Debug)]
pub(super) struct RecentBuckets {
    max: usize,
    seen: Mutex<SeenBuckets>,
}

#[derive(Debug, Default)]
struct SeenBuckets {
    by_key: HashMap<Key, (BucketKey, Weak<Mirror>)>,
    /// The oldest first.
    order: VecDeque<Key>,
}

impl RecentBuckets {
    pub(super) fn new(max: usize) -> Self {
        Self { max, seen: Mutex::default() }
    }

    /// Adds a bucket; beyond the maximum the oldest one goes.
    pub(super) fn add(&self, bucket: &BucketKey, mirror: &Arc<Mirror>) {
        let mut seen = self.lock();
        // A limit that was changed has another mirror, and its buckets another spec.
        let is_new = seen.by_key.insert(bucket.key, (*bucket, Arc::downgrade(mirror))).is_none();
        if is_new {
            seen.order.push_back(bucket.key);
        }
        if seen.order.len() > self.max
            && let Some(oldest) = seen.order.pop_front()
        {
            seen.by_key.remove(&oldest);
        }
    }

    /// Those whose limit is still there, the newest first.
    pub(super) fn list(&self) -> Vec<(BucketKey, Arc<Mirror>)> {
        let seen = self.lock();
        let known = |key: &Key| {
            let (bucket, mirror) = seen.by_key.get(key)?;
            Some((*bucket, mirror.upgrade()?))
        };
        seen.order.iter().rev().filter_map(known).collect()
    }

    fn lock(&self) -> MutexGuard<'_, SeenBuckets> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Buckets;
    use tollgate_bucket::{Continuous, Span, Spec};

    #[test]
    fn the_newest_are_kept_and_those_of_limits_that_are_gone_are_left_out() {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(60), 10).unwrap());
        let mirror = || {
            let buckets = Arc::new(Buckets::new(100, &[spec]).unwrap());
            Arc::new(Mirror::new(&"limit".into(), &buckets).unwrap())
        };
        let (recent, one, other) = (RecentBuckets::new(3), mirror(), mirror());
        let add = |key, mirror| recent.add(&BucketKey { key: Key(key), class: 0, spec }, mirror);
        for key in [1, 2, 3, 2, 4] {
            add(key, &one);
        }
        add(5, &other);
        let keys = || recent.list().iter().map(|(bucket, _)| bucket.key.0).collect::<Vec<_>>();
        assert_eq!(keys(), [5, 4, 3]);
        drop(other);
        assert_eq!(keys(), [4, 3]);
    }
}
