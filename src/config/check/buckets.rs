//! Builds the bucket of a limit, or of some of its clients, from a shape and a rate.
//!
//! The `bucket` module judges the numbers; this one knows the key of each and what would be right. `initial` is cut
//! down silently for clients whose bucket is smaller than the limit's own.

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::rate::built;
use tollgate_grammar::{Findings, Spot};

use super::super::raw;
use super::super::values::{RateValue, in_words};
use super::rate_parts::{Extras, GivenRate, NO_BURST, report_burst};
use super::shapes::BucketShape;
use crate::bucket::{Continuous, Floor, Interval, Spec, SpecError};

/// The bucket of all clients without another rate.
pub(super) fn of_limit(
    shape: &BucketShape,
    rate: Option<GivenRate<'_>>,
    extras: &Extras,
    raw: &raw::RawLimit,
    f: &mut Findings,
) -> Option<Spec> {
    let (spec, size, spot) = match (shape, rate) {
        (BucketShape::Rolling(window), _) => {
            let text = raw.rolling.value.as_ref()?;
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
            f.warning(spot, message, "`rate` defines the pool: give it the larger burst");
        }
        _ => {}
    }
}

fn pool(both: Floor) -> String {
    grouped(both.pool().burst().into())
}
