//! When attack mode begins and ends on one route: a function of counters and time.
//!
//! It begins when failures and their share reach both thresholds within a minute, or accounts that failed and their share
//! of the accounts do: an attacker with many addresses can have many successes with one account. While it is on, fewer
//! failures get through, so the share alone keeps it on as long as these few would be enough without the mode. It ends
//! when both have been below for the rule's `calm`.

use std::collections::VecDeque;

use super::AttackRule;
use super::distinct_outcomes::OutcomeCounts;
use crate::policy::AlarmFigures;
use crate::time::{Span, Time};

/// The state of one route.
#[derive(Debug, Default)]
pub(super) struct AttackDetector {
    /// Samples of the last minute, the oldest first.
    samples: VecDeque<(Time, OutcomeCounts)>,
    /// While the mode is on: when the thresholds were last reached.
    last_reached: Option<Time>,
}

/// The last minute of a route.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Measured {
    failures: u64,
    /// The share of failures among the attempts, from 0 to 1.
    share: f64,
    failed_accounts: u64,
    /// The share of accounts that failed among the accounts, from 0 to 1.
    share_of_accounts: f64,
}

impl Measured {
    /// What is told where the mode begins or ends by this. Of both shares it is the higher one.
    pub(super) fn figures(&self) -> AlarmFigures {
        AlarmFigures { failures: self.failures, share: self.share.max(self.share_of_accounts) }
    }
}

impl AttackDetector {
    fn is_on(&self) -> bool {
        self.last_reached.is_some()
    }

