//! Buckets that have a rate of their own for a while, instead of their limit's.
//!
//! Operators give them, so there are few: a small map beside the table, and a word of it that says whether a key can be in
//! it. The surprising thing: as long as its own rate lasts, a bucket lives here and not in the table. So it is not pushed
//! out by others, keeps its level when the limit is changed, and comes back converted to whatever the limit promises then.
//!
//! An entry comes and goes only while the line of its key is held, and is changed only then; so whoever has read a line
//! and then finds no entry may go by what it read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{BucketKey, Buckets, RestoreError, Stale};
use crate::bucket::{Key, MAX_RECORD_LEN, Op, Own, RecordHeader, Spec, Step, step};
use crate::time::Time;

/// Why a bucket has no rate of its own now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OwnRateError {
    /// Other rules are in force by now.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// As many buckets of the limit have one as may.
    #[error("{MAX_OWN_RATES} buckets of this limit have rates of their own already")]
    TooMany,
    /// The bucket counts strikes: it has no rate at all.
    #[error("waits that grow have no rate")]
    NoRate,
}

impl Buckets {
    /// Gives a bucket a rate of its own until its end, instead of the one that it has now, or takes it away: the fill level
    /// stays, in proportion. An end that has come already takes it away. It survives a change of the limit.
    ///
    /// # Errors
    /// See [`OwnRateError`]; then the bucket is as it was.
    pub fn set_own_rate(&self, place: &BucketKey, own: Option<Own>, now: Time) -> Result<(), OwnRateError> {
        if own.is_some() && matches!(place.spec, Spec::Escalation(_)) {
            return Err(OwnRateError::NoRate);
        }
        let own = own.filter(|own| own.until > now);
        let _held = self.lock_open(place.key)?;
        let (mut header, mut state) = self.own_rates.get(place.key).unwrap_or_else(|| {
            let mut state = [0; Spec::MAX_WORDS];
            self.read_locked(place, now, &mut state[..place.spec.words()]);
            (RecordHeader::of(place.spec), state)
        });
        header.effective_spec(&place.spec, &mut state, now);
        header.give_rate(&place.spec, own, &mut state, now);
        if let Some(own) = own {
            self.own_rates.insert(place.key, OwnRateEntry::new(own, header.spec, &state))?;
            self.forget(place.key, now);
        } else if self.own_rates.remove(place.key) {
            self.put_back(place, &state, now);
        }
        Ok(())
    }

    /// The rate that a bucket has of its own now.
    #[must_use]
    pub fn own_rate(&self, key: Key, now: Time) -> Option<Own> {
        self.own_rates.read().get(&key).map(|entry| entry.own).filter(|own| own.until > now)
    }

    /// Makes a bucket as if it had never been seen. A rate of its own stays until its end.
    ///
    /// # Errors
    /// [`Stale`] if the limit was changed.
    pub fn reset(&self, place: &BucketKey, now: Time) -> Result<(), Stale> {
        let _held = self.lock_open(place.key)?;
        self.own_rates.reset(place.key, now);
        self.forget(place.key, now);
        Ok(())
    }

    /// A bucket as it stands here: its promise now, and its words.
    pub(in crate::store) fn recall(
        &self,
        place: &BucketKey,
        now: Time,
        state: &mut [u64; Spec::MAX_WORDS],
    ) -> RecordHeader {
        self.recall_by(place, now, state, |state| _ = self.read(place, now, state))
    }

    fn recall_by(
        &self,
        place: &BucketKey,
        now: Time,
        state: &mut [u64; Spec::MAX_WORDS],
        read: impl FnOnce(&mut [u64]),
    ) -> RecordHeader {
        if self.own_rates.has(place.key)
            && let Some((mut header, own)) = self.own_rates.get(place.key)
        {
            *state = own;
            header.effective_spec(&place.spec, state, now);
            return header;
        }
        read(&mut state[..place.spec.words()]);
        RecordHeader::of(place.spec)
    }

    /// Makes another one of what stands here by now.
    pub(in crate::store) fn remember(
        &self,
        place: &BucketKey,
        now: Time,
        change: impl FnOnce(&mut RecordHeader, &mut [u64; Spec::MAX_WORDS]),
    ) {
        let _held = self.lock(self.line_of(place.key));
        let mut state = [0; Spec::MAX_WORDS];
        let mut header =
            self.recall_by(place, now, &mut state, |state| _ = self.read_locked(place, now, state));
        change(&mut header, &mut state);
        if let (Some(until), Some(rate)) = (header.own_until, header.spec.rate()) {
            let entry = OwnRateEntry::new(Own { rate, until }, header.spec, &state[..]);
            // Where there are too many it is not remembered: then each attempt has to be asked for.
            let _ = self.own_rates.insert(place.key, entry);
            return self.forget(place.key, now);
        }
        if self.own_rates.has(place.key) {
            self.own_rates.remove(place.key);
        }
        self.table.write(place.key, &state[..place.spec.words()], now);
    }

