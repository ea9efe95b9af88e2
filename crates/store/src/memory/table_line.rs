//! One cache line of the table: a lock and five slots.
//!
//! A slot holds the first word of a bucket's state, which says when it is full again; the table holds the others. The
//! lock is a sequence lock: odd while locked, one more when released, so a reader knows whether the values that it read
//! belong together. A reader that finds the version unchanged may write without reading again. Everything is an atomic,
//! so there is no unsafe code; the lock alone decides who may write. `models/` runs this file through every
//! interleaving of threads.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::sync::{AtomicU64, fence, spin_loop, yield_now};
use tollgate_bucket::Time;

/// Slots in a line: 4 bytes of lock, 5 tags of 4 bytes and 5 times of 8 bytes are 64 bytes.
pub(super) const SLOTS: usize = 5;
/// Words in a line: the lock in the lower half of the first, then the tags, then the times.
pub(super) const WORDS: usize = 8;

/// A set of five slots in eight words of a table; all zero when new. A slot whose time has passed is free.
#[derive(Clone, Copy)]
pub(super) struct TableLine<'t>(pub(super) &'t [AtomicU64; WORDS]);

/// Where a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Into the bucket's own slot or a free one.
    InPlace,
    /// Over the live bucket that was nearest to full.
    Evicted,
}

/// The value of the lock during a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineVersion(u64);

/// Releases the line when dropped.
pub(super) struct LineGuard<'t>(TableLine<'t>);

impl<'t> TableLine<'t> {
    /// Reads without the lock, and again until no write came in between.
    pub(super) fn consistent<T>(self, mut read: impl FnMut() -> T) -> (T, LineVersion) {
        let mut backoff = SpinBackoff::default();
        loop {
            let before = self.0[LOCK].load(Acquire);
            if before & 1 == 0 {
                let found = read();
                fence(Acquire);
                if self.0[LOCK].load(Relaxed) == before {
                    return (found, LineVersion(before));
                }
            }
            backoff.wait();
        }
    }

    /// Waits for the lock and takes it.
    pub(super) fn lock(self) -> LineGuard<'t> {
        let mut backoff = SpinBackoff::default();
        loop {
            let free = self.0[LOCK].load(Relaxed) & !1;
            if let Some(held) = self.lock_if_unchanged(LineVersion(free)) {
                return held;
            }
            backoff.wait();
        }
    }

    /// Takes the lock if nothing was written since that version and no thread holds it.
    pub(super) fn lock_if_unchanged(self, LineVersion(free): LineVersion) -> Option<LineGuard<'t>> {
        self.0[LOCK].compare_exchange(free, free | 1, SeqCst, Relaxed).ok()?;
        // Pairs with the reader's fence: a reader that sees a new state sees that the line was locked.
        fence(Release);
        Some(LineGuard(self))
    }

    /// The slot of this tag, and when its bucket is full again. The two belong together only while the line is locked,
    /// or within [`TableLine::consistent`].
    pub(super) fn find(self, tag: u32) -> Option<(usize, Time)> {
        let slot = from_home(tag).find(|&slot| self.tag(slot) == tag && self.full_at(slot) != 0)?;
        Some((slot, Time::from_nanos(self.full_at(slot))))
    }

    /// Finds a slot for this tag and writes when its bucket is full again; the line must be locked. If every slot is
    /// live, the bucket that is full again soonest is evicted.
    pub(super) fn write(self, tag: u32, full_at: Time, now: Time) -> (usize, Written) {
        let nearest_to_full = || from_home(tag).min_by_key(|&slot| self.full_at(slot)).unwrap_or(0);
        let slot = self.find(tag).map_or_else(nearest_to_full, |(slot, _)| slot);
        let is_foreign = self.tag(slot) != tag;
        let written = match is_foreign && self.full_at(slot) > now.as_nanos() {
            true => Written::Evicted,
            false => Written::InPlace,
        };
        if is_foreign {
            self.set_tag(slot, tag);
        }
        self.0[TIMES + slot].store(full_at.as_nanos(), Relaxed);
        (slot, written)
    }

    /// How many buckets are not full.
    pub(super) fn live(self, now: Time) -> usize {
        (0..SLOTS).filter(|&slot| self.full_at(slot) > now.as_nanos()).count()
    }

    /// The tags and times of all slots, used or not. They belong together as those of [`TableLine::find`] do.
    pub(super) fn slots(self) -> [(u32, u64); SLOTS] {
        std::array::from_fn(|slot| (self.tag(slot), self.full_at(slot)))
    }

    fn full_at(self, slot: usize) -> u64 {
        self.0[TIMES + slot].load(Relaxed)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a tag is half a word")]
    fn tag(self, slot: usize) -> u32 {
        let (word, shift) = tag_position(slot);
        (self.0[word].load(Relaxed) >> shift) as u32
    }

    fn set_tag(self, slot: usize, tag: u32) {
        let (word, shift) = tag_position(slot);
        let others = self.0[word].load(Relaxed) & !(HALF << shift);
        self.0[word].store(others | u64::from(tag) << shift, Relaxed);
    }
}

