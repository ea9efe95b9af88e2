//! Clocks that step, back and forward, by nanoseconds or years: only time that passes forward refills a bucket, no
//! client is locked out for longer than from empty to full, and a client that obeys its wait is admitted.

use proptest::prelude::*;
use tollgate::bucket::{Admission, Continuous, Op, Spec, Time};
use tollgate::time::Span;

use super::samples::{Dice, START, attempts, cases, longest_wait, of};
use support::bucket::Bucket;

/// A thread may decide with a time that is a little old, so a step as short as this is taken for none.
const LATE: Span = Span::from_secs(1);

/// A step back or forward; or, as often, none.
fn step(now: Time, seed: u64, spec: &Spec) -> (Time, Dice) {
    let mut dice = Dice(seed);
    let lengths = [10, 1_000_000, 2_000_000_000, 3_600_000_000_000, 30_000_000_000_000_000];
    let longest = match dice.below(8) {
        own @ 0..4 => spec.window().as_nanos() / [1, 1, 4, 40][own as usize] + 2,
        other => lengths[other as usize - 4 + dice.below(2) as usize],
    };
    let by = Span::from_nanos(dice.below(longest));
    let earliest = Time::from_nanos(1_000_000_000_000_000);
    match dice.below(6) {
        0 => (now.before(by).max(earliest), dice),
        1 => (now.after(by), dice),
        2..4 => (about_a_border(&mut dice, spec), dice),
        _ => (now, dice),
    }
}

/// Some seconds before or after it, always the same one.
fn about_a_border(dice: &mut Dice, spec: &Spec) -> Time {
    Time::from_nanos(border_of(spec) - 3_000_000_000 + dice.below(6_000_000_000))
}

fn border_of(spec: &Spec) -> u64 {
    let period = period_of(spec).as_nanos();
    (START.as_nanos() / period + 1) * period
}

fn period_of(spec: &Spec) -> Span {
    match spec {
        Spec::Interval(spec) => spec.period(),
        Spec::Rolling(spec) => spec.period(),
        _ => spec.window(),
    }
}

/// The most that so much time passed forward may bring, however often the clock was set back in between.
fn most(spec: &Spec, forward: u128) -> u128 {
    let nanos = |span: Span| u128::from(span.as_nanos());
    let steady = |spec: &Continuous| {
        u128::from(spec.burst()) + (forward + nanos(spec.hold())) / nanos(spec.per_token()) + 1
    };
    match spec {
        Spec::Continuous(spec) => steady(spec),
        Spec::Distinct(spec) => steady(&spec.bucket()),
        Spec::Escalation(_) | Spec::Recent(_) => u128::MAX,
        Spec::Floor(spec) => steady(&spec.floor()) + steady(&spec.pool()),
        // A whole period after each step back, and the rest of the clock's own one after that.
        Spec::Interval(spec) => u128::from(spec.quota()) * (2 * (forward / nanos(spec.period())) + 3),
        Spec::Rolling(spec) if spec.slots() == 1 => {
            u128::from(spec.quota()) * (2 * (forward / nanos(spec.period())) + 3)
        }
        Spec::Rolling(spec) => {
            let whole = nanos(spec.period()) * u128::from(spec.slots() - 1);
            u128::from(spec.quota()) * (forward / whole + 1)
        }
    }
}

fn neither_refills_nor_locks(spec: Spec, seeds: &[u64]) -> Result<(), TestCaseError> {
    let (mut bucket, mut now, mut forward, mut admitted) = (Bucket::new(spec), START, 0_u128, 0_u128);
    for seed in seeds {
        let (next, mut dice) = step(now, *seed, &spec);
        forward += u128::from(next.since(now).as_nanos());
        now = next;
        for _ in 0..1 + dice.below(4) {
            let cost = if dice.below(3) == 0 { dice.upto(spec.burst()) } else { 1 };
            let said = bucket.run(now, Op::Take(cost)).verdict;
            prop_assert!(said.full_at <= now.after(spec.max_ttl()).after(LATE), "remembered for too long");
            admitted += if said.is_admitted() { u128::from(cost) } else { 0 };
            let Admission::Refused { wait } = said.admission else { continue };
            let longest = longest_wait(&spec, cost).plus(LATE);
            prop_assert!(wait <= longest, "locked for {wait:?}, at most {longest:?}");
            let obeyed = bucket.look(now.after(wait), Op::Take(cost)).verdict;
            prop_assert!(obeyed.is_admitted(), "Retry-After was obeyed: {obeyed:?}");
        }
        prop_assert!(admitted <= most(&spec, forward), "{admitted} in {forward} ns, at {now:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_clock_that_steps_neither_refills_nor_locks(spec in of(Dice::spec), seeds in attempts()) {
        neither_refills_nor_locks(spec, &seeds)?;
    }

    /// As above, around a border of the bucket's own, again and again.
    #[test]
    fn a_clock_that_jitters_about_a_border_gives_one_bucket_on_each_side(
        spec in of(Dice::spec), seeds in attempts(), jitter in 1_u64..900_000_000,
    ) {
        if period_of(&spec) <= LATE {
            return Ok(());
        }
        let border = border_of(&spec);
        let (mut bucket, mut admitted) = (Bucket::new(spec), 0);
        for seed in seeds {
            let now = Time::from_nanos(border - jitter / 2 + Dice(seed).below(jitter));
            admitted += u32::from(bucket.run(now, Op::Take(1)).verdict.is_admitted());
        }
        let refill = match spec {
            Spec::Continuous(spec) => of_steady(&spec, jitter),
            Spec::Distinct(spec) => of_steady(&spec.bucket(), jitter),
            Spec::Escalation(_) | Spec::Recent(_) => u64::MAX,
            Spec::Floor(spec) => of_steady(&spec.floor(), jitter) + of_steady(&spec.pool(), jitter),
            Spec::Interval(spec) => u64::from(spec.quota()),
            Spec::Rolling(spec) => u64::from(spec.burst()),
        };
        prop_assert!(u64::from(admitted) <= u64::from(spec.burst()) + refill);
    }
}

fn of_steady(spec: &Continuous, nanos: u64) -> u64 {
    (nanos + spec.hold().as_nanos()) / spec.per_token().as_nanos() + 1
}
