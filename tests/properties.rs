//! What a continuous bucket promises, over random specs and random times, and agreement with governor.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, FakeRelativeClock};
use governor::{Quota, RateLimiter};
use proptest::prelude::*;
use tollgate::bucket::{Answer, Continuous, Op, Spec, State, Step, Time, step};
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

fn run(spec: &Spec, state: &mut Option<State>, now: Time, op: Op) -> Step {
    let step = step(spec, *state, now, op);
    *state = step.next.or(*state);
    step
}

fn thousandths(spec: &Continuous, pause: u64) -> Span {
    Span::from_nanos((u128::from(spec.per_token().as_nanos()) * u128::from(pause) / 1000).try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_admits_more_than_burst_and_refill(spec in specs(), pauses in pauses()) {
        let (mut state, mut now, mut admitted) = (None, START, Vec::new());
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
            if run(&Spec::Continuous(spec), &mut state, now, Op::Take(1)).verdict.is_admitted() {
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
        let (mut state, mut now) = (None, START);
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
            let shape = Spec::Continuous(spec);
            let said = run(&shape, &mut state, now, Op::Take(cost)).verdict;
            match said.answer {
                Answer::Refused { wait } => {
                    let at = |time| step(&shape, state, time, Op::Peek(cost)).verdict.is_admitted();
                    prop_assert!(!at(now.after(wait).before(Span::from_nanos(1))), "one nanosecond early");
                    prop_assert!(at(now.after(wait)), "at the time that was named");
                }
                Answer::NeverFits => prop_assert!(cost > spec.burst()),
                Answer::Admitted => {
                    let due = step(&shape, state, now.after(said.next_token), Op::Peek(1)).verdict.left;
                    prop_assert_eq!(due, (said.left + 1).min(spec.burst()), "the next token comes when it was said");
                }
            }
            prop_assert_eq!(step(&shape, state, said.full_at, Op::Peek(1)).verdict.left, spec.burst());
        }
    }

    #[test]
    fn governor_decides_the_same(per_token in 1_u64..10_000_000_000, burst in 1_u32..200, pauses in pauses()) {
        let spec = Continuous::new(1, Span::from_nanos(per_token), burst).unwrap();
        let quota = Quota::with_period(Duration::from_nanos(per_token)).unwrap();
        let clock = FakeRelativeClock::default();
        let oracle = RateLimiter::direct_with_clock(quota.allow_burst(NonZeroU32::new(burst).unwrap()), clock.clone());
        let (mut state, mut now) = (None, START);
        for pause in pauses {
            let pause = thousandths(&spec, pause);
            now = now.after(pause);
            clock.advance(pause.to_std());
            let ours = run(&Spec::Continuous(spec), &mut state, now, Op::Take(1)).verdict;
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
        let shape = Spec::Continuous(spec);
        let (mut state, mut now, mut forward) = (None, START, 0_u128);
        let mut admitted = 0_u128;
        for (back, by) in steps {
            if back {
                now = now.before(Span::from_nanos(by));
            } else {
                now = now.after(Span::from_nanos(by));
                forward += u128::from(by);
            }
            let said = run(&shape, &mut state, now, Op::Take(1)).verdict;
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
        let shape = Spec::Continuous(spec);
        let (mut state, mut now) = (None, START);
        for pause in pauses {
            now = now.after(thousandths(&spec, pause));
            let before = step(&shape, state, now, Op::Peek(1)).verdict;
            let mut tried = state;
            if run(&shape, &mut tried, now, Op::Take(cost)).verdict.is_admitted() {
                let after = run(&shape, &mut tried, now, Op::Give(cost)).verdict;
                prop_assert_eq!((before.left, before.full_at), (after.left, after.full_at));
            }
            prop_assert!(step(&shape, state, now, Op::Give(1000)).verdict.left <= spec.burst());
            let _ = run(&shape, &mut state, now, Op::Take(1));
        }
    }

    #[test]
    fn a_state_survives_its_bytes(nanos in any::<u64>(), fingerprint in any::<u32>()) {
        let state = State::Continuous { tat: Time::from_nanos(nanos) };
        prop_assert_eq!(State::decode(&state.encode(fingerprint)), Ok((state, fingerprint)));
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..32), now in any::<u64>()) {
        if let Ok((state, _)) = State::decode(&bytes) {
            let spec = Spec::Continuous(Continuous::new(10, Span::from_secs(300), 10).unwrap());
            for op in [Op::Take(1), Op::Peek(u32::MAX), Op::Give(u32::MAX)] {
                let _ = step(&spec, Some(state), Time::from_nanos(now), op);
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
            let mut state = None;
            for op in [Op::Take(cost), Op::Take(1), Op::Give(cost), Op::Peek(cost)] {
                let _ = run(&Spec::Continuous(spec), &mut state, Time::from_nanos(now), op);
            }
        }
    }

    #[test]
    fn a_changed_number_changes_the_fingerprint(spec in specs()) {
        let other = Continuous::new(1, spec.per_token(), spec.burst() + 1).unwrap();
        prop_assert_ne!(Spec::Continuous(spec).fingerprint(), Spec::Continuous(other).fingerprint());
    }
}
