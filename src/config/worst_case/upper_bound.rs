//! Upper bound of what a bucket admits in any span of time, whatever its clients do.
//!
//! A span touches one period more than fit into it, so even an instant touches two.

use crate::bucket::{Continuous, Spec};
use crate::time::Span;

/// Tokens that can be taken within a span, its ends included. Exact, except where the time for a token is rounded up.
#[must_use]
pub fn upper_bound(spec: &Spec, span: Span) -> u64 {
    match spec {
        Spec::Continuous(bucket) => of_continuous(bucket, span),
        Spec::Distinct(distinct) => of_continuous(&distinct.bucket(), span),
        Spec::Interval(bucket) => periods(span, bucket.period()).saturating_mul(u64::from(bucket.quota())),
        Spec::Rolling(window) => {
            // Any `slots` consecutive periods admit the quota at most, and each period the rate.
            let (touched, slots) = (periods(span, window.period()), u64::from(window.slots()));
            let (quota, rate) = (u64::from(window.quota()), u64::from(window.burst()));
            let whole = quota.min(rate * slots);
            let rest = whole.min(rate.saturating_mul(touched % slots.max(1)));
            whole.saturating_mul(touched / slots.max(1)).saturating_add(rest)
        }
        Spec::Floor(both) => {
            of_continuous(&both.floor(), span).saturating_add(of_continuous(&both.pool(), span))
        }
        // The others have no tokens, and bound nothing.
        _ => u64::MAX,
    }
}

/// Tokens that refill within a span. The time for a token is rounded up by less than a nanosecond, so a whole count may
/// seem to be missed by as much.
pub(super) fn tokens_in(span: Span, per_token: Span) -> u64 {
    let (span, per_token) = (span.as_nanos(), per_token.as_nanos().max(1));
    let whole = span / per_token;
    let missing = per_token - span % per_token;
    if missing < per_token && missing <= whole { whole + 1 } else { whole }
}

fn of_continuous(bucket: &Continuous, span: Span) -> u64 {
    u64::from(bucket.burst()).saturating_add(tokens_in(span, bucket.per_token()))
}

/// Periods that a span touches if it begins at the end of one.
fn periods(span: Span, period: Span) -> u64 {
    span.as_nanos().div_ceil(period.as_nanos().max(1)) + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Admission, Floor, Interval, Op, PeriodStart, Rolling, step};
    use crate::time::Time;

    /// Takes every token as soon as it is available, from just before a border on.
    fn greedy(spec: &Spec, span: Span) -> u64 {
        let mut state = vec![0; spec.words()];
        let begin = Time::from_nanos(1_000_000 * PERIOD - 1);
        let (mut now, mut taken) = (begin, 0);
        while now <= begin.after(span) {
            let mut next = state.clone();
            let decided = step(spec, &mut next, now, Op::Take(1));
            if decided.changed {
                state = next;
            }
            match decided.verdict.admission {
                Admission::Refused { wait } => now = now.after(wait),
                _ => taken += 1,
            }
        }
        taken
    }

    fn any_spec(anchor: PeriodStart) -> impl Strategy<Value = Spec> {
        let period = Span::from_nanos(PERIOD);
        let interval = move |quota| Spec::Interval(Interval::new(quota, period, anchor).unwrap());
        let rolling = move |(quota, slots, rate): (u32, u64, u32)| {
            let window = Rolling::new(quota, period.times(slots), period, anchor);
            Spec::Rolling(window.unwrap().with_rate(rate).unwrap())
        };
        let continuous =
            |(count, burst): (u32, u32)| Continuous::new(count, Span::from_nanos(PERIOD), burst).unwrap();
        let bucket = (1..9_u32, 1..9_u32).prop_map(continuous);
        prop_oneof![
            bucket.clone().prop_map(Spec::Continuous),
            (bucket.clone(), bucket).prop_map(|(floor, pool)| Spec::Floor(Floor::new(floor, pool).unwrap())),
            (1..9_u32).prop_map(interval),
            (1..20_u32, 1..6_u64, 1..9_u32).prop_map(rolling),
        ]
    }

    proptest! {
        #[test]
        fn a_client_that_takes_every_token_gets_the_most_and_none_gets_more(
            spec in any_spec(PeriodStart::Clock),
            // Not so close below a whole count that rounding could reach it.
            span in prop_oneof![Just(1), (1..20 * PERIOD / 1000).prop_map(|micros| micros * 1000)],
        ) {
            let span = Span::from_nanos(span);
            prop_assert_eq!(greedy(&spec, span), upper_bound(&spec, span));
        }

        #[test]
        fn periods_that_begin_with_an_attempt_let_through_no_more(
            spec in any_spec(PeriodStart::First),
            gaps in prop::collection::vec(prop_oneof![0..PERIOD / 4, 0..PERIOD * 6], 1..60),
            span in 1..8 * PERIOD,
        ) {
            let (mut state, mut now, mut taken) = (vec![0; spec.words()], Time::from_nanos(PERIOD), Vec::new());
            for gap in gaps {
                now = now.after(Span::from_nanos(gap));
                while step(&spec, &mut state, now, Op::Take(1)).verdict.is_admitted() {
                    taken.push(now);
                }
            }
            let within = |end: &Time| {
                taken.iter().filter(|&time| time <= end && end.since(*time) <= Span::from_nanos(span)).count()
            };
            let busiest = taken.iter().map(within).max().unwrap_or(0) as u64;
            prop_assert!(busiest <= upper_bound(&spec, Span::from_nanos(span)), "{busiest} tokens");
        }
    }

    /// A multiple of all counts above, so the time for a token is never rounded.
    const PERIOD: u64 = 840_000;
}