    /// Decides on a bucket with a rate of its own; `None` if it has none any more, or never had. The line must be held;
    /// `keep` says whether what comes of it stays.
    pub(super) fn step_own_rate(&self, place: &BucketKey, now: Time, op: Op, keep: bool) -> Option<Step> {
        if !self.own_rates.has(place.key) {
            return None;
        }
        self.wait_for_former(place.key);
        if keep && let Some(state) = self.own_rates.take_ended(place, now) {
            self.put_back(place, &state, now);
        }
        self.own_rates.step(place, now, op, keep)
    }

    fn lock_open(&self, key: Key) -> Result<super::LineGuard<'_>, Stale> {
        let held = self.lock(self.line_of(key));
        if self.is_closed() {
            return Err(Stale);
        }
        self.wait_for_former(key);
        Ok(held)
    }

    /// Whoever was deciding by former rules when they were closed is done after this.
    fn wait_for_former(&self, key: Key) {
        if let Some(former) = &*self.former.load() {
            drop(former.buckets.lock(former.buckets.line_of(key)));
            former.buckets.wait_for_former(key);
        }
    }

    /// Leaves nothing of a bucket in the table or in what it takes over from. The line must be held.
    fn forget(&self, key: Key, now: Time) {
        self.table.forget(key, now);
        if let Some(former) = &*self.former.load() {
            let _held = former.buckets.lock(former.buckets.line_of(key));
            former.buckets.forget(key, now);
        }
    }

    /// A bucket that is full needs no place and must not take anybody's, unless a new one is not full.
    fn put_back(&self, place: &BucketKey, state: &[u64], now: Time) {
        let words = place.spec.words();
        let is_full = |state: &[u64]| state.first().is_none_or(|full_at| *full_at <= now.as_nanos());
        let mut new = [0; Spec::MAX_WORDS];
        let _ = step(&place.spec, &mut new[..words], now, Op::Peek(1));
        if !is_full(state) || !is_full(&new) && state.first() != Some(&0) {
            self.table.write(place.key, &state[..words], now);
        }
    }
}

/// All buckets of a limit that have rates of their own, whatever rules they were given under.
#[derive(Default)]
pub(super) struct OwnRates {
    /// A bit for each 64th of the keys: zero while nobody has one.
    filter: AtomicU64,
    entries: RwLock<HashMap<Key, OwnRateEntry>>,
}

struct OwnRateEntry {
    own: Own,
    /// What the state is one of: the limit's shape at the bucket's own rate.
    spec: Spec,
    state: Box<[u64]>,
}

impl OwnRates {
    /// Whether this bucket has one, or had one that nobody has ended yet.
    #[inline]
    pub(super) fn has(&self, key: Key) -> bool {
        // Whoever sees a line as it was left by whoever gave the rate sees this word as he left it.
        let filter = self.filter.load(Ordering::Relaxed);
        filter != 0 && self.has_slow(filter, key)
    }

    /// Apart, so that it does not stand in the way of a decision.
    #[cold]
    #[inline(never)]
    fn has_slow(&self, filter: u64, key: Key) -> bool {
        filter & bit(key) != 0 && self.read().contains_key(&key)
    }

    /// Forgets those that ended before then and were not asked for since.
    pub(super) fn release(&self, ended_before: Time) {
        if self.filter.load(Ordering::Relaxed) != 0 {
            let mut entries = self.write();
            entries.retain(|_, entry| entry.own.until > ended_before);
            self.set_filter(&entries);
        }
    }

    /// All of them, to be kept.
    pub(super) fn records(&self) -> Vec<(u128, Vec<u8>)> {
        let record = |(Key(key), entry): (&Key, &OwnRateEntry)| {
            let (header, state) = entry.decode();
            let mut bytes = [0; MAX_RECORD_LEN];
            let length = header.encode(&state, &mut bytes);
            (*key, bytes[..length].to_vec())
        };
        self.read().iter().map(record).collect()
    }

    /// Takes one in that was kept.
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

    /// Takes a bucket out whose own rate is over: its state under the limit's promise, when that was.
    fn take_ended(&self, place: &BucketKey, now: Time) -> Option<[u64; Spec::MAX_WORDS]> {
        let mut entries = self.write();
        if entries.get(&place.key)?.own.until > now {
            return None;
        }
        let (mut header, mut state) = entries.remove(&place.key)?.decode();
        self.set_filter(&entries);
        header.effective_spec(&place.spec, &mut state, now);
        Some(state)
    }

    fn step(&self, place: &BucketKey, now: Time, op: Op, keep: bool) -> Option<Step> {
        let mut entries = self.write();
        let entry = entries.get_mut(&place.key)?;
        let (mut header, mut state) = entry.decode();
        let spec = header.effective_spec(&place.spec, &mut state, now);
        let state = &mut state[..spec.words()];
        let step = step(&spec, state, now, op);
        if keep && step.changed && entry.own.until > now {
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

/// More than anybody gives by hand, and a few megabytes at most.
const MAX_OWN_RATES: usize = 10_000;

#[cfg(test)]
mod tests;
