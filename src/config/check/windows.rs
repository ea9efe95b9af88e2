//! `rolling`, `every` and the `rate` next to them: one window, and its periods.
//!
//! A rate whose period is the window's is a quota; one whose period is `every` bounds one period. The same holds in
//! `rate`, in `rolling` and in the rates of some clients.

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::rate::built;
use tollgate_grammar::{Findings, Spot};

use super::super::raw;
use super::super::values::{Duration, RateValue, in_words};
use super::rate_parts::{Extras, GivenRate, NO_BURST, report_burst};
use crate::bucket::{PeriodStart, Rolling, Spec, SpecError};
use crate::time::Span;

/// A window in whole periods.
#[derive(Debug, Clone, Copy)]
pub(super) struct RollingWindow {
    quota: u32,
    length: Span,
    every: Span,
    /// Tokens in one period; `None` without its own bound.
    rate: Option<u32>,
    anchor: PeriodStart,
}

impl RollingWindow {
    /// The window of clients with another rate: another quota, or another count for each period.
    pub(super) fn with(self, rate: RateValue) -> Option<Self> {
        match rate.period {
            period if period == self.length && period == self.every => {
                Some(Self { quota: rate.count, rate: None, ..self })
            }
            period if period == self.length => Some(Self { quota: rate.count, ..self }),
            period if period == self.every => Some(Self { rate: Some(rate.count), ..self }),
            _ => None,
        }
    }

    /// The valid rates for some clients, as a hint.
    pub(super) fn hint(&self) -> String {
        let (length, every) = (in_words(self.length), in_words(self.every));
        if length == every {
            return format!("its period has to be {length}, as in \"{} per {length}\"", self.quota);
        }
        format!(
            "\"{} per {length}\" is another quota, \"{} per {every}\" another rate",
            self.quota,
            self.burst()
        )
    }

    pub(super) fn spec(&self, extras: &Extras) -> Result<Spec, SpecError> {
        let rolling = self.rolling()?.with_rate(self.burst())?;
        let initial = extras.initial_within(self.burst());
        Ok(Spec::Rolling(rolling.with_initial(initial)?.with_debt(extras.debt)?))
    }

    /// Tokens at once.
    pub(super) fn burst(&self) -> u32 {
        self.rate.unwrap_or(self.quota).min(self.quota)
    }

    fn rolling(&self) -> Result<Rolling, SpecError> {
        Rolling::new(self.quota, self.length, self.every, self.anchor)
    }
}

/// The window of a limit that has one; `None` only after a mistake was reported.
pub(super) fn check(
    raw: &raw::RawLimit,
    rate: Option<GivenRate<'_>>,
    anchor: PeriodStart,
    f: &mut Findings,
) -> Option<RollingWindow> {
    let quota = raw.rolling.value.as_ref().and_then(|given| GivenRate::of(given, f));
    let every = raw.every.checked(f);
    for given in quota.iter().chain(&rate) {
        report_burst(*given, NO_BURST, f);
    }
    let rate = rate.filter(|rate| is_of_a_period(rate, every, f));
    let quota = quota?;
    if raw.every.is_none() && raw.rate.key.is_none() {
        let hint = format!("as in every = \"{}\"", proposal(quota.rate.period));
        f.error(&quota.text.spot, "a rolling window needs `every`: how often it is calculated again", hint);
    }
    let window = RollingWindow {
        quota: quota.rate.count,
        length: quota.rate.period,
        every: every.or(rate.filter(|_| raw.every.is_none()).map(|rate| rate.rate.period))?,
        rate: rate.map(|rate| rate.rate.count),
        anchor,
    };
    let every_spot = raw.every.as_ref().map(|text| &text.spot);
    let spot = every_spot.or(raw.rate.value.as_ref().map(|text| &text.spot)).unwrap_or(&quota.text.spot);
    let rolling = cut(&window, &quota.text.spot, spot, f)?;
    warn(&window, &rolling, quota, rate, spot, f);
    Some(window)
}

fn is_of_a_period(GivenRate { rate, text }: &GivenRate<'_>, every: Option<Span>, f: &mut Findings) -> bool {
    let Some(every) = every.filter(|every| *every != rate.period) else { return true };
    let message =
        format!("the rate's period is {}, but `every` is {}", in_words(rate.period), in_words(every));
    f.error(&text.spot, message, format!("as in rate = \"{} per {}\"", rate.count, in_words(every)));
    false
}

/// The window in its periods, or a diagnostic if the periods do not divide it.
fn cut(window: &RollingWindow, quota: &Spot, spot: &Spot, f: &mut Findings) -> Option<Rolling> {
    let (length, every) = (in_words(window.length), in_words(window.every));
    let hint = format!("as in every = \"{}\"", proposal(window.length));
    match window.rolling() {
        Err(SpecError::NotWhole) => {
            f.error(spot, format!("a window of {length} is not a whole number of periods of {every}"), hint);
            None
        }
        Err(SpecError::TooManyPeriods) => {
            let periods = window.length.as_nanos() / window.every.as_nanos().max(1);
            let message = format!("a window of {length} has {} periods of {every}", grouped(periods));
            f.error(spot, message, format!("at most 1,024, {hint}"));
            None
        }
        other => built(other, quota, f),
    }
}

fn warn(
    window: &RollingWindow,
    rolling: &Rolling,
    quota: GivenRate<'_>,
    rate: Option<GivenRate<'_>>,
    every: &Spot,
    f: &mut Findings,
) {
    if rolling.slots() == 1 {
        let hint = format!("as in every = \"{}\"", proposal(window.length));
        f.warning(every, "a window of one period does not roll", hint);
    }
    let Some(GivenRate { rate, text }) = rate else { return };
    let in_all = u64::from(rate.count) * u64::from(rolling.slots());
    if rate.count > window.quota {
        let hint = format!("the window has only {}", grouped(window.quota.into()));
        f.warning(&text.spot, "the rate bounds nothing", hint);
    } else if in_all <= window.quota.into() {
        let message = "the window bounds nothing";
        let hint =
            format!("the rate lets through no more than {} in {}", grouped(in_all), in_words(window.length));
        f.warning(&quota.text.spot, message, hint);
    }
}

/// A period that divides the window: a twenty-fourth of it if that is a whole number of seconds, or something near.
fn proposal(length: Span) -> Duration {
    let fits = |unit: u64| PARTS.iter().find(|&&parts| length.as_nanos().is_multiple_of(parts * unit));
    let parts = fits(SECOND).or_else(|| fits(MIN_WINDOW.as_nanos())).unwrap_or(&1);
    Duration(Span::from_nanos(length.as_nanos() / parts))
}

const MIN_WINDOW: Span = Span::from_millis(1);
const SECOND: u64 = 1_000_000_000;
const PARTS: [u64; 12] = [24, 30, 20, 12, 10, 15, 8, 6, 5, 7, 4, 3];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_day_is_best_cut_into_hours() {
        let periods =
            [86_400, 3600, 60, 10, 7, 1].map(|seconds| proposal(Span::from_secs(seconds)).to_string());
        assert_eq!(periods, ["1h", "2m30s", "2s", "1s", "1s", "50ms"]);
    }

    proptest! {
        #[test]
        fn what_is_proposed_is_accepted(millis in 1..10_000_000_000_u64) {
            let length = Span::from_millis(millis);
            let Duration(every) = proposal(length);
            prop_assert!(Rolling::new(1, length, every, PeriodStart::First).is_ok());
            prop_assert_eq!(Duration(every).to_string().parse(), Ok(Duration(every)));
        }
    }
}
