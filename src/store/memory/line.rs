//! One cache line of the table: a lock and five slots.
//!
//! A slot holds the first word of a bucket's state, which says when it is full again; the table keeps the others.
//! The lock is a sequence lock: odd while held, one more when it is released, so a reader knows whether what it
//! read belongs together. Everything is an atomic, so there is no unsafe code; the lock alone decides who may write.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use zerocopy::FromZeros;

use crate::time::Time;

/// Slots in a line: 4 bytes of lock, 5 tags of 4 bytes and 5 times of 8 bytes are 64 bytes.
pub(super) const SLOTS: usize = 5;

/// A set of five slots; all zero when new. A slot whose time has come is free.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Line {
    lock: AtomicU32,
    tags: [AtomicU32; SLOTS],
    full_at: [AtomicU64; SLOTS],
}

/// What a line was told to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Into the bucket's own slot or a free one.
    InPlace,
    /// Over the live bucket that was nearest to full.
    Forgot,
}

/// Releases the line when dropped.
pub(super) struct Held<'l> {
    lock: &'l AtomicU32,
}

impl Line {
    /// Reads without the lock, again and again until nothing was written meanwhile.
    pub(super) fn consistent<T>(&self, mut read: impl FnMut(&Self) -> T) -> T {
        let mut patience = Patience::default();
        loop {
            let before = self.lock.load(Acquire);
            if before & 1 == 0 {
                let found = read(self);
                fence(Acquire);
                if self.lock.load(Relaxed) == before {
                    return found;
                }
            }
            patience.wait();
        }
    }

    /// Waits for the lock and takes it.
    pub(super) fn hold(&self) -> Held<'_> {
        let mut patience = Patience::default();
        loop {
            let free = self.lock.load(Relaxed) & !1;
            if self.lock.compare_exchange_weak(free, free | 1, SeqCst, Relaxed).is_ok() {
                // Pairs with the reader's fence: whoever sees a new state sees that the line was held.
                fence(Release);
                return Held { lock: &self.lock };
            }
            patience.wait();
        }
    }

    /// The slot of this tag, and when its bucket is full again. Belongs together only while the line is held, or
    /// within [`Line::consistent`].
    pub(super) fn find(&self, tag: u32) -> Option<(usize, Time)> {
        let is_it =
            |slot: &usize| self.tags[*slot].load(Relaxed) == tag && self.full_at[*slot].load(Relaxed) != 0;
        let slot = (0..SLOTS).find(is_it)?;
        Some((slot, Time::from_nanos(self.full_at[slot].load(Relaxed))))
    }

    /// Finds a slot for this tag and writes when its bucket is full again; the line must be held. When every slot is
    /// live, the bucket that is full again soonest gives way.
    pub(super) fn write(&self, tag: u32, full_at: Time, now: Time) -> (usize, Written) {
        let known = |slot: usize| self.full_at[slot].load(Relaxed);
        let nearest_to_full = || (0..SLOTS).min_by_key(|&slot| known(slot)).unwrap_or(0);
        let slot = self.find(tag).map_or_else(nearest_to_full, |(slot, _)| slot);
        let is_foreign = self.tags[slot].load(Relaxed) != tag;
        let written =
            if is_foreign && known(slot) > now.as_nanos() { Written::Forgot } else { Written::InPlace };
        self.tags[slot].store(tag, Relaxed);
        self.full_at[slot].store(full_at.as_nanos(), Relaxed);
        (slot, written)
    }

    /// How many buckets are not full.
    pub(super) fn live(&self, now: Time) -> usize {
        self.full_at.iter().filter(|full_at| full_at.load(Relaxed) > now.as_nanos()).count()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lock.store(self.lock.load(Relaxed).wrapping_add(1), Release);
    }
}

/// Spins for a moment, then lets others run: whoever holds the line may have lost its core.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn line() -> Box<Line> {
        Line::new_box_zeroed().unwrap()
    }

    #[test]
    fn a_line_is_one_cache_line() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
    }

    fn write(line: &Line, tag: u32, full_at: u64, now: u64) -> Written {
        line.write(tag, at(full_at), at(now)).1
    }

    fn look(line: &Line, tag: u32) -> Option<u64> {
        line.consistent(|line| line.find(tag)).map(|(_, full_at)| full_at.as_nanos())
    }

    #[test]
    fn the_bucket_nearest_to_full_gives_way() {
        let line = line();
        for (tag, full_at) in [(1, 500), (2, 300), (3, 400), (4, 600), (5, 700)] {
            assert_eq!(write(&line, tag, full_at, 100), Written::InPlace);
        }
        assert_eq!(write(&line, 6, 350, 100), Written::Forgot);
        assert_eq!(look(&line, 2), None);
        assert_eq!((look(&line, 1), look(&line, 6)), (Some(500), Some(350)));
    }

    #[test]
    fn a_full_bucket_is_free_to_take() {
        let line = line();
        for tag in 1..=5 {
            write(&line, tag, 200 + u64::from(tag), 100);
        }
        assert_eq!(line.live(at(100)), 5);
        assert_eq!(write(&line, 9, 900, 201), Written::InPlace);
        assert_eq!(look(&line, 1), None);
        assert_eq!(line.live(at(201)), 5);
    }

    #[test]
    fn a_bucket_is_rewritten_where_it_stands() {
        let line = line();
        write(&line, 7, 10, 1);
        write(&line, 7, 20, 1);
        assert_eq!((look(&line, 7), line.live(at(1))), (Some(20), 1));
    }

    #[test]
    fn tag_zero_is_a_tag_like_any_other() {
        let line = line();
        assert_eq!(look(&line, 0), None);
        write(&line, 0, 20, 1);
        assert_eq!(look(&line, 0), Some(20));
    }
}
