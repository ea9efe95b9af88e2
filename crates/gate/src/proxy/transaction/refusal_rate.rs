//! How fast a worker refuses. The faster, the more work a challenge takes.

use std::cell::Cell;

use crate::time::Time;

/// How many refusals a worker has made in this second and in the last one.
#[derive(Debug, Default)]
pub struct RefusalRate {
    second: Cell<u64>,
    count: Cell<u32>,
    before: Cell<u32>,
}

impl RefusalRate {
    /// Counts a refusal. Returns the larger of both numbers.
    pub(super) fn count(&self, now: Time) -> u32 {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second.get() {
            let is_next = second == self.second.get().saturating_add(1);
            self.before.set(if is_next { self.count.get() } else { 0 });
            self.second.set(second);
            self.count.set(0);
        }
        self.count.set(self.count.get().saturating_add(1));
        self.count.get().max(self.before.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_the_second() {
        let (rate, start) = (RefusalRate::default(), 1_800_000_000_000_000_000);
        let at = |millis: u64| Time::from_nanos(start + millis * 1_000_000);
        let counts = [0, 10, 20, 1_000, 1_010, 2_000, 5_000].map(|millis| rate.count(at(millis)));
        assert_eq!(counts, [1, 2, 3, 3, 3, 2, 1]);
    }
}
