//! Buckets that have their own rate for a while, instead of their limit's.
//!
//! Operators give own rates, so there are few: a small map next to the table, and a filter word that says whether a key
//! can be in it. While its own rate lasts, a bucket lives in the map and not in the table. So it is not evicted, keeps
//! its level when the limit changes, and returns to the table converted to the limit's spec of that time. Conversions
//! are left to [`RecordHeader`].
//!
//! An entry is added, changed and removed only while the line of its key is locked. So a thread that reads a line and
//! then finds no entry may rely on what it read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{BucketKey, Buckets, RestoreError, Stale};
use tollgate_bucket::Time;
use tollgate_bucket::{Key, MAX_RECORD_LEN, NO_RATE, Op, Own, RecordHeader, Spec, Step, step};

/// Why a bucket gets no own rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OwnRateError {
    /// Other rules are in force by now.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The limit has the maximum number of own rates.
    #[error("{MAX_OWN_RATES} buckets of this limit have temporary rates, which is the maximum")]
    TooMany,
    /// The bucket has no tokens, and so no rate at all.
    #[error("{NO_RATE}")]
    NoRate,
}

impl Buckets {
    /// Gives a bucket an own rate until its end, in place of the present one, or takes it away: `None`, or an end that
    /// has passed. The fill level stays, in proportion. An own rate survives a change of the limit.
    ///
    /// # Errors
    /// See [`OwnRateError`]; then the bucket is unchanged.
    pub fn set_own_rate(&self, bucket: &BucketKey, own: Option<Own>, now: Time) -> Result<(), OwnRateError> {
        let own = own.filter(|own| own.until > now);
        self.change_own_rate(bucket, own, now, |header, state| {
            header.give_rate(&bucket.spec, own, state, now)
        })
    }

    /// Has a bucket refuse everything until the end of a [ban](Own::ban), in place of its present own rate.
    ///
    /// # Errors
    /// See [`OwnRateError`]; then the bucket is unchanged.
    pub fn ban(&self, bucket: &BucketKey, ban: Own, now: Time) -> Result<(), OwnRateError> {
        self.change_own_rate(bucket, Some(ban), now, |header, state| header.ban(ban, state))
    }

    fn change_own_rate(
        &self,
        bucket: &BucketKey,
        own: Option<Own>,
        now: Time,
        change: impl FnOnce(&mut RecordHeader, &mut [u64; Spec::MAX_WORDS]),
    ) -> Result<(), OwnRateError> {
        if own.is_some() && !bucket.spec.has_rate() {
            return Err(OwnRateError::NoRate);
        }
        let _held = self.lock_open(bucket.key)?;
        let (mut header, mut state) = self.own_rates.get(bucket.key).unwrap_or_else(|| {
            let mut state = [0; Spec::MAX_WORDS];
            self.read_locked(bucket, now, &mut state[..bucket.spec.words()]);
            (RecordHeader::of(bucket.spec), state)
        });
        header.effective_spec(&bucket.spec, &mut state, now);
        change(&mut header, &mut state);
        if let Some(own) = own {
            self.own_rates.insert(bucket.key, OwnRateEntry::new(own, header.spec, &state))?;
            self.forget(bucket.key, now);
        } else if self.own_rates.remove(bucket.key) {
            self.put_back(bucket, &state, now);
        }
        Ok(())
    }

    /// The own rate of a bucket, until its end.
    #[must_use]
    pub fn own_rate(&self, key: Key, now: Time) -> Option<Own> {
        self.own_rates.read().get(&key).map(|entry| entry.own).filter(|own| own.until > now)
    }

    /// All own rates that have not ended.
    #[must_use]
    pub fn list_own_rates(&self, now: Time) -> Vec<(Key, Own)> {
        let entries = self.own_rates.read();
        let all = entries.iter().map(|(key, entry)| (*key, entry.own));
        all.filter(|(_, own)| own.until > now).collect()
    }

    /// Resets a bucket as if it had never been seen. An own rate stays until its end.
    ///
    /// # Errors
    /// [`Stale`] if the limit was changed.
    pub fn reset(&self, bucket: &BucketKey, now: Time) -> Result<(), Stale> {
        let _held = self.lock_open(bucket.key)?;
        self.own_rates.reset(bucket.key, now);
        self.forget(bucket.key, now);
        Ok(())
    }

    /// The header of a bucket in this process, and its state.
    pub(crate) fn recall(
        &self,
        bucket: &BucketKey,
        now: Time,
        state: &mut [u64; Spec::MAX_WORDS],
    ) -> RecordHeader {
        self.recall_by(bucket, now, state, |state| _ = self.read(bucket, now, state))
    }

