//! Shared by the checks of buckets, shapes and windows: a rate with its text, and the other keys of a bucket.

use tollgate_grammar::kind::{Checked as _, Given, Kind};
use tollgate_grammar::{Findings, Located};

use super::super::raw;
use super::super::values::RateValue;

/// A rate with its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct GivenRate<'r> {
    pub(super) rate: RateValue,
    pub(super) text: &'r Located<String>,
}

impl<'r> GivenRate<'r> {
    /// The rate that is given; `None` after its mistake was reported.
    pub(super) fn of(
        given: &'r Given<impl Kind<Raw = String, Value = RateValue>>,
        f: &mut Findings,
    ) -> Option<Self> {
        Some(Self { rate: given.checked(f)?, text: given })
    }
}

/// `initial` and `debt` of a limit, which apply to each of its rates.
pub(super) struct Extras {
    pub(super) initial: Option<Located<u32>>,
    pub(super) debt: u32,
}

impl Extras {
    pub(super) fn check(raw: &raw::RawLimit, f: &mut Findings) -> Self {
        Self {
            initial: raw.initial.as_ref().and_then(|given| Some(given.with(given.checked(f)?))),
            debt: raw.debt.checked(f).unwrap_or_default(),
        }
    }

    /// The start balance of a bucket of this size.
    pub(super) fn initial_within(&self, size: u32) -> u32 {
        self.initial.as_ref().map_or(size, |initial| initial.value.min(size))
    }
}

/// Refuses a burst where a whole period's tokens come at once: more than those cannot be kept.
pub(super) fn report_burst(GivenRate { rate, text }: GivenRate<'_>, message: &str, f: &mut Findings) {
    if rate.burst != rate.count {
        let at = text.value.find("burst").unwrap_or(0);
        let spot = text.spot.part(&text.value, at..text.value.len());
        f.error(&spot, message, "leave the burst out");
    }
}

pub(super) const NO_BURST: &str = "a rolling window has no burst";
