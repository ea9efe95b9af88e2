//! What a continuous bucket promises, over random specs and random times, and agreement with governor.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

#[path = "support/bucket.rs"]
mod bucket;

use std::num::NonZeroU32;
use std::time::Duration;

use bucket::Bucket;
use governor::clock::{Clock as _, FakeRelativeClock};
use governor::{Quota, RateLimiter};
use proptest::prelude::*;
use tollgate::bucket::{Answer, Continuous, Header, LONGEST_RECORD, Op, Spec, Time};
use tollgate::time::Span;

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// A spec with a round time per token, so that a promise can be stated without rounding.
fn specs() -> impl Strategy<Value = Continuous> {
    (1_u64..10_000_000_000, 1_u32..200, 0_u32..50, 0.0..=1.0_f64).prop_map(
        |(per_token, burst, debt, initial)| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the burst"
            )]
            let initial = (f64::from(burst) * initial) as u32;
            let spec = Continuous::new(1, Span::from_nanos(per_token), burst).unwrap();
            spec.with_initial(initial).unwrap().with_debt(debt).unwrap()
        },
    )
}

/// Pauses in thousandths of the time per token, most of them short.
fn pauses() -> impl Strategy<Value = Vec<u64>> {
    let pause = prop_oneof![4 => 0_u64..1500, 1 => Just(0), 1 => Just(1000), 1 => 0_u64..300_000];
    prop::collection::vec(pause, 1..200)
}

