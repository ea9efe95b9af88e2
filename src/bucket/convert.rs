//! A state under another spec: the fill level stays, in proportion.
//!
//! Rounded against the client by less than a token. The surprising thing: between two shapes only the level survives,
//! so what a rolling window would have forgotten period by period then weighs on the period that is on. Waits that grow
//! have no level: they take over from each other, and from nothing else.

use super::interval::Period;
use super::period_counts::PeriodCounts;
use super::units::{Span, Time};
use super::{Continuous, Floor, Interval, PeriodStart, Rolling, Spec, floor, stored_time};

/// What is missing in a bucket, as a fraction of its size; above one is debt.
#[derive(Debug, Clone, Copy)]
struct Deficit {
    part: u64,
    whole: u64,
}

/// Writes into `to_state` what a bucket of `to` with the same fill level holds. Both states have the words of their
/// spec. An absent state stays absent; `from_state` is used up.
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
            let missing = Deficit { part: before.taken, whole: from.quota().into() };
            to_interval(to, missing, before.end, to_state, now);
        }
        (Spec::Floor(from), Spec::Floor(to)) => {
            let before = from.load(floor::stored(from_state), now);
            let pool = deficit_of(&from.pool(), before.pool, now).drained(&to.pool(), now);
            let floor = deficit_of(&from.floor(), before.floor, now).drained(&to.floor(), now);
            floor::FloorState { pool, floor }.write(to_state);
        }
        (Spec::Distinct(from), Spec::Distinct(to)) => {
            // Whoever was paid for is still known, and what was free still counts.
            if let (Some((_, memory)), Some((_, kept))) =
                (from_state.split_first(), to_state.split_first_mut())
            {
                kept.copy_from_slice(memory);
            }
            let missing = deficit_of(&from.bucket(), from.bucket().load(stored, now), now);
            to_continuous(&to.bucket(), missing, to_state, now);
        }
        (Spec::Escalation(from), Spec::Escalation(to)) => to.convert_from(from, from_state, to_state, now),
        // Tokens are no strikes, and strikes no tokens.
        (Spec::Escalation(_), _) | (_, Spec::Escalation(_)) => {}
        _ => to_level(to, deficit(from, from_state, now), to_state, now),
    }
}

fn to_level(to: &Spec, missing: Deficit, state: &mut [u64], now: Time) {
    match to {
        Spec::Continuous(to) => to_continuous(to, missing, state, now),
        Spec::Distinct(to) => to_continuous(&to.bucket(), missing, state, now),
        Spec::Escalation(_) => {}
        Spec::Interval(to) => to_interval(to, missing, now.after(to.period()), state, now),
        Spec::Floor(to) => {
            let (pool, floor) = (missing.drained(&to.pool(), now), missing.drained(&to.floor(), now));
            floor::FloorState { pool, floor }.write(state);
        }
        Spec::Rolling(to) => {
            if let Some(mut ring) = to.period_counts(state) {
                ring.clear(to.period_start().begin(now, to.period()));
                let of_quota = missing.tokens(to.quota(), to.debt());
                let of_rate = missing.tokens(to.burst(), to.debt()).min(of_quota);
                ring.set_count(0, of_rate);
                // More than a period's share would drain the one that is on; the one before it remembers as much.
                if to.slots() > 1 {
                    ring.set_count(1, of_quota.saturating_sub(of_rate));
                }
                to.write_full_at(&mut ring, now);
            }
        }
    }
}

fn to_continuous(to: &Continuous, missing: Deficit, state: &mut [u64], now: Time) {
    if let Some(word) = state.first_mut() {
        *word = missing.drained(to, now).as_nanos();
    }
}

fn to_interval(to: &Interval, missing: Deficit, end: Time, state: &mut [u64], now: Time) {
    let new = to.begin(now).end;
    // Where periods follow the clock, the one that is on ends when the clock says so.
    let end = if to.period_start() == PeriodStart::Clock { new } else { end.min(new) };
    to.write(Period { end, taken: missing.tokens(to.quota(), to.debt()).into() }, state, now);
}

/// Each period's count in proportion to the quota, rounded so that their sum is rounded once; what the rate of the
/// period that is on had left, in proportion to the rate.
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

/// Loads the state as of now, and says what is missing in it.
fn deficit(spec: &Spec, state: &mut [u64], now: Time) -> Deficit {
    let stored = state.first().copied().and_then(stored_time);
    match spec {
        Spec::Continuous(bucket) => deficit_of(bucket, bucket.load(stored, now), now),
        Spec::Distinct(distinct) => deficit_of(&distinct.bucket(), distinct.bucket().load(stored, now), now),
        Spec::Escalation(_) => Deficit::NOTHING,
        Spec::Interval(interval) => {
            let taken = interval.load(interval.stored(state), now).taken;
            Deficit { part: taken, whole: interval.quota().into() }
        }
        Spec::Floor(floor) => deficit_of_floor(floor, state, now),
        Spec::Rolling(rolling) => {
            let Some(mut ring) = rolling.period_counts(state) else { return Deficit::NOTHING };
            rolling.load(&mut ring, now);
            let of_quota = Deficit { part: ring.total(), whole: rolling.quota().into() };
            of_quota.larger_share(rolling.deficit_of_rate(&ring))
        }
    }
}

fn deficit_of(bucket: &Continuous, tat: Time, now: Time) -> Deficit {
    Deficit { part: tat.since(now).as_nanos(), whole: bucket.window().as_nanos() }
}

/// Of both together, in whole tokens.
fn deficit_of_floor(floor: &Floor, state: &[u64], now: Time) -> Deficit {
    let both = floor.load(floor::stored(state), now);
    let debt = deficit_of(&floor.pool(), both.pool, now);
    let left = floor.left(both, now);
    let missing = Deficit { part: floor.burst().saturating_sub(left).into(), whole: floor.burst().into() };
    if left == 0 { missing.larger_share(debt) } else { missing }
}

impl Rolling {
    fn deficit_of_rate(&self, ring: &PeriodCounts<'_>) -> Deficit {
        let used = u64::from(ring.count(0)).saturating_add(ring.withheld().into());
        Deficit { part: used, whole: self.burst().into() }
    }
}

impl Deficit {
    const NOTHING: Self = Self { part: 0, whole: 1 };

    /// The same share of another whole, rounded up.
    fn of(self, whole: u64) -> u64 {
        let product = u128::from(self.part).saturating_mul(whole.into());
        product.div_ceil(u128::from(self.whole).max(1)).try_into().unwrap_or(u64::MAX)
    }

    fn tokens(self, size: u32, debt: u32) -> u32 {
        let most = size.saturating_add(debt);
        u32::try_from(self.of(size.into())).unwrap_or(most).min(most)
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
