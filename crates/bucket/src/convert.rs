//! Converts a state to another specification: the fill level stays, in proportion.
//!
//! Rounding is against the client, by less than a token. Between two shapes only the level survives: tokens that a
//! rolling window would have returned period by period then weigh on the current period. Escalations have no level:
//! they convert to each other only.

use super::interval::Period;
use super::period_counts::PeriodCounts;
use super::units::{Span, Time};
use super::{Continuous, Floor, Interval, PeriodStart, Rolling, Spec, floor, stored_time};

/// The tokens missing in a bucket, as a fraction of its size; above one is debt.
#[derive(Debug, Clone, Copy)]
struct Deficit {
    part: u64,
    whole: u64,
}

/// Writes into `to_state` the state of a bucket of `to` with the same fill level. Both states have the words of their
/// specification. An absent state stays absent; `from_state` is left in an unspecified state.
pub fn convert(from: &Spec, from_state: &mut [u64], to: &Spec, to_state: &mut [u64], now: Time) {
    to_state.fill(0);
    let stored = from_state.first().copied().and_then(stored_time);
    if stored.is_none() {
        return;
    }
    if from == to {
        to_state.copy_from_slice(from_state);
        return;
    }
    match (from, to) {
        (Spec::Rolling(from), Spec::Rolling(to))
            if from.period() == to.period() && from.period_start() == to.period_start() =>
        {
            convert_history(from, from_state, to, to_state, now);
        }
        (Spec::Interval(from), Spec::Interval(to)) => {
            let before = from.load(from.stored(from_state), now);
            let deficit = Deficit { part: before.taken, whole: from.quota().into() };
            to_interval(to, deficit, before.end, to_state, now);
        }
        (Spec::Floor(from), Spec::Floor(to)) => {
            let before = from.load(floor::stored(from_state), now);
            let pool = deficit_of(&from.pool(), before.pool, now).drained(&to.pool(), now);
            let floor = deficit_of(&from.floor(), before.floor, now).drained(&to.floor(), now);
            floor::FloorState { pool, floor }.write(to_state);
        }
        (Spec::Distinct(from), Spec::Distinct(to)) => {
            // The recent tags and the number of repeats stay.
            if let (Some((_, old)), Some((_, new))) = (from_state.split_first(), to_state.split_first_mut()) {
                new.copy_from_slice(old);
            }
            let deficit = deficit_of(&from.bucket(), from.bucket().load(stored, now), now);
            to_continuous(&to.bucket(), deficit, to_state, now);
        }
        (Spec::Escalation(from), Spec::Escalation(to)) => to.convert_from(from, from_state, to_state, now),
        // What was seen stays; the new specification defines when it is forgotten.
        (Spec::Recent(_), Spec::Recent(to)) => to.take_over(from_state, to_state, now),
        // Tokens do not convert to strikes or to what was seen, nor these to tokens.
        (Spec::Escalation(_) | Spec::Recent(_), _) | (_, Spec::Escalation(_) | Spec::Recent(_)) => {}
        _ => to_level(to, deficit(from, from_state, now), to_state, now),
    }
}

fn to_level(to: &Spec, deficit: Deficit, state: &mut [u64], now: Time) {
    match to {
        Spec::Continuous(to) => to_continuous(to, deficit, state, now),
        Spec::Distinct(to) => to_continuous(&to.bucket(), deficit, state, now),
        Spec::Escalation(_) | Spec::Recent(_) => {}
        Spec::Interval(to) => to_interval(to, deficit, now.after(to.period()), state, now),
        Spec::Floor(to) => {
            let (pool, floor) = (deficit.drained(&to.pool(), now), deficit.drained(&to.floor(), now));
            floor::FloorState { pool, floor }.write(state);
        }
        Spec::Rolling(to) => {
            if let Some(mut counts) = to.period_counts(state) {
                counts.clear(to.period_start().begin(now, to.period()));
                let of_quota = deficit.tokens(to.quota(), to.debt());
                let of_rate = deficit.tokens(to.burst(), to.debt()).min(of_quota);
                counts.set_count(0, of_rate);
                // The current period holds no more than a period's rate; the period before it takes the rest.
                if to.slots() > 1 {
                    counts.set_count(1, of_quota.saturating_sub(of_rate));
                }
                to.write_full_at(&mut counts, now);
            }
        }
    }
}

fn to_continuous(to: &Continuous, deficit: Deficit, state: &mut [u64], now: Time) {
    if let Some(word) = state.first_mut() {
        *word = deficit.drained(to, now).as_nanos();
    }
}