fn thousandths(spec: &Continuous, pause: u64) -> Span {
    Span::from_nanos((u128::from(spec.per_token().as_nanos()) * u128::from(pause) / 1000).try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_admits_more_than_burst_and_refill(spec in specs(), pauses in pauses()) {
        let (mut bucket, mut now, mut admitted) = (Bucket::new(Spec::Continuous(spec)), START, Vec::new());
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
            if bucket.run(now, Op::Take(1)).verdict.is_admitted() {
                admitted.push(now);
            }
        }
        for (first, from) in admitted.iter().enumerate() {
            for (last, to) in admitted.iter().enumerate().skip(first) {
                let refill = to.since(*from).as_nanos() / spec.per_token().as_nanos();
                prop_assert!((last - first + 1) as u64 <= u64::from(spec.burst()) + refill);
            }
        }
    }

    #[test]
    fn refused_before_the_wait_is_over_and_admitted_at_it(spec in specs(), pauses in pauses(), cost in 1_u32..5) {
        let (mut bucket, mut now) = (Bucket::new(Spec::Continuous(spec)), START);
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
                let said = bucket.run(now, Op::Take(cost)).verdict;
            match said.answer {
                Answer::Refused { wait } => {
                    let at = |time| bucket.look(time, Op::Peek(cost)).verdict.is_admitted();
                    prop_assert!(!at(now.after(wait).before(Span::from_nanos(1))), "one nanosecond early");
                    prop_assert!(at(now.after(wait)), "at the time that was named");
                }
                Answer::Held { .. } => prop_assert!(false, "nothing is held here"),
                Answer::NeverFits => prop_assert!(cost > spec.burst()),
                Answer::Admitted => {
                    let due = bucket.look(now.after(said.next_token), Op::Peek(1)).verdict.left;
                    prop_assert_eq!(due, (said.left + 1).min(spec.burst()), "the next token comes when it was said");
                }
            }
            prop_assert_eq!(bucket.look(said.full_at, Op::Peek(1)).verdict.left, spec.burst());
        }
    }

    #[test]
    fn governor_decides_the_same(per_token in 1_u64..10_000_000_000, burst in 1_u32..200, pauses in pauses()) {
        let spec = Continuous::new(1, Span::from_nanos(per_token), burst).unwrap();
        let quota = Quota::with_period(Duration::from_nanos(per_token)).unwrap();
        let clock = FakeRelativeClock::default();
        let oracle = RateLimiter::direct_with_clock(quota.allow_burst(NonZeroU32::new(burst).unwrap()), clock.clone());
        let (mut bucket, mut now) = (Bucket::new(Spec::Continuous(spec)), START);
        for pause in pauses {
            let pause = thousandths(&spec, pause);
            now = now.after(pause);
            clock.advance(pause.to_std());
            let ours = bucket.run(now, Op::Take(1)).verdict;
            match (oracle.check(), ours.answer) {
                (Ok(()), Answer::Admitted) => {}
                (Err(until), Answer::Refused { wait }) => {
                    prop_assert_eq!(until.wait_time_from(clock.now()), wait.to_std());
                }
                (theirs, ours) => prop_assert!(false, "governor {theirs:?}, ours {ours:?}"),
            }
        }
    }

    #[test]
    fn a_clock_that_steps_neither_refills_nor_locks(
        spec in specs(), steps in prop::collection::vec((any::<bool>(), 0_u64..3_600_000_000_000), 1..60),
    ) {
        let (mut bucket, mut now, mut forward) = (Bucket::new(Spec::Continuous(spec)), START, 0_u128);
        let mut admitted = 0_u128;
        for (back, by) in steps {
            if back {
                now = now.before(Span::from_nanos(by));
            } else {
                now = now.after(Span::from_nanos(by));
                forward += u128::from(by);
            }
            let said = bucket.run(now, Op::Take(1)).verdict;
            admitted += u128::from(said.is_admitted());
            if let Answer::Refused { wait } = said.answer {
                let deepest = spec.per_token().times(u64::from(spec.debt()) + 1);
                prop_assert!(wait <= deepest, "locked for {wait:?}, at most {deepest:?}");
            }
        }
        // Steps back give nothing: all that was admitted came from the burst and from time that passed forwards.
        prop_assert!(admitted <= u128::from(spec.burst()) + forward / u128::from(spec.per_token().as_nanos()) + 1);
    }

    #[test]
    fn a_token_given_back_is_as_if_it_was_never_taken(spec in specs(), pauses in pauses(), cost in 1_u32..5) {
        let (mut bucket, mut now) = (Bucket::new(Spec::Continuous(spec)), START);
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
            let before = bucket.look(now, Op::Peek(1)).verdict;
            let mut tried = bucket;
            if tried.run(now, Op::Take(cost)).verdict.is_admitted() {
                let after = tried.run(now, Op::Give(cost)).verdict;
                prop_assert_eq!((before.left, before.full_at), (after.left, after.full_at));
            }
            prop_assert!(bucket.look(now, Op::Give(1000)).verdict.left <= spec.burst());
            let _ = bucket.run(now, Op::Take(1));
        }
    }

    #[test]
    fn a_state_survives_its_bytes(spec in specs(), nanos in any::<u64>()) {
        let (header, mut bytes) = (Header::of(Spec::Continuous(spec)), [0; LONGEST_RECORD]);
        let written = header.encode(&[nanos], &mut bytes);
        let mut state = [0; Spec::MOST_WORDS];
        prop_assert_eq!(Header::decode(&bytes[..written], &mut state), Ok(header));
        prop_assert_eq!(state[0], nanos);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..32), now in any::<u64>()) {
        let mut state = [0; Spec::MOST_WORDS];
        if let Ok(header) = Header::decode(&bytes, &mut state) {
            let mut bucket = Bucket { spec: header.spec, state };
            for op in [Op::Take(1), Op::Peek(u32::MAX), Op::Give(u32::MAX)] {
                let _ = bucket.run(Time::from_nanos(now), op);
            }
        }
    }

    #[test]
    fn any_numbers_make_a_bucket_or_an_error(
        count in any::<u32>(), period in any::<u64>(), burst in any::<u32>(), initial in any::<u32>(),
        debt in any::<u32>(), now in 0..u64::MAX / 2, cost in any::<u32>(),
    ) {
        let spec = Continuous::new(count, Span::from_nanos(period), burst);
        let spec = spec.and_then(|spec| spec.with_initial(initial)).and_then(|spec| spec.with_debt(debt));
        if let Ok(spec) = spec {
            let mut bucket = Bucket::new(Spec::Continuous(spec));
            for op in [Op::Take(cost), Op::Take(1), Op::Give(cost), Op::Peek(cost)] {
                let _ = bucket.run(Time::from_nanos(now), op);
            }
        }
    }

    #[test]
    fn a_changed_number_changes_the_fingerprint(spec in specs()) {
        let other = Continuous::new(1, spec.per_token(), spec.burst() + 1).unwrap();
        prop_assert_ne!(Spec::Continuous(spec).fingerprint(), Spec::Continuous(other).fingerprint());
    }
}
