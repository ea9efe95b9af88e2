//! Describes one limit's decision: what is taken, the bucket's shape, what is left.

use crate::bucket::{Admission, Continuous, PeriodStart, Spec, Verdict};
use crate::config::values::{Duration, in_words};
use crate::defences;
use crate::engine::LimitStatus;
use crate::policy::{Limit, LimitKind};
use crate::time::Span;

/// The limit's name, with the sub-limit if it is not the rate.
pub(super) fn name(limit: &Limit) -> String {
    match limit.kind {
        LimitKind::Rate => limit.name.to_string(),
        kind => format!("{}, {}", limit.name, kind.name()),
    }
}

/// What the attempt takes of a new bucket, or how long the bucket refuses it.
pub(super) fn taken(before: &LimitStatus) -> String {
    describe_taken(before, "a bucket of", " that is new")
}

/// The same of a bucket in use.
pub(super) fn would_take(now: &LimitStatus) -> String {
    describe_taken(now, "its bucket of", "")
}

fn describe_taken(before: &LimitStatus, of: &str, which: &str) -> String {
    let (cost, verdict, burst) = (before.charge.cost, before.verdict, before.charge.spec.burst());
    if let Some((meets, _)) = defences::explain(before.charge.spec, &verdict, time) {
        return meets;
    }
    let tokens = if cost == 1 { "1 token".to_owned() } else { format!("{cost} tokens") };
    let bucket = format!("in {of} {burst}{which}");
    let observing = if before.charge.effect.is_enforced() { "" } else { " (only observes)" };
    match verdict.admission {
        Admission::Admitted => format!("takes {tokens} of {} {bucket}{observing}", verdict.left),
        Admission::Held { hold } => {
            format!("takes {tokens} of {} {bucket}, due in {}{observing}", verdict.left, time(hold))
        }
        Admission::Refused { wait } => {
            format!("refuses {tokens} of {} {bucket} for {}{observing}", verdict.left, time(wait))
        }
        Admission::NeverFits => format!("refuses {tokens} {bucket}, for ever{observing}"),
    }
}

/// The bucket's shape, and its level if the attempt were made now.
pub(super) fn would_leave(now: &LimitStatus) -> String {
    let taken = if now.verdict.is_admitted() { now.charge.cost } else { 0 };
    let verdict = Verdict { left: now.verdict.left.saturating_sub(taken), ..now.verdict };
    left(&LimitStatus { verdict, ..*now })
}

/// The bucket's shape and level after the attempt.
pub(super) fn left(after: &LimitStatus) -> String {
    let verdict = after.verdict;
    if let Some((_, left)) = defences::explain(after.charge.spec, &verdict, time) {
        return left;
    }
    let next = match (after.charge.spec, verdict.next_token) {
        (_, Span::ZERO) => String::new(),
        (Spec::Interval(_), border) => format!("; the period ends in {}", time(border)),
        (_, next) => format!(", the next in {}", time(next)),
    };
    format!("{}; {} left{next}", shape(after.charge.spec), verdict.left)
}

fn shape(spec: Spec) -> String {
    match spec {
        Spec::Continuous(bucket) if bucket.hold() > Span::ZERO => {
            format!("{}, attempts are held up to {}", refill(&bucket), in_words(bucket.hold()))
        }
        Spec::Continuous(bucket) => refill(&bucket),
        Spec::Distinct(distinct) => format!("{}, each thing counts once", refill(&distinct.bucket())),
        Spec::Recent(recent) => format!("remembers for {}", in_words(recent.ttl())),
        Spec::Interval(bucket) => {
            format!("full again every {}{}", in_words(bucket.period()), begins(bucket.period_start()))
        }
        Spec::Rolling(window) => {
            let (quota, every) = (window.quota(), in_words(window.period()));
            let one =
                if window.burst() < quota { format!(", {} in one", window.burst()) } else { String::new() };
            let anchor = begins(window.period_start());
            format!("at most {quota} in {} periods of {every}{one}{anchor}", window.slots())
        }
        Spec::Floor(both) => {
            let (floor, pool) = (both.floor(), both.pool());
            format!(
                "{} guaranteed, {}; a pool of {}, {}",
                floor.burst(),
                refill(&floor),
                pool.burst(),
                refill(&pool)
            )
        }
        // A defence has the words.
        _ => String::new(),
    }
}

fn refill(bucket: &Continuous) -> String {
    match bucket.per_token() {
        short if short < MILLISECOND => format!("{} more every second", SECOND / short.as_nanos().max(1)),
        long => format!("one more every {}", in_words(long)),
    }
}

fn begins(anchor: PeriodStart) -> &'static str {
    match anchor {
        PeriodStart::First => ", from the first attempt on",
        PeriodStart::Clock => ", by the clock (UTC)",
    }
}

/// Rounded up: to tenths of a second below a minute, to whole seconds above.
pub(super) fn time(span: Span) -> String {
    let tenths = span.as_nanos().div_ceil(SECOND / 10);
    match (tenths / 10, tenths % 10) {
        (seconds, tenth) if seconds < 60 && tenth > 0 => format!("{seconds}.{tenth}s"),
        _ => Duration(Span::from_secs(span.as_secs_ceil())).to_string(),
    }
}

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: Span = Span::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_short_ones_have_a_tenth() {
        let millis = [0, 1, 1150, 2000, 59_901, 60_001, 90_000, 5_400_000];
        let times = millis.map(|millis| time(Span::from_millis(millis)));
        assert_eq!(times, ["0s", "0.1s", "1.2s", "2s", "1m", "1m1s", "1m30s", "1h30m"]);
    }

    #[test]
    fn a_fast_refill_is_counted_by_the_second() {
        let bucket = |count| Continuous::new(count, Span::from_secs(1), 1).unwrap();
        assert_eq!(refill(&bucket(10)), "one more every 100ms");
        assert_eq!(refill(&bucket(5000)), "5000 more every second");
    }
}
