//! One cache line of the table: a lock and five slots.
//!
//! The lock is a sequence lock: odd while held, one more when it is released, so a reader knows whether what it
//! read belongs together. Everything is an atomic, so there is no unsafe code; the lock alone decides who may write.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use zerocopy::FromZeros;

use crate::time::Time;

/// Slots in a line: 4 bytes of lock, 5 tags of 4 bytes and 5 states of 8 bytes are 64 bytes.
pub(super) const SLOTS: usize = 5;

/// A set of five slots; all zero when new.
///
/// A state is the time at which its bucket is full again, so a slot whose time has come is free.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Line {
    lock: AtomicU32,
    tags: [AtomicU32; SLOTS],
    states: [AtomicU64; SLOTS],
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
    /// The state under this tag, without the lock.
    pub(super) fn look(&self, tag: u32) -> Option<Time> {
        let mut patience = Patience::default();
        loop {
            let before = self.lock.load(Acquire);
            if before & 1 == 0 {
                let found = self.find(tag);
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
            if self.lock.compare_exchange_weak(free, free | 1, Acquire, Relaxed).is_ok() {
                // Pairs with the reader's fence: whoever sees a new state sees that the line was held.
                fence(Release);
                return Held { lock: &self.lock };
            }
            patience.wait();
        }
    }

    /// The state under this tag. Belongs together only while the line is held.
    pub(super) fn find(&self, tag: u32) -> Option<Time> {
        let slot = self.slot_of(tag)?;
        Some(Time::from_nanos(self.states[slot].load(Relaxed)))
    }

    /// Writes the state under this tag; the line must be held. When every slot is live, the bucket that is full
    /// again soonest gives way.
    pub(super) fn write(&self, tag: u32, state: Time, now: Time) -> Written {
        let full_at = |slot: usize| self.states[slot].load(Relaxed);
        let nearest_to_full = || (0..SLOTS).min_by_key(|&slot| full_at(slot)).unwrap_or(0);
        let slot = self.slot_of(tag).unwrap_or_else(nearest_to_full);
        let is_foreign = self.tags[slot].load(Relaxed) != tag;
        let written =
            if is_foreign && full_at(slot) > now.as_nanos() { Written::Forgot } else { Written::InPlace };
        self.tags[slot].store(tag, Relaxed);
        self.states[slot].store(state.as_nanos(), Relaxed);
        written
    }

    /// How many buckets are not full.
    pub(super) fn live(&self, now: Time) -> usize {
        self.states.iter().filter(|state| state.load(Relaxed) > now.as_nanos()).count()
    }

    fn slot_of(&self, tag: u32) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.tags[slot].load(Relaxed) == tag && self.states[slot].load(Relaxed) != 0)
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

    #[test]
    fn the_bucket_nearest_to_full_gives_way() {
        let line = line();
        for (tag, full_at) in [(1, 500), (2, 300), (3, 400), (4, 600), (5, 700)] {
            assert_eq!(line.write(tag, at(full_at), at(100)), Written::InPlace);
        }
        assert_eq!(line.write(6, at(350), at(100)), Written::Forgot);
        assert_eq!(line.look(2), None);
        assert_eq!((line.look(1), line.look(6)), (Some(at(500)), Some(at(350))));
    }

    #[test]
    fn a_full_bucket_is_free_to_take() {
        let line = line();
        for tag in 1..=5 {
            line.write(tag, at(200 + u64::from(tag)), at(100));
        }
        assert_eq!(line.live(at(100)), 5);
        assert_eq!(line.write(9, at(900), at(201)), Written::InPlace);
        assert_eq!(line.look(1), None);
        assert_eq!(line.live(at(201)), 5);
    }

    #[test]
    fn a_bucket_is_rewritten_where_it_stands() {
        let line = line();
        line.write(7, at(10), at(1));
        line.write(7, at(20), at(1));
        assert_eq!((line.look(7), line.live(at(1))), (Some(at(20)), 1));
    }

    #[test]
    fn tag_zero_is_a_tag_like_any_other() {
        let line = line();
        assert_eq!(line.look(0), None);
        line.write(0, at(20), at(1));
        assert_eq!(line.look(0), Some(at(20)));
    }
}