    fn recall_by(
        &self,
        bucket: &BucketKey,
        now: Time,
        state: &mut [u64; Spec::MAX_WORDS],
        read: impl FnOnce(&mut [u64]),
    ) -> RecordHeader {
        if self.own_rates.has(bucket.key)
            && let Some((mut header, own)) = self.own_rates.get(bucket.key)
        {
            *state = own;
            header.effective_spec(&bucket.spec, state, now);
            return header;
        }
        read(&mut state[..bucket.spec.words()]);
        RecordHeader::of(bucket.spec)
    }

    /// Changes the header and the state of a bucket in this process.
    pub(crate) fn remember(
        &self,
        bucket: &BucketKey,
        now: Time,
        change: impl FnOnce(&mut RecordHeader, &mut [u64; Spec::MAX_WORDS]),
    ) {
        let _held = self.lock(self.line_of(bucket.key));
        let mut state = [0; Spec::MAX_WORDS];
        let mut header =
            self.recall_by(bucket, now, &mut state, |state| _ = self.read_locked(bucket, now, state));
        change(&mut header, &mut state);
        if let (Some(until), Some(rate)) = (header.own_until, header.spec.rate()) {
            let entry = OwnRateEntry::new(Own { rate, until }, header.spec, &state[..]);
            // Beyond the maximum the rate is not stored here: each attempt then calls the store.
            let _ = self.own_rates.insert(bucket.key, entry);
            return self.forget(bucket.key, now);
        }
        if self.own_rates.has(bucket.key) {
            self.own_rates.remove(bucket.key);
        }
        self.table.write(bucket.key, &state[..bucket.spec.words()], now);
    }

    /// Decides on a bucket with an own rate; `None` if it has none. The line must be locked; `commit` says whether the
    /// new state is stored.
    pub(super) fn step_own_rate(&self, bucket: &BucketKey, now: Time, op: Op, commit: bool) -> Option<Step> {
        if !self.own_rates.has(bucket.key) {
            return None;
        }
        self.wait_for_former(bucket.key);
        if commit && let Some(state) = self.own_rates.take_ended(bucket, now) {
            self.put_back(bucket, &state, now);
        }
        self.own_rates.step(bucket, now, op, commit)
    }

    fn lock_open(&self, key: Key) -> Result<super::LineGuard<'_>, Stale> {
        let held = self.lock(self.line_of(key));
        if self.is_closed() {
            return Err(Stale);
        }
        self.wait_for_former(key);
        Ok(held)
    }

    /// Waits for threads that decide by the former rules since before they were closed.
    fn wait_for_former(&self, key: Key) {
        if let Some(former) = &*self.former.load() {
            drop(former.buckets.lock(former.buckets.line_of(key)));
            former.buckets.wait_for_former(key);
        }
    }

    /// Removes a bucket from the table and from the former buckets. The line must be locked.
    fn forget(&self, key: Key, now: Time) {
        self.table.forget(key, now);
        if let Some(former) = &*self.former.load() {
            let _held = former.buckets.lock(former.buckets.line_of(key));
            former.buckets.forget(key, now);
        }
    }

    /// Writes a bucket back to the table. A full bucket needs no slot and must not evict another, unless a new one is
    /// not full.
    fn put_back(&self, bucket: &BucketKey, state: &[u64], now: Time) {
        let words = bucket.spec.words();
        let is_full = |state: &[u64]| state.first().is_none_or(|full_at| *full_at <= now.as_nanos());
        let mut new = [0; Spec::MAX_WORDS];
        let _ = step(&bucket.spec, &mut new[..words], now, Op::Peek(1));
        if !is_full(state) || !is_full(&new) && state.first() != Some(&0) {
            self.table.write(bucket.key, &state[..words], now);
        }
    }
}

/// The buckets of a limit that have own rates, whichever rules they were given under.
#[derive(Default)]
pub(super) struct OwnRates {
    /// One bit for each 64th of the keys; zero while there are no own rates.
    filter: AtomicU64,
    entries: RwLock<HashMap<Key, OwnRateEntry>>,
}

struct OwnRateEntry {
    own: Own,
    /// The spec of the state: the limit's shape at the own rate.
    spec: Spec,
    state: Box<[u64]>,
}

impl OwnRates {
    /// Whether this bucket has an own rate, or one that has ended but is not removed yet.
    #[inline]
    pub(super) fn has(&self, key: Key) -> bool {
        // Relaxed is enough: a thread that sees the line as it was after the rate was given sees this word as well.
        let filter = self.filter.load(Ordering::Relaxed);
        filter != 0 && self.has_slow(filter, key)
    }

