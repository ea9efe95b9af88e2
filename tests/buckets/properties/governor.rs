//! Agreement with governor, decision for decision: another program's word for what a continuous bucket is.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, FakeRelativeClock};
use governor::{Quota, RateLimiter};
use proptest::prelude::*;
use tollgate::bucket::{Admission, Continuous, Op, Spec};
use tollgate::time::Span;

use super::samples::{Dice, START, attempts, cases};
use support::bucket::Bucket;

/// In thousandths of the time per token; most of them short.
fn pause(seed: u64, per_token: u64) -> Span {
    let mut dice = Dice(seed);
    let thousandths = match dice.below(7) {
        0..4 => dice.below(1500),
        4 => 0,
        5 => 1000,
        _ => dice.below(300_000),
    };
    Span::from_nanos((u128::from(per_token) * u128::from(thousandths) / 1000) as u64)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn governor_decides_the_same(
        per_token in 1_u64..10_000_000_000, burst in 1_u32..200, seeds in attempts(),
    ) {
        let spec = Continuous::new(1, Span::from_nanos(per_token), burst).unwrap();
        let quota = Quota::with_period(Duration::from_nanos(per_token)).unwrap();
        let clock = FakeRelativeClock::default();
        let quota = quota.allow_burst(NonZeroU32::new(burst).unwrap());
        let oracle = RateLimiter::direct_with_clock(quota, clock.clone());
        let (mut bucket, mut now) = (Bucket::new(Spec::Continuous(spec)), START);
        for seed in seeds {
            let pause = pause(seed, per_token);
            now = now.after(pause);
            clock.advance(pause.to_std());
            let ours = bucket.run(now, Op::Take(1)).verdict;
            match (oracle.check(), ours.admission) {
                (Ok(()), Admission::Admitted) => {}
                (Err(until), Admission::Refused { wait }) => {
                    prop_assert_eq!(until.wait_time_from(clock.now()), wait.to_std());
                }
                (theirs, ours) => prop_assert!(false, "governor {theirs:?}, ours {ours:?}"),
            }
        }
    }
}
