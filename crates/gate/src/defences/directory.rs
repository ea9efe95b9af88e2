//! `directory = "10 per 30m"`: the directory behind an application never locks an account.
//!
//! A directory such as Active Directory locks an account at a threshold of failures. It forgets them after a success, or when
//! its window has passed since the *last* one: failures that come a little more often than that add up for days. So a bucket
//! that holds less than the threshold and refills within the window locks accounts all the same; [`DirectoryBuckets`] are
//! slower.
//!
//! All failures of an account pay from one bucket, from any client. Strangers pay from a smaller and slower one as well,
//! so known owners keep the rest. A repeated failure counts again, whatever else forgives it.

use tollgate_grammar::kind::{Given, Key, Text};
use tollgate_grammar::rate::{RateValue, built};
use tollgate_grammar::{Findings, tables};

use crate::bucket::{Continuous, Spec, SpecError};
use crate::policy::key::KeyPart;
use crate::policy::{ChargeOn, Limit};
use crate::time::Span;

tables! {
    pub RawDirectory {
        directory: Key<Text<RateValue>> = Example Own,
    }
}

/// The buckets of an account in a directory.
///
/// The directory locks the account at the `N`th failure if none of them is further than a window `W` from the one before: if
/// they arrive within `(N - 1)W`. If each was under way for less than `D`, they were admitted within less than
/// `(N - 1)W + D`. In that time a bucket of `B` tokens, with one more every `P`, admits `N` only if `(N - B)P` is shorter.
/// It is just as long, so that no schedule of attempts reaches `N`.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryBuckets {
    /// What strangers pay from, and each known owner.
    strangers: Continuous,
    /// What all of them pay from together.
    all: Continuous,
}

impl DirectoryBuckets {
    /// The buckets for a threshold and its window; `None` after its mistake was reported.
    pub fn check(given: &Given<Text<RateValue>>, f: &mut Findings) -> Option<Self> {
        let RateValue { count, period, burst } = given.checked(f)?;
        if burst != count {
            let at = given.value.find("burst").unwrap_or(0);
            let spot = given.spot.part(&given.value, at..given.value.len());
            f.error(&spot, "the threshold of a directory has no burst", "leave the burst out");
            return None;
        }
        if count < LEAST {
            let hint = "at least 3: a failure of a stranger, one of a known device, and the one that locks";
            f.error(&given.spot, format!("a threshold of {count} leaves nothing to share"), hint);
            return None;
        }
        built(Self::of(count, period), &given.spot, f)
    }

    fn of(threshold: u32, window: Span) -> Result<Self, SpecError> {
        let refilled = threshold.div_ceil(PARTS);
        let all = threshold.saturating_sub(refilled);
        let strangers = all.saturating_sub((all / PARTS).max(1));
        let chain = window.times(threshold.saturating_sub(1).into()).plus(window.max(LONGEST_ATTEMPT));
        Ok(Self {
            // Two tokens while all of them get three: known owners keep a third of the refill, too.
            strangers: Continuous::new(refilled.saturating_mul(2), chain.times(3), strangers)?,
            all: Continuous::new(refilled, chain, all)?,
        })
    }

    /// The limit with these buckets.
    #[must_use]
    pub fn put_into(self, limit: Limit) -> Limit {
        let (spec, directory) = (Spec::Continuous(self.strangers), Some(Spec::Continuous(self.all)));
        Limit { spec, directory, key: vec![KeyPart::User], charge_on: ChargeOn::Failures, ..limit }
    }
}

/// The smallest threshold.
const LEAST: u32 = 3;
/// A third of the threshold is left to the refill; of the rest, a third to known owners.
const PARTS: u32 = 3;
/// An attempt is under way for less than a window, or than this if the window is shorter.
const LONGEST_ATTEMPT: Span = Span::from_secs(300);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Op, step};
    use crate::time::Time;

    /// The most failures that a directory with this window counts in a row, if an attempt comes after each gap and is
    /// under way for each delay. All times in nanoseconds.
    fn most_counted(bucket: Continuous, window: Span, attempts: &[(u64, u64)]) -> u32 {
        let (spec, mut state, mut now) = (Spec::Continuous(bucket), [0], 1 << 60);
        let mut arrived: Vec<u64> = Vec::new();
        for (gap, delay) in attempts {
            now += gap;
            if step(&spec, &mut state, Time::from_nanos(now), Op::Take(1)).verdict.is_admitted() {
                arrived.push(now + delay);
            }
        }
        arrived.sort_unstable();
        let (mut last, mut row, mut most) = (0, 0, 0);
        for at in arrived {
            // Here a failure at the very end of the window counts, too.
            row = if at - last > window.as_nanos() { 1 } else { row + 1 };
            (last, most) = (at, most.max(row));
        }
        most
    }

    fn buckets(threshold: u32, seconds: u64) -> (DirectoryBuckets, Span) {
        let window = Span::from_secs(seconds);
        (DirectoryBuckets::of(threshold, window).unwrap(), window)
    }

    #[test]
    fn strangers_have_two_thirds_of_what_all_have() {
        let of = |threshold| {
            let (DirectoryBuckets { strangers, all }, _) = buckets(threshold, 1800);
            (strangers.burst(), all.burst())
        };
        assert_eq!([3, 4, 5, 10, 50].map(of), [(1, 2), (1, 2), (2, 3), (4, 6), (22, 33)]);
        let (DirectoryBuckets { strangers, all }, _) = buckets(10, 1800);
        assert_eq!([all.per_token(), strangers.per_token()], [75 * 60, 6750].map(Span::from_secs));
    }

    /// The worst case: all that the bucket holds, and each further token just before the window ends.
    #[test]
    fn attempts_that_come_a_little_more_often_than_the_window_do_not_add_up() {
        for (threshold, seconds) in [(3, 60), (5, 1800), (10, 1800), (10, 300), (50, 86_400), (999, 60)] {
            let (DirectoryBuckets { all, .. }, window) = buckets(threshold, seconds);
            for gap in [1, window.as_nanos() / 7, window.as_nanos() / 2, window.as_nanos() - 1] {
                let most = most_counted(all, window, &vec![(gap, 0); 20_000]);
                assert!(most < threshold, "{threshold} in {seconds} s: {most} in a row, {gap} ns apart");
            }
        }
        let leaky = Continuous::new(9, Span::from_secs(1800), 9).unwrap();
        let most = most_counted(leaky, Span::from_secs(1800), &[(60_000_000_000, 0); 1000]);
        assert!(most > 10, "a bucket of nine that is full again after the window locks accounts: {most}");
    }

    proptest! {
        #[test]
        fn no_schedule_of_attempts_reaches_the_threshold(
            threshold in 3..60_u32,
            seconds in prop::sample::select(&[1_u64, 60, 300, 600, 1800, 86_400][..]),
            attempts in prop::collection::vec((0..=1000_u64, 0..1000_u64), 1..400),
        ) {
            let (DirectoryBuckets { all, .. }, window) = buckets(threshold, seconds);
            let longest = window.max(LONGEST_ATTEMPT).as_nanos();
            let scaled = |(gap, delay): &(u64, u64)| (window.as_nanos() / 1000 * gap, longest / 1000 * delay);
            let attempts: Vec<_> = attempts.iter().map(scaled).collect();
            prop_assert!(most_counted(all, window, &attempts) < threshold);
        }
    }
}
