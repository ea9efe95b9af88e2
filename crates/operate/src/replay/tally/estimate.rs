//! Which rate and burst would have refused few good clients.
//!
//! A client is good if it signed in at least once, with at most three failures for each success. For each of five rates
//! around the present one, the burst that a client needed is the highest level that its own leaky bucket reached, had
//! all of its attempts been admitted. Sorted, they tell the burst that refuses a share of the good clients, and none of those
//! that the present rate refused and that signed in soon after. The suggestion is the pair of rate and burst that
//! admits the fewest attempts a day from one client.
//!
//! A client here is a bucket of the limit: for a limit by subnet, a whole subnet.

use std::collections::HashMap;

use super::clients::is_person;
use crate::bucket::{Continuous, Key};
use crate::policy::outcome::Outcome;
use crate::replay::report::RateSuggestion;
use crate::time::{Span, Time};

/// What the clients of a limit needed.
#[derive(Debug)]
pub(super) struct RateEstimate {
    present: Continuous,
    /// The time of one token, for each rate.
    per_token: [Span; RATES],
    is_by_failures: bool,
    clients: HashMap<Key, ClientNeed>,
}

/// An attempt as a limit judged it.
#[derive(Debug)]
pub(super) struct JudgedAttempt {
    /// The bucket.
    pub(super) key: Key,
    /// The tokens that it takes.
    pub(super) cost: u32,
    /// Whether the limit refuses it, or would.
    pub(super) is_refused: bool,
    /// What came of it.
    pub(super) outcome: Option<Outcome>,
}

#[derive(Debug, Default)]
struct ClientNeed {
    /// When each bucket is full again.
    full_at: [Time; RATES],
    /// The tokens that it lacked at most.
    peaks: [u32; RATES],
    successes: u32,
    failures: u32,
    refused_at: Option<Time>,
    /// Whether the present rate refused a person.
    is_false_positive: bool,
}

impl RateEstimate {
    pub(super) fn new(present: Continuous, is_by_failures: bool) -> Self {
        let per_token = present.per_token().as_nanos();
        let scaled = |quarters: u64| Span::from_nanos((per_token / 4).saturating_mul(quarters).max(1));
        let per_token = [1, 2, 4, 8, 16].map(scaled);
        Self { present, per_token, is_by_failures, clients: HashMap::new() }
    }

    pub(super) fn attempt(&mut self, attempt: &JudgedAttempt, now: Time) {
        let &JudgedAttempt { key, cost, is_refused, outcome } = attempt;
        if self.clients.len() >= MAX_KNOWN && !self.clients.contains_key(&key) {
            return;
        }
        let need = self.clients.entry(key).or_default();
        for (at, per_token) in self.per_token.iter().enumerate() {
            let costs = per_token.times(cost.into());
            let full_at = need.full_at[at].max(now).after(costs);
            let lacking = full_at.since(now).as_nanos().div_ceil(per_token.as_nanos());
            need.peaks[at] = need.peaks[at].max(u32::try_from(lacking).unwrap_or(u32::MAX));
            let is_refunded = self.is_by_failures && !matches!(outcome, None | Some(Outcome::Failure));
            need.full_at[at] = if is_refunded { full_at.before(costs) } else { full_at };
        }
        if is_refused {
            need.refused_at = Some(now);
        }
        match outcome {
            Some(Outcome::Success) => {
                need.successes = need.successes.saturating_add(1);
                let is_person = |at| is_person(need.failures.into(), at, now);
                need.is_false_positive |= need.refused_at.is_some_and(is_person);
            }
            Some(Outcome::Failure) => need.failures = need.failures.saturating_add(1),
            _ => {}
        }
    }

    /// `None` if no client is good.
    pub(super) fn suggestion(&self, share: f64) -> Option<RateSuggestion> {
        let good: Vec<&ClientNeed> = self.clients.values().filter(|need| need.is_good()).collect();
        let refused_by = |at: usize, burst| good.iter().filter(|need| need.peaks[at] > burst).count();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a count"
        )]
        let spared = good.len().checked_sub(1)? - ((good.len() as f64 * share) as usize).min(good.len() - 1);
        let pairs = (0..RATES).map(|at| {
            let mut peaks: Vec<u32> = good.iter().map(|need| need.peaks[at]).collect();
            let refused = good.iter().filter(|need| need.is_false_positive).map(|need| need.peaks[at]).max();
            (at, refused.unwrap_or_default().max(*peaks.select_nth_unstable(spared).1))
        });
        let a_day = |&(at, burst): &(usize, u32)| {
            u64::from(burst).saturating_add(DAY.as_nanos() / self.per_token[at].as_nanos())
        };
        let (at, burst) = pairs.min_by_key(a_day)?;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Some(RateSuggestion {
            rate: rate_text(self.per_token[at], burst),
            good_clients: count(good.len()),
            refused_good_clients: count(refused_by(at, burst)),
            refused_by_present: count(refused_by(PRESENT, self.present.burst())),
        })
    }
}

