//! One copy of something for each thread, so that workers do not fight over cache lines.
//!
//! It is not a thread-local: a reader that sums up or sweeps sees all copies. Two threads may share a copy (tests have
//! more threads than copies), so a copy must be safe to share; it is only seldom shared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// A copy for each thread that is likely to run at once, 64 at most.
#[derive(Debug)]
pub(super) struct Shards<T>(Box<[CachePadded<T>]>);

/// Two cache lines: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        let copies = available_parallelism().map_or(1, usize::from).next_power_of_two().min(MAX_SHARDS);
        Self((0..copies).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Shards<T> {
    /// The copy of this thread.
    pub(super) fn current(&self) -> &T {
        &self.0[SHARD.with(|shard| *shard) & (self.0.len() - 1)].0
    }

    /// All copies.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().map(|line| &line.0)
    }
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

const MAX_SHARDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_add_is_seen_in_the_sum() {
        let shards = Shards::<AtomicUsize>::default();
        std::thread::scope(|scope| {
            for _ in 0..9 {
                scope.spawn(|| shards.current().fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(shards.iter().map(|shard| shard.load(Ordering::Relaxed)).sum::<usize>(), 9);
    }
}