impl Drop for LineGuard<'_> {
    fn drop(&mut self) {
        let TableLine(words) = self.0;
        let held = words[LOCK].load(Relaxed);
        words[LOCK].store(held & !HALF | held.wrapping_add(1) & HALF, Release);
    }
}

/// The preferred slot of a tag, so that its words can be prefetched before the line is read.
pub(super) fn home_of(tag: u32) -> usize {
    tag as usize % SLOTS
}

/// All slots, the preferred one first.
fn from_home(tag: u32) -> impl Iterator<Item = usize> {
    let home = home_of(tag);
    (home..SLOTS).chain(0..home)
}

/// The word and the shift of a slot's tag: half words, after the lock's half.
fn tag_position(slot: usize) -> (usize, usize) {
    let half = LOCK + 1 + slot;
    (half / 2, half % 2 * 32)
}

/// Spins for a moment, then yields: the thread that holds the line may have lost its core.
#[derive(Default)]
struct SpinBackoff(u32);

impl SpinBackoff {
    fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 < MAX_SPINS { spin_loop() } else { yield_now() }
    }
}

/// Turns before other threads run.
const MAX_SPINS: u32 = 64;
const LOCK: usize = 0;
const TIMES: usize = WORDS - SLOTS;
const HALF: u64 = 0xFFFF_FFFF;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn words() -> [AtomicU64; WORDS] {
        Default::default()
    }

    #[test]
    fn a_line_is_one_cache_line() {
        assert_eq!((size_of::<[AtomicU64; WORDS]>(), tag_position(SLOTS)), (64, (TIMES, 0)));
    }

    fn write(line: TableLine<'_>, tag: u32, full_at: u64, now: u64) -> Written {
        line.write(tag, at(full_at), at(now)).1
    }

    fn full_at_of(line: TableLine<'_>, tag: u32) -> Option<u64> {
        line.consistent(|| line.find(tag)).0.map(|(_, full_at)| full_at.as_nanos())
    }

    #[test]
    fn the_bucket_nearest_to_full_gives_way() {
        let words = words();
        let line = TableLine(&words);
        for (tag, full_at) in [(1, 500), (2, 300), (3, 400), (4, 600), (5, 700)] {
            assert_eq!(write(line, tag, full_at, 100), Written::InPlace);
        }
        assert_eq!(write(line, 6, 350, 100), Written::Evicted);
        assert_eq!(full_at_of(line, 2), None);
        assert_eq!((full_at_of(line, 1), full_at_of(line, 6)), (Some(500), Some(350)));
    }

    #[test]
    fn a_full_bucket_is_free_to_take() {
        let words = words();
        let line = TableLine(&words);
        for tag in 1..=5 {
            write(line, tag, 200 + u64::from(tag), 100);
        }
        assert_eq!(line.live(at(100)), 5);
        assert_eq!(write(line, 9, 900, 201), Written::InPlace);
        assert_eq!(full_at_of(line, 1), None);
        assert_eq!(line.live(at(201)), 5);
    }

    #[test]
    fn a_bucket_is_rewritten_where_it_stands() {
        let words = words();
        let line = TableLine(&words);
        write(line, 7, 10, 1);
        write(line, 7, 20, 1);
        assert_eq!((full_at_of(line, 7), line.live(at(1))), (Some(20), 1));
    }

    #[test]
    fn tag_zero_is_a_tag_like_any_other() {
        let words = words();
        let line = TableLine(&words);
        assert_eq!(full_at_of(line, 0), None);
        write(line, 0, 20, 1);
        assert_eq!(full_at_of(line, 0), Some(20));
    }

    #[test]
    fn a_reader_does_not_get_the_line_after_another_write() {
        let words = words();
        let line = TableLine(&words);
        let ((), before) = line.consistent(|| ());
        drop(line.lock_if_unchanged(before).unwrap());
        assert!(line.lock_if_unchanged(before).is_none(), "written since");
        let ((), now) = line.consistent(|| ());
        let held = line.lock();
        assert!(line.lock_if_unchanged(now).is_none(), "held");
        drop(held);
    }

    #[test]
    fn the_lock_wraps_into_no_tag() {
        let words = words();
        let line = TableLine(&words);
        write(line, 7, 20, 1);
        words[LOCK].store(words[LOCK].load(Relaxed) | (HALF - 1), Relaxed);
        drop(line.lock());
        assert_eq!((words[LOCK].load(Relaxed) & HALF, full_at_of(line, 7)), (0, Some(20)));
    }
}
