//! The buckets to which operators gave another rate, as a list.
//!
//! The store knows a bucket only by the hash of its key. So the engine remembers the owner of each such rate while the rate lasts.
//! After a restart, and for rates that another gate gave, the list shows the rate without its owner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Engine, Rules};
use crate::bucket::{Key, Own};
use crate::event::BucketOwner;
use crate::time::Time;

/// A bucket to which an operator gave another rate.
#[derive(Debug, Clone)]
pub struct OwnRateView {
    /// The limit.
    pub limit: Arc<str>,
    /// The owner of the bucket, if this process gave the rate.
    pub owner: Option<BucketOwner>,
    /// The rate and its end.
    pub own: Own,
}

/// Whom rates were given to.
#[derive(Debug, Default)]
pub(super) struct RateOwners(Mutex<HashMap<Key, BucketOwner>>);

impl Engine {
    /// The own rates that this gate knows of, the first to end first: over a shared store those given here, and those
    /// of buckets that were charged here since.
    #[must_use]
    pub fn own_rates(&self) -> Vec<OwnRateView> {
        let (rules, owners) = (self.rules.load(), self.rate_owners.lock());
        let view = |(limit, key, own)| OwnRateView { limit, owner: owners.get(&key).copied(), own };
        let mut found: Vec<OwnRateView> = in_force(&rules, self.time()).map(view).collect();
        found.sort_by(|a, b| (a.own.until, &a.limit).cmp(&(b.own.until, &b.limit)));
        found
    }

    /// Remembers whom rates were given to.
    pub(super) fn remember_owner(&self, keys: impl Iterator<Item = Key>, owner: BucketOwner) {
        let mut owners = self.rate_owners.lock();
        for key in keys {
            if owners.len() >= MAX_RATE_OWNERS {
                let rules = self.rules.load();
                let known: HashSet<Key> = in_force(&rules, self.time()).map(|(_, key, _)| key).collect();
                owners.retain(|key, _| known.contains(key));
            }
            if owners.len() < MAX_RATE_OWNERS || owners.contains_key(&key) {
                owners.insert(key, owner);
            }
        }
    }
}

impl RateOwners {
    /// Forgets these owners; those of rates in force only if these end.
    pub(super) fn forget(
        &self,
        rules: &Rules,
        now: Time,
        is_theirs: impl Fn(&BucketOwner) -> bool,
        ends_rates: bool,
    ) {
        let known: HashSet<Key> = in_force(rules, now).map(|(_, key, _)| key).collect();
        self.lock().retain(|key, owner| !is_theirs(owner) || (!ends_rates && known.contains(key)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, BucketOwner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_force(rules: &Rules, now: Time) -> impl Iterator<Item = (Arc<str>, Key, Own)> {
    rules.policy.limits.iter().zip(&rules.buckets).flat_map(move |(limit, buckets)| {
        let all = buckets.in_memory().list_own_rates(now);
        all.into_iter().map(|(key, own)| (Arc::clone(&limit.name), key, own))
    })
}

/// As many as one limit may have.
const MAX_RATE_OWNERS: usize = 10_000;
