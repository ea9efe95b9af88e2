//! From a shape and a rate to the bucket of a limit, or of some of its clients.
//!
//! The numbers themselves are judged by `bucket`; what is said here is which key they stand in and what would be
//! right. The surprising thing: `initial` is cut down silently where some clients have a smaller bucket than the one it
//! was written for.

use super::super::diagnostic::{Findings, Spot, grouped};
use super::super::document::Located;
use super::super::raw;
use super::super::values::{RateValue, in_words};
use super::fields::within;
use super::shapes::{BucketShape, GivenRate};
use super::windows::NO_BURST;
use crate::bucket::{Continuous, Floor, Interval, Spec, SpecError};

/// What a limit adds to each of its rates.
pub(super) struct Extras {
    pub(super) initial: Option<Located<u32>>,
    pub(super) debt: u32,
}

impl Extras {
    pub(super) fn check(raw: &raw::RawLimit, f: &mut Findings) -> Self {
        Self {
            initial: counted(raw.initial.as_ref(), f),
            debt: counted(raw.debt.as_ref(), f).map_or(0, |debt| debt.value),
        }
    }

    /// The start balance of a bucket of this size.
    pub(super) fn initial_within(&self, size: u32) -> u32 {
        self.initial.as_ref().map_or(size, |initial| initial.value.min(size))
    }
}

fn counted(number: Option<&Located<i64>>, f: &mut Findings) -> Option<Located<u32>> {
    let value = within(number, 0..=i64::from(u32::MAX), f)?;
    number.map(|number| Located { value, spot: number.spot.clone() })
}

/// The bucket of everybody who has no other rate.
pub(super) fn of_limit(
    shape: &BucketShape,
    rate: Option<GivenRate<'_>>,
    extras: &Extras,
    raw: &raw::RawLimit,
    f: &mut Findings,
) -> Option<Spec> {
    let (spec, size, spot) = match (shape, rate) {
        (BucketShape::Rolling(window), _) => {
            let text = raw.rolling.as_ref()?;
            (built(window.spec(extras), &text.spot, f), window.burst(), &text.spot)
        }
        (_, Some(given)) => (of_rate(shape, given, extras, f), given.rate.burst, &given.text.spot),
        (_, None) => return None,
    };
    if let Some(initial) = extras.initial.as_ref().filter(|initial| initial.value > size) {
        let whole = if matches!(shape, BucketShape::Floor { .. }) { "pool" } else { "bucket" };
        let message = format!("a start balance of {} is larger than the {whole}", initial.value);
        f.error(&initial.spot, message, format!("0 to {size}"));
    }
    warn(spec?, raw, spot, f);
    spec
}

/// The bucket that a rate makes of a shape.
pub(super) fn of_rate(
    shape: &BucketShape,
    given: GivenRate<'_>,
    extras: &Extras,
    f: &mut Findings,
) -> Option<Spec> {
    let rate = given.rate;
    let spec = match shape {
        BucketShape::Continuous { wait } => {
            continuous(rate, extras).and_then(|bucket| bucket.with_hold(*wait)).map(Spec::Continuous)
        }
        BucketShape::Floor { floor } => {
            continuous(rate, extras).and_then(|pool| Floor::new(*floor, pool)).map(Spec::Floor)
        }
        BucketShape::Interval { anchor } => {
            report_burst(given, "an interval bucket refills to its count", f);
            let bucket = Interval::new(rate.count, rate.period, *anchor);
            let initial = extras.initial_within(rate.count);
            bucket.and_then(|bucket| bucket.with_initial(initial)?.with_debt(extras.debt)).map(Spec::Interval)
        }
        BucketShape::Rolling(window) => {
            report_burst(given, NO_BURST, f);
            let Some(window) = window.with(rate) else {
                let message = "the rate's period is neither the window's nor `every`";
                f.error(&given.text.spot, message, window.hint());
                return None;
            };
            window.spec(extras)
        }
    };
    built(spec, &given.text.spot, f)
}

fn continuous(rate: RateValue, extras: &Extras) -> Result<Continuous, SpecError> {
    let bucket = Continuous::new(rate.count, rate.period, rate.burst)?;
    bucket.with_initial(extras.initial_within(rate.burst))?.with_debt(extras.debt)
}

/// Where tokens come all at once, more than one period's cannot be kept.
pub(super) fn report_burst(GivenRate { rate, text }: GivenRate<'_>, message: &str, f: &mut Findings) {
    if rate.burst != rate.count {
        let at = text.value.find("burst").unwrap_or(0);
        let spot = text.spot.part(&text.value, at..text.value.len());
        f.error(&spot, message, "leave the burst out");
    }
}

/// What could be built, or why not.
pub(super) fn built<T>(result: Result<T, SpecError>, spot: &Spot, f: &mut Findings) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            f.error(spot, error.to_string(), hint(error));
            None
        }
    }
}

fn hint(error: SpecError) -> &'static str {
    match error {
        SpecError::Zero => "at least 1",
        SpecError::TooFast => "count less, or in a longer period",
        SpecError::TooLong => "a shorter period, a smaller burst or less debt",
        SpecError::InitialAboveBurst => "at most the burst",
        SpecError::NotWhole => "as in rolling = \"10000 per 24h\" and every = \"1h\"",
        SpecError::TooManyPeriods => "calculate it less often",
        SpecError::TooLarge => "a smaller size or less debt",
        SpecError::TooMany => "fewer strikes, or a smaller factor",
        SpecError::WaitAboveMax => "a longer `max`",
    }
}

fn warn(spec: Spec, raw: &raw::RawLimit, rate: &Spot, f: &mut Findings) {
    match spec {
        Spec::Continuous(bucket) if bucket.hold() > bucket.window() => {
            let spot = raw.wait.as_ref().map_or(rate, |text| &text.spot);
            let message = "attempts are held for longer than the bucket takes to refill";
            f.warning(spot, message, format!("it is full again after {}", in_words(bucket.window())));
        }
        Spec::Floor(both) if both.floor().burst() > both.pool().burst() => {
            let spot = raw.floor.as_ref().map_or(rate, |text| &text.spot);
            let message = format!("the floor has more at once than the pool's {}", pool(both));
            f.warning(spot, message, "the pool is what `rate` says: give it the larger burst");
        }
        _ => {}
    }
}

fn pool(both: Floor) -> String {
    grouped(both.pool().burst().into())
}