    /// Adds a sample of the counters, and measures the minute before it.
    pub(super) fn measure(&mut self, counts: OutcomeCounts, now: Time) -> Measured {
        while self.samples.len() >= MAX_SAMPLES
            || self.samples.get(1).is_some_and(|(at, _)| now.since(*at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        if self.samples.is_empty() {
            // The counters began at zero: attempts that came before the first look count, too.
            self.samples.push_back((now, OutcomeCounts::default()));
        }
        self.samples.push_back((now, counts));
        let first = self.samples.front().map_or(counts, |(_, first)| *first);
        let since = |count: fn(&OutcomeCounts) -> u64| count(&counts).saturating_sub(count(&first));
        let (failures, failed_accounts) = (since(|of| of.failures), since(|of| of.failed_accounts));
        Measured {
            failures,
            failed_accounts,
            share: share(failures, since(|of| of.successes)),
            share_of_accounts: share(failed_accounts, since(|of| of.succeeded_accounts)),
        }
    }

    /// Whether the mode is on from now on.
    pub(super) fn judge(&mut self, measured: Measured, rule: &AttackRule, now: Time) -> bool {
        // While it is on, so many times fewer failures get through.
        let factor = if self.is_on() { rule.highest_factor().into() } else { 1 };
        let is_enough = |count: u64| count.saturating_mul(factor) >= rule.failures;
        let mostly = measured.share >= rule.share
            || (measured.share_of_accounts >= rule.share && is_enough(measured.failed_accounts));
        let is_many = self.is_on() && measured.failures >= rule.failures;
        let is_reached = is_many || (mostly && is_enough(measured.failures));
        if is_reached {
            self.last_reached = Some(now);
        } else if self.last_reached.is_some_and(|reached| now.since(reached) >= rule.calm) {
            self.last_reached = None;
        }
        self.is_on()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no 52 bits")]
fn share(failed: u64, succeeded: u64) -> f64 {
    match failed.saturating_add(succeeded) {
        0 => 0.0,
        all => failed as f64 / all as f64,
    }
}

const WINDOW: Span = Span::from_secs(60);
/// One a second, and both ends of the minute.
const MAX_SAMPLES: usize = 61;

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: AttackRule = AttackRule {
        failures: 60,
        share: 0.8,
        cost_factor: 4,
        worst_factor: None,
        calm: Span::from_secs(120),
        webhook: None,
    };

    /// Feeds each second's failures and successes, and says in which seconds the mode was on.
    fn on_in(seconds: impl IntoIterator<Item = (u64, u64)>) -> Vec<usize> {
        let (mut detector, mut counts) = (AttackDetector::default(), OutcomeCounts::default());
        let start = Time::from_nanos(1_000_000_000_000);
        detector.measure(counts, start);
        let mut on = Vec::new();
        for (second, (failures, successes)) in seconds.into_iter().enumerate() {
            counts.failures += failures;
            counts.successes += successes;
            let now = start.after(Span::from_secs(second as u64 + 1));
            let measured = detector.measure(counts, now);
            if detector.judge(measured, &RULE, now) {
                on.push(second);
            }
        }
        on
    }

    fn steady(failures: u64, successes: u64, seconds: usize) -> Vec<(u64, u64)> {
        vec![(failures, successes); seconds]
    }

    #[test]
    fn it_begins_when_a_minute_has_both_the_failures_and_their_share() {
        assert_eq!(on_in(steady(2, 0, 60)).first(), Some(&29), "the sixtieth failure");
        assert!(on_in(steady(2, 1, 300)).is_empty(), "two thirds fail");
        assert!(on_in((0..300).map(|second| (u64::from(second % 2 == 0), 0))).is_empty(), "thirty a minute");
    }

    #[test]
    fn it_begins_when_so_many_accounts_fail_although_one_succeeds_again_and_again() {
        let start = Time::from_nanos(1_000_000_000_000);
        let judged = |failed_accounts, succeeded_accounts| {
            let mut detector = AttackDetector::default();
            detector.measure(OutcomeCounts::default(), start);
            let counts = OutcomeCounts { failures: 120, successes: 40, failed_accounts, succeeded_accounts };
            let now = start.after(Span::from_secs(30));
            let measured = detector.measure(counts, now);
            detector.judge(measured, &RULE, now)
        };
        assert!(judged(60, 1), "a list of accounts, and one of the attacker's");
        assert!(!judged(59, 1), "too few accounts");
        assert!(!judged(60, 40), "a busy route");
    }

    #[test]
    fn it_ends_when_it_has_been_calm_long_enough() {
        let seconds = [steady(60, 0, 1), steady(0, 1, 300)].concat();
        let on = on_in(seconds);
        assert_eq!(on.first(), Some(&0));
        // Above the share for a minute at most, and two minutes of calm behind it.
        let last = *on.last().unwrap();
        assert!((120..=181).contains(&last), "{last}");
    }

    #[test]
    fn an_attack_that_is_held_down_keeps_it_on() {
        // A quarter of the failures that began it get through.
        let held_down = (0..1200).map(|second| (u64::from(second % 4 == 0), 0));
        let on = on_in(steady(2, 0, 60).into_iter().chain(held_down));
        assert_eq!(on.last(), Some(&1259));
    }

    #[test]
    fn a_few_failures_at_night_do_not_keep_it_on() {
        let night = (0..1200).map(|second| (u64::from(second % 30 == 0), 0));
        let on = on_in(steady(2, 0, 60).into_iter().chain(night));
        assert!(on.last().is_some_and(|last| *last < 300), "{:?}", on.last());
    }

    #[test]
    fn it_flickers_not_within_a_pause_that_is_shorter_than_the_calm() {
        let waves = [steady(60, 0, 1), steady(0, 0, 150), steady(60, 0, 1), steady(0, 0, 150)].concat();
        let on = on_in(waves);
        assert_eq!(on.len(), on.last().unwrap() + 1, "on without a gap: {on:?}");
    }

    #[test]
    fn the_samples_are_bounded() {
        let mut detector = AttackDetector::default();
        for step in 0..10_000 {
            detector.measure(OutcomeCounts::default(), Time::from_nanos(step * 1_000_000));
        }
        assert!(detector.samples.len() <= MAX_SAMPLES);
    }
}