    /// Out of line, to keep the usual decision short.
    #[cold]
    #[inline(never)]
    fn has_slow(&self, filter: u64, key: Key) -> bool {
        filter & bit(key) != 0 && self.read().contains_key(&key)
    }

    /// Removes entries that ended before this time.
    pub(super) fn release(&self, ended_before: Time) {
        if self.filter.load(Ordering::Relaxed) != 0 {
            let mut entries = self.write();
            entries.retain(|_, entry| entry.own.until > ended_before);
            self.set_filter(&entries);
        }
    }

    /// All entries as records, for a snapshot.
    pub(super) fn records(&self) -> Vec<(u128, Vec<u8>)> {
        let record = |(Key(key), entry): (&Key, &OwnRateEntry)| {
            let (header, state) = entry.decode();
            let mut bytes = [0; MAX_RECORD_LEN];
            let length = header.encode(&state, &mut bytes);
            (*key, bytes[..length].to_vec())
        };
        self.read().iter().map(record).collect()
    }

    /// Restores an entry of a snapshot.
    pub(super) fn restore(&self, key: Key, record: &[u8]) -> Result<(), RestoreError> {
        let mut state = [0; Spec::MAX_WORDS];
        let header = RecordHeader::decode(record, &mut state).map_err(|_| RestoreError::Corrupt)?;
        let (Some(until), Some(rate)) = (header.own_until, header.spec.rate()) else {
            return Err(RestoreError::Corrupt);
        };
        let entry = OwnRateEntry::new(Own { rate, until }, header.spec, &state);
        self.insert(key, entry).map_err(|_| RestoreError::Corrupt)
    }

    fn get(&self, key: Key) -> Option<(RecordHeader, [u64; Spec::MAX_WORDS])> {
        self.read().get(&key).map(OwnRateEntry::decode)
    }

    fn insert(&self, key: Key, entry: OwnRateEntry) -> Result<(), OwnRateError> {
        let mut entries = self.write();
        if entries.len() >= MAX_OWN_RATES && !entries.contains_key(&key) {
            return Err(OwnRateError::TooMany);
        }
        entries.insert(key, entry);
        self.set_filter(&entries);
        Ok(())
    }

    fn remove(&self, key: Key) -> bool {
        let mut entries = self.write();
        let was_there = entries.remove(&key).is_some();
        self.set_filter(&entries);
        was_there
    }

    fn reset(&self, key: Key, now: Time) {
        let mut entries = self.write();
        match entries.get_mut(&key) {
            Some(entry) if entry.own.until > now => entry.state.fill(0),
            Some(_) => drop(entries.remove(&key)),
            None => {}
        }
        self.set_filter(&entries);
    }

    /// Removes an entry whose rate has ended. Returns its state under the limit's spec, as of that end.
    fn take_ended(&self, bucket: &BucketKey, now: Time) -> Option<[u64; Spec::MAX_WORDS]> {
        let mut entries = self.write();
        if entries.get(&bucket.key)?.own.until > now {
            return None;
        }
        let (mut header, mut state) = entries.remove(&bucket.key)?.decode();
        self.set_filter(&entries);
        header.effective_spec(&bucket.spec, &mut state, now);
        Some(state)
    }

    fn step(&self, bucket: &BucketKey, now: Time, op: Op, commit: bool) -> Option<Step> {
        let mut entries = self.write();
        let entry = entries.get_mut(&bucket.key)?;
        let (mut header, mut state) = entry.decode();
        let spec = header.effective_spec(&bucket.spec, &mut state, now);
        let state = &mut state[..spec.words()];
        let step = header.step(state, now, op);
        if commit && step.changed && entry.own.until > now {
            entry.state.copy_from_slice(state);
        }
        Some(step)
    }

    fn set_filter(&self, entries: &HashMap<Key, OwnRateEntry>) {
        self.filter.store(entries.keys().fold(0, |all, key| all | bit(*key)), Ordering::Relaxed);
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, OwnRateEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, OwnRateEntry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnRateEntry {
    fn new(own: Own, spec: Spec, state: &[u64]) -> Self {
        Self { own, spec, state: state[..spec.words()].into() }
    }

    fn decode(&self) -> (RecordHeader, [u64; Spec::MAX_WORDS]) {
        let mut state = [0; Spec::MAX_WORDS];
        state[..self.state.len()].copy_from_slice(&self.state);
        (RecordHeader { spec: self.spec, own_until: Some(self.own.until) }, state)
    }
}

fn bit(Key(key): Key) -> u64 {
    1 << (key & 63)
}

/// More than operators give by hand, and a few megabytes at most.
const MAX_OWN_RATES: usize = 10_000;

#[cfg(test)]
mod tests;
