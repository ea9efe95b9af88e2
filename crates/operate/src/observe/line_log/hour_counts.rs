//! How many lines were written, by the hour in which their requests arrived.
//!
//! The audit log tells the numbers, so that a line that is removed later is missed. Which file a line is in, and in which
//! order, makes no difference: several processes may write one log, and others rotate it.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::time::Time;

/// Lines by hour. Most batches are about one hour.
#[derive(Debug, Default)]
pub(super) struct HourCounts(SmallVec<[(u64, u64); 2]>);

impl HourCounts {
    /// Counts lines about a request that arrived at this time.
    pub(super) fn add(&mut self, at: Time, lines: u64) {
        let hour = hour_of(at);
        match self.0.last_mut() {
            Some((last, count)) if *last == hour => *count += lines,
            _ if lines > 0 => self.0.push((hour, lines)),
            _ => {}
        }
    }

    /// Adds them to a sum, without the lines at the end that were lost.
    pub(super) fn add_to(&self, sum: &mut BTreeMap<u64, u64>, mut lost: u64) {
        for &(hour, lines) in self.0.iter().rev() {
            let written = lines.saturating_sub(lost);
            lost -= lost.min(lines);
            if written > 0 {
                *sum.entry(hour).or_default() += written;
            }
        }
    }
}

/// The hour of a time, counted from 1970.
#[must_use]
pub fn hour_of(at: Time) -> u64 {
    at.as_nanos() / HOUR
}

/// Nanoseconds.
const HOUR: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_hour_and_those_that_were_lost_at_the_end_are_not() {
        let mut counts = HourCounts::default();
        for (at, lines) in [(0, 2), (HOUR - 1, 1), (HOUR, 4), (2 * HOUR, 0), (1, 1)] {
            counts.add(Time::from_nanos(at), lines);
        }
        let sum = |lost| {
            let mut sum = BTreeMap::new();
            counts.add_to(&mut sum, lost);
            sum.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(sum(0), [(0, 4), (1, 4)]);
        assert_eq!(sum(3), [(0, 3), (1, 2)]);
        assert_eq!(sum(9), []);
    }
}
