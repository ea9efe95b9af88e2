//! Who is there: the busiest and the most refused clients of each limit, over the last 1, 10 and 60 minutes.
//!
//! It counts in fixed memory, however many clients there are: see `space_saving`. Each thread counts for itself; the
//! counts are summed when an operator asks, and once a minute. Limits are told apart by name, which stays valid over a
//! reload. Clients are known by the prefix whose clients share a bucket, accounts as keyed hashes; how they are written
//! is left to the caller.

mod history;
mod hitter_key;
mod space_saving;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use siphasher::sip::SipHasher13;

pub use self::history::CountedTime;

use self::history::{HitHistory, minute_of};
use self::hitter_key::HitterKey;
use self::space_saving::{HitCounter, SpaceSaving};
use super::shards::Shards;
use crate::event::{AccessLogEntry, AttemptRecord, BucketOwner, Event, EventListener, LimitDecision};
use crate::policy::{LimitKind, Policy};
use crate::time::{Span, Time};

/// The listener that counts attempts and refusals of clients.
#[derive(Debug)]
pub struct HeavyHitters {
    shards: Shards<Mutex<Vec<LiveCounts>>>,
    history: Mutex<Vec<LimitHistory>>,
    hasher: SipHasher13,
}

/// What a list of clients is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HitterOrder {
    /// Refused attempts; under an observing limit those that it would have refused.
    Refused,
    /// All attempts.
    Attempts,
}

/// One client or account under one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeavyHitter {
    /// The limit.
    pub limit: Arc<str>,
    /// The client, by the first address of the prefix that shares a bucket; or the account.
    pub owner: BucketOwner,
    /// Attempts, at least.
    pub attempts: u32,
    /// Refused ones of them, at least.
    pub refused: u32,
    /// The most that the number by which the list is ordered may be too low.
    pub error: u32,
    /// When it was counted last, in whole seconds.
    pub last: Time,
}

/// What one thread has counted under one limit since the minute began.
#[derive(Debug)]
struct LiveCounts {
    limit: Arc<str>,
    minute: u32,
    counts: HitCounts<SpaceSaving>,
}

/// What all threads counted under one limit before.
#[derive(Debug)]
struct LimitHistory {
    limit: Arc<str>,
    counts: HitCounts<HitHistory>,
}

/// A count of each kind.
#[derive(Debug, Clone, Default)]
struct HitCounts<C> {
    attempts: C,
    refused: C,
}

impl Default for HeavyHitters {
    fn default() -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        let secret = || RandomState::new().hash_one(0_u8);
        let hasher = SipHasher13::new_with_keys(secret(), secret());
        Self { shards: Shards::default(), history: Mutex::default(), hasher }
    }
}

impl HeavyHitters {
    /// The first `n` clients and accounts in this order, under one limit or under all. Empty for an unknown limit.
    #[must_use]
    pub fn top(
        &self,
        order: HitterOrder,
        n: usize,
        limit: Option<&str>,
        window: CountedTime,
        now: Time,
    ) -> Vec<HeavyHitter> {
        let mut found = Vec::new();
        for (name, counts) in self.sums(limit, window, minute_of(now)) {
            found.extend(counts.hitters(&name, order));
        }
        let rank = |hitter: &HeavyHitter| match order {
            HitterOrder::Refused => (hitter.refused, hitter.attempts),
            HitterOrder::Attempts => (hitter.attempts, hitter.refused),
        };
        found.sort_by_key(|hitter| std::cmp::Reverse(rank(hitter)));
        found.truncate(n);
        found
    }

    /// Forgets accounts and addresses, or only counts the counters that name them. An address is forgotten where its prefix
    /// is the narrowest of all limits: a wider one is a network.
    pub fn forget(&self, policy: &Policy, owners: &[BucketOwner], is_dry_run: bool) -> u64 {
        let mut found = 0;
        // Limits below a limit count under its name.
        for limit in policy.limits.iter().filter(|limit| limit.kind == LimitKind::Rate) {
            let keys = HitterKey::of_owners(policy, limit, owners);
            let mut forget = |counts: &mut SpaceSaving| {
                found += keys.iter().filter(|key| counts.forget(self.hash(key), key, is_dry_run)).count();
            };
            // A minute that ends meanwhile takes its counts from the shards into the history.
            for shard in self.shards.iter() {
                for live in lock(shard).iter_mut().filter(|live| live.limit == limit.name) {
                    forget(&mut live.counts.attempts);
                    forget(&mut live.counts.refused);
                }
            }
            for known in lock(&self.history).iter_mut().filter(|known| known.limit == limit.name) {
                known.counts.attempts.each(&mut forget);
                known.counts.refused.each(&mut forget);
            }
        }
        found as u64
    }

    /// The counts of the window, for each limit.
    fn sums(
        &self,
        limit: Option<&str>,
        window: CountedTime,
        now: u32,
    ) -> Vec<(Arc<str>, HitCounts<SpaceSaving>)> {
        let mut sums: Vec<(Arc<str>, HitCounts<SpaceSaving>)> = Vec::new();
        for known in lock(&self.history).iter() {
            if limit.is_none_or(|limit| *known.limit == *limit)
                && !sums.iter().any(|(name, _)| *name == known.limit)
            {
                let mut sum = HitCounts::default();
                known.counts.attempts.sum(window, now, &mut sum.attempts);
                known.counts.refused.sum(window, now, &mut sum.refused);
                sums.push((Arc::clone(&known.limit), sum));
            }
        }
        for shard in self.shards.iter() {
            // A copy, because a request may wait for the lock.
            for (name, sum) in &mut sums {
                let live = lock(shard)
                    .iter()
                    .find(|live| live.limit == *name)
                    .map(|live| (live.minute, live.counts.clone()));
                if let Some((minute, counts)) = live
                    && minute >= window.first_minute(now)
                {
                    sum.attempts.merge(&counts.attempts);
                    sum.refused.merge(&counts.refused);
                }
            }
        }
        sums
    }

