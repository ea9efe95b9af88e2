//! Joins two states of one bucket that diverged.
//!
//! The result is as strict as either, now and at any later time: of each count it keeps the larger one, of each time
//! the later one. It is not a sum: of what both took since they diverged the larger part counts. It would not do to
//! keep the state with fewer tokens now, because that one may refill sooner.

use super::interval::Period;
use super::units::{Span, Time};
use super::{Continuous, Floor, Interval, Rolling, Spec, floor, stored_time};

/// Makes `state` at least as strict as `other`, and returns whether that made it stricter. Both have the words of
/// `spec`; a state that is full or was never seen changes nothing. `other` is left in an unspecified state.
pub fn join(spec: &Spec, state: &mut [u64], other: &mut [u64], now: Time) -> bool {
    let live = |state: &[u64]| state.first().copied().and_then(stored_time).filter(|full_at| *full_at > now);
    let Some(there) = live(other) else { return false };
    let Some(here) = live(state) else {
        state.copy_from_slice(other);
        return true;
    };
    match spec {
        Spec::Continuous(continuous) => join_continuous(continuous, state, here, there, now),
        Spec::Distinct(distinct) => join_continuous(&distinct.bucket(), state, here, there, now),
        Spec::Interval(interval) => join_intervals(interval, state, other, now),
        Spec::Rolling(rolling) => join_rolling(rolling, state, other, now).unwrap_or(false),
        Spec::Floor(floor) => join_floors(floor, state, other, now),
        Spec::Escalation(escalation) => escalation.join(state, other, now),
        Spec::Recent(recent) => recent.join(state, other, now),
    }
}

/// A [`Distinct`](super::Distinct) bucket keeps the tags of `state`.
fn join_continuous(continuous: &Continuous, state: &mut [u64], here: Time, there: Time, now: Time) -> bool {
    let (here, there) = (continuous.load(Some(here), now), continuous.load(Some(there), now));
    if let Some(full_at) = state.first_mut() {
        *full_at = here.max(there).as_nanos();
    }
    there > here
}

fn join_intervals(interval: &Interval, state: &mut [u64], other: &[u64], now: Time) -> bool {
    let here = interval.load(interval.stored(state), now);
    let there = interval.load(interval.stored(other), now);
    let joined = Period { end: here.end.max(there.end), taken: here.taken.max(there.taken) };
    interval.write(joined, state, now);
    joined != here
}

fn join_floors(spec: &Floor, state: &mut [u64], other: &[u64], now: Time) -> bool {
    let here = spec.load(floor::stored(state), now);
    let there = spec.load(floor::stored(other), now);
    let joined = floor::FloorState { pool: here.pool.max(there.pool), floor: here.floor.max(there.floor) };
    joined.write(state);
    joined != here
}

/// If their periods do not begin together, the earlier ones are shifted by a part of a period.
fn join_rolling(rolling: &Rolling, state: &mut [u64], other: &mut [u64], now: Time) -> Option<bool> {
    let (mut here, mut there) = (rolling.period_counts(state)?, rolling.period_counts(other)?);
    rolling.load(&mut here, now);
    rolling.load(&mut there, now);
    let start = here.start().max(there.start());
    for counts in [&mut here, &mut there] {
        let boundaries = start.since(counts.start()).as_nanos().checked_div(rolling.period().as_nanos())?;
        if boundaries > 0 {
            counts.advance(boundaries, rolling.period());
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