fn to_interval(to: &Interval, deficit: Deficit, end: Time, state: &mut [u64], now: Time) {
    let new = to.begin(now).end;
    // If periods follow the clock, the current one ends at its next boundary.
    let end = if to.period_start() == PeriodStart::Clock { new } else { end.min(new) };
    to.write(Period { end, taken: deficit.tokens(to.quota(), to.debt()).into() }, state, now);
}

/// Converts each period's count in proportion to the quota, rounding only their sum; and what is left of the current
/// period's rate in proportion to the rate.
fn convert_history(from: &Rolling, from_state: &mut [u64], to: &Rolling, to_state: &mut [u64], now: Time) {
    let (Some(mut before), Some(mut after)) = (from.period_counts(from_state), to.period_counts(to_state))
    else {
        return;
    };
    from.load(&mut before, now);
    after.clear(before.start());
    let (mut part, mut written) = (0_u64, 0_u32);
    for (age, count) in before.counts().enumerate().take(to.slots().into()) {
        part = part.saturating_add(count.into());
        let up_to_here = Deficit { part, whole: from.quota().into() }.tokens(to.quota(), to.debt());
        after.set_count(age, up_to_here.saturating_sub(written));
        written = up_to_here;
    }
    let used = from.deficit_of_rate(&before).tokens(to.burst(), 0);
    after.set_withheld(used.saturating_sub(after.count(0)));
    to.write_full_at(&mut after, now);
}

/// Loads the state as of now, and returns what is missing.
fn deficit(spec: &Spec, state: &mut [u64], now: Time) -> Deficit {
    let stored = state.first().copied().and_then(stored_time);
    match spec {
        Spec::Continuous(bucket) => deficit_of(bucket, bucket.load(stored, now), now),
        Spec::Distinct(distinct) => deficit_of(&distinct.bucket(), distinct.bucket().load(stored, now), now),
        Spec::Escalation(_) | Spec::Recent(_) => Deficit::NOTHING,
        Spec::Interval(interval) => {
            let taken = interval.load(interval.stored(state), now).taken;
            Deficit { part: taken, whole: interval.quota().into() }
        }
        Spec::Floor(floor) => deficit_of_floor(floor, state, now),
        Spec::Rolling(rolling) => {
            let Some(mut counts) = rolling.period_counts(state) else { return Deficit::NOTHING };
            rolling.load(&mut counts, now);
            let of_quota = Deficit { part: counts.total(), whole: rolling.quota().into() };
            of_quota.larger_share(rolling.deficit_of_rate(&counts))
        }
    }
}

fn deficit_of(bucket: &Continuous, tat: Time, now: Time) -> Deficit {
    Deficit { part: tat.since(now).as_nanos(), whole: bucket.window().as_nanos() }
}

/// The deficit of floor and pool together, in whole tokens.
fn deficit_of_floor(floor: &Floor, state: &[u64], now: Time) -> Deficit {
    let stored = floor.load(floor::stored(state), now);
    let debt = deficit_of(&floor.pool(), stored.pool, now);
    let left = floor.left(stored, now);
    let deficit = Deficit { part: floor.burst().saturating_sub(left).into(), whole: floor.burst().into() };
    if left == 0 { deficit.larger_share(debt) } else { deficit }
}

impl Rolling {
    fn deficit_of_rate(&self, counts: &PeriodCounts<'_>) -> Deficit {
        let used = u64::from(counts.count(0)).saturating_add(counts.withheld().into());
        Deficit { part: used, whole: self.burst().into() }
    }
}

impl Deficit {
    const NOTHING: Self = Self { part: 0, whole: 1 };

    /// The same fraction of another whole, rounded up.
    fn of(self, whole: u64) -> u64 {
        let product = u128::from(self.part).saturating_mul(whole.into());
        product.div_ceil(u128::from(self.whole).max(1)).try_into().unwrap_or(u64::MAX)
    }

    fn tokens(self, size: u32, debt: u32) -> u32 {
        let max = size.saturating_add(debt);
        u32::try_from(self.of(size.into())).unwrap_or(max).min(max)
    }

    fn drained(self, bucket: &Continuous, now: Time) -> Time {
        now.after(Span::from_nanos(self.of(bucket.window().as_nanos())).min(bucket.max_ttl()))
    }

    fn larger_share(self, other: Self) -> Self {
        let cross = |one: Self, by: Self| u128::from(one.part).saturating_mul(by.whole.into());
        if cross(self, other) < cross(other, self) { other } else { self }
    }
}

#[cfg(test)]
mod tests;
