//! Two states of one bucket that went their own ways, made one.
//!
//! It is as strict as either, now and at any later time: of each count the larger one stays, of each time the later one. It
//! is no sum: of what both took since they parted the larger part counts. The surprising thing: it would not do to keep the
//! one that leaves fewer tokens now, because that may be the one that gets them back sooner.

use super::interval::Period;
use super::units::{Span, Time};
use super::{Continuous, Floor, Interval, Rolling, Spec, floor, stored_time};

/// Makes `state` as strict as `other`, too, and says whether that made it stricter. Both have the words of `spec`; a state
/// that is full or was never seen has nothing to say. `other` is used up.
pub fn join(spec: &Spec, state: &mut [u64], other: &mut [u64], now: Time) -> bool {
    let live = |state: &[u64]| state.first().copied().and_then(stored_time).filter(|full_at| *full_at > now);
    let Some(there) = live(other) else { return false };
    let Some(here) = live(state) else {
        state.copy_from_slice(other);
        return true;
    };
    match spec {
        Spec::Continuous(continuous) => join_continuous(continuous, state, (here, there), now),
        Spec::Distinct(distinct) => join_continuous(&distinct.bucket(), state, (here, there), now),
        Spec::Interval(interval) => join_periods(interval, state, other, now),
        Spec::Rolling(rolling) => join_rings(rolling, state, other, now).unwrap_or(false),
        Spec::Floor(both) => join_floors(both, state, other, now),
        Spec::Escalation(escalation) => escalation.join(state, other, now),
    }
}

/// A bucket that counts things once goes on remembering its own.
fn join_continuous(
    continuous: &Continuous,
    state: &mut [u64],
    (here, there): (Time, Time),
    now: Time,
) -> bool {
    let (here, there) = (continuous.load(Some(here), now), continuous.load(Some(there), now));
    if let Some(full_at) = state.first_mut() {
        *full_at = here.max(there).as_nanos();
    }
    there > here
}

fn join_periods(interval: &Interval, state: &mut [u64], other: &[u64], now: Time) -> bool {
    let here = interval.load(interval.stored(state), now);
    let there = interval.load(interval.stored(other), now);
    let joined = Period { end: here.end.max(there.end), taken: here.taken.max(there.taken) };
    interval.write(joined, state, now);
    joined != here
}

fn join_floors(both: &Floor, state: &mut [u64], other: &[u64], now: Time) -> bool {
    let here = both.load(floor::stored(state), now);
    let there = both.load(floor::stored(other), now);
    let joined = floor::FloorState { pool: here.pool.max(there.pool), floor: here.floor.max(there.floor) };
    joined.write(state);
    joined != here
}

/// Where their periods do not begin together, the earlier ones are taken to be a part of a period later.
fn join_rings(rolling: &Rolling, state: &mut [u64], other: &mut [u64], now: Time) -> Option<bool> {
    let (mut here, mut there) = (rolling.period_counts(state)?, rolling.period_counts(other)?);
    rolling.load(&mut here, now);
    rolling.load(&mut there, now);
    let start = here.start().max(there.start());
    for ring in [&mut here, &mut there] {
        let borders = start.since(ring.start()).as_nanos().checked_div(rolling.period().as_nanos())?;
        if borders > 0 {
            ring.advance(borders, rolling.period());
        }
    }
    let mut is_more = start.since(here.start()) > Span::ZERO || there.withheld() > here.withheld();
    here.set_start(start);
    here.set_withheld(here.withheld().max(there.withheld()));
    for age in 0..here.slots() {
        is_more |= there.count(age) > here.count(age);
        here.set_count(age, here.count(age).max(there.count(age)));
    }
    rolling.write_full_at(&mut here, now);
    Some(is_more)
}