impl ClientNeed {
    fn is_good(&self) -> bool {
        let is_usual = self.failures <= self.successes.saturating_mul(MAX_FAILURES_PER_SUCCESS);
        self.is_false_positive || self.successes > 0 && is_usual
    }
}

/// The rate as the file writes it: whole tokens in a whole number of seconds, minutes or hours. Where an hour holds no whole
/// number of tokens, a little faster.
fn rate_text(per_token: Span, burst: u32) -> String {
    let (nanos, second) = (per_token.as_nanos().max(1), 1_000_000_000);
    let exact = (1_u64..=3_600).find(|seconds| (seconds * second).is_multiple_of(nanos));
    let (count, seconds) = match exact {
        _ if nanos.is_multiple_of(second) => (1, nanos / second),
        Some(seconds) => (seconds * second / nanos, seconds),
        None => ((3_600 * second).div_ceil(nanos), 3_600),
    };
    let period = match seconds {
        seconds if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        seconds if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    };
    format!("{count} per {period} burst {burst}")
}

const RATES: usize = 5;
/// The present rate among the five: 4, 2, 1 times as fast, a half, a quarter.
const PRESENT: usize = 2;
const MAX_FAILURES_PER_SUCCESS: u32 = 3;
const DAY: Span = Span::from_secs(86_400);

/// Clients whose needs are known; later ones do not count.
const MAX_KNOWN: usize = 131_072;

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> RateEstimate {
        RateEstimate::new(Continuous::new(10, Span::from_secs(300), 10).unwrap(), false)
    }

    fn judged(key: u128, outcome: Outcome) -> JudgedAttempt {
        JudgedAttempt { key: Key(key), cost: 1, is_refused: false, outcome: Some(outcome) }
    }

    fn at(secs: u64) -> Time {
        Time::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn the_burst_is_what_good_clients_needed_at_the_slowest_rate_that_does_it() {
        let mut estimate = estimate();
        for person in 0..100 {
            // Two failures and a success at once.
            for outcome in [Outcome::Failure, Outcome::Failure, Outcome::Success] {
                estimate.attempt(&judged(person, outcome), at(1_000));
            }
        }
        for guess in 0..1_000 {
            estimate.attempt(&judged(999, Outcome::Failure), at(1_000 + guess));
        }
        let suggestion = estimate.suggestion(0.01).unwrap();
        assert_eq!(suggestion.rate, "1 per 2m burst 3");
        assert_eq!((suggestion.good_clients, suggestion.refused_good_clients), (100, 0));
    }

    #[test]
    fn a_share_of_the_good_clients_may_be_refused() {
        let mut estimate = estimate();
        for person in 0..100 {
            let attempts = if person < 5 { 40 } else { 1 };
            (0..attempts).for_each(|_| estimate.attempt(&judged(person, Outcome::Success), at(1_000)));
        }
        let (strict, lenient) = (estimate.suggestion(0.05).unwrap(), estimate.suggestion(0.04).unwrap());
        assert_eq!((&*strict.rate, strict.refused_good_clients), ("1 per 2m burst 1", 5));
        assert_eq!((&*lenient.rate, lenient.refused_good_clients), ("1 per 2m burst 40", 0));
        assert_eq!(strict.refused_by_present, 5);
    }

    /// A log of an office behind one address got a suggestion of 14 where a refused person had needed 15.
    #[test]
    fn a_person_who_was_refused_would_not_be_refused_by_the_suggestion() {
        let mut estimate = estimate();
        for person in 0..1_000 {
            estimate.attempt(&judged(person, Outcome::Success), at(1_000));
        }
        for failure in 0..14 {
            let is_refused = failure >= 10;
            let attempt = JudgedAttempt { is_refused, ..judged(5_000, Outcome::Failure) };
            estimate.attempt(&attempt, at(1_000));
        }
        estimate.attempt(&judged(5_000, Outcome::Success), at(1_000));
        let suggestion = estimate.suggestion(0.01).unwrap();
        assert_eq!((&*suggestion.rate, suggestion.refused_good_clients), ("1 per 2m burst 15", 0));
        assert_eq!((suggestion.good_clients, suggestion.refused_by_present), (1_001, 1));
    }

    #[test]
    fn without_a_good_client_nothing_is_suggested() {
        let mut estimate = estimate();
        (0..9).for_each(|_| estimate.attempt(&judged(1, Outcome::Failure), at(1)));
        assert!(estimate.suggestion(0.01).is_none());
    }

    #[test]
    fn a_rate_is_written_as_the_file_reads_it() {
        assert_eq!(rate_text(Span::from_millis(100), 5), "10 per 1s burst 5");
        assert_eq!(rate_text(Span::from_secs(90), 5), "1 per 90s burst 5");
        assert_eq!(rate_text(Span::from_millis(7_500), 5), "2 per 15s burst 5");
        assert_eq!(rate_text(Span::from_millis(300), 5), "10 per 3s burst 5");
        assert_eq!(rate_text(Span::from_nanos(6_999_999_999), 5), "515 per 1h burst 5");
        assert_eq!(rate_text(Span::from_secs(7_200), 5), "1 per 2h burst 5");
    }
}