    /// Limits that keep their name keep their counts.
    fn follow(&self, policy: &Policy) {
        let names = || policy.limits.iter().map(|limit| &limit.name);
        let new = |limit: &Arc<str>| LimitHistory { limit: Arc::clone(limit), counts: HitCounts::default() };
        reorder(&mut lock(&self.history), names(), |known| &known.limit, new);
        for shard in self.shards.iter() {
            let new = |limit: &Arc<str>| LiveCounts {
                limit: Arc::clone(limit),
                minute: 0,
                counts: HitCounts::default(),
            };
            reorder(&mut lock(shard), names(), |known| &known.limit, new);
        }
    }

    fn count(&self, entry: &AccessLogEntry, attempt: &AttemptRecord) {
        let second = u32::try_from(entry.at.as_nanos() / SECOND.as_nanos()).unwrap_or(u32::MAX);
        let mut shard = lock(self.shards.current());
        for record in &attempt.limits {
            let Some(limit) = attempt.policy.limits.get(record.limit) else { continue };
            let is_refused = match record.decision {
                LimitDecision::Admit => false,
                LimitDecision::Refuse | LimitDecision::Observe => true,
                LimitDecision::Exempt => continue,
            };
            // Under the newest rules the position is right; older ones may have had another order.
            let at = match shard.get(record.limit) {
                Some(live) if live.limit == limit.name => Some(record.limit),
                _ => shard.iter().position(|live| live.limit == limit.name),
            };
            let Some(live) = at.and_then(|at| shard.get_mut(at)) else { continue };
            self.begin_minute(live, minute_of(entry.at));
            let key = HitterKey::of(limit, entry.client, attempt.facts.account);
            let hash = self.hash(&key);
            live.counts.attempts.count(hash, &key, second);
            if is_refused {
                live.counts.refused.count(hash, &key, second);
            }
        }
    }

    /// Moves the counts of an earlier minute to the history, unless it is being read: then the next attempt does.
    fn begin_minute(&self, live: &mut LiveCounts, minute: u32) {
        if minute <= live.minute {
            return;
        }
        let mut history = match self.history.try_lock() {
            Ok(history) => history,
            Err(TryLockError::Poisoned(history)) => history.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(history) = history.iter_mut().find(|history| history.limit == live.limit) {
            history.counts.attempts.add(live.minute, &live.counts.attempts);
            history.counts.refused.add(live.minute, &live.counts.refused);
        }
        live.counts.attempts.clear();
        live.counts.refused.clear();
        live.minute = minute;
    }

    fn hash(&self, key: &HitterKey) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(&key.0);
        hasher.finish()
    }
}

impl EventListener for HeavyHitters {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::Rules { policy, .. } => self.follow(policy),
            Event::RequestCompleted(entry) => {
                if let Some(attempt) = &entry.attempt {
                    self.count(entry, attempt);
                }
            }
            _ => {}
        }
    }
}

impl HitCounts<SpaceSaving> {
    /// A client may be in one of the counts only: a refusal is an attempt in any case.
    fn hitters(&self, limit: &Arc<str>, order: HitterOrder) -> Vec<HeavyHitter> {
        let (ordered, others) = match order {
            HitterOrder::Refused => (&self.refused, &self.attempts),
            HitterOrder::Attempts => (&self.attempts, &self.refused),
        };
        let others: HashMap<HitterKey, u32> =
            others.counters().map(|other| (other.key, other.count())).collect();
        let hitter = |counter: &HitCounter| {
            let (this, other) = (counter.count(), others.get(&counter.key).copied().unwrap_or(0));
            let refused = if order == HitterOrder::Refused { this } else { other };
            let last = Time::from_nanos(u64::from(counter.last) * SECOND.as_nanos());
            let (limit, attempts) = (Arc::clone(limit), this.max(other));
            Some(HeavyHitter {
                limit,
                owner: counter.key.owner()?,
                attempts,
                refused,
                error: counter.error,
                last,
            })
        };
        ordered.counters().filter_map(hitter).collect()
    }
}

/// Puts the entries into the order of these names, adds those that are missing and drops the others.
fn reorder<'n, T>(
    entries: &mut Vec<T>,
    names: impl Iterator<Item = &'n Arc<str>>,
    name_of: impl Fn(&T) -> &Arc<str>,
    new: impl Fn(&Arc<str>) -> T,
) {
    let mut old = std::mem::take(entries);
    // Sub-limits share a name; the first of them is the limit itself, before and after.
    let find = |name: &Arc<str>| match old.iter().position(|entry| name_of(entry) == name) {
        Some(at) => old.remove(at),
        None => new(name),
    };
    *entries = names.map(find).collect();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SECOND: Span = Span::from_secs(1);

#[cfg(test)]
mod tests;
