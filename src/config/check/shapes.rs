//! The shape of a limit's buckets: which keys make it, and which of them do not go together.
//!
//! It judges the keys beside each other and no numbers; those are judged in [`buckets`](super::buckets) and
//! [`windows`](super::windows). The surprising thing: `rolling` beats `refill`, which beats `floor`, so that each
//! file has one shape and everything that does not fit it is named.

use super::super::diagnostic::Findings;
use super::super::document::Located;
use super::super::raw;
use super::super::values::Rate;
use super::buckets::built;
use super::fields::{lasting, one_of, parsed};
use super::windows::{self, Window};
use crate::bucket::{Anchor, Continuous};
use crate::time::Span;

/// What a limit's keys make of a rate.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A steady refill; an attempt is held for its tokens at most this long.
    Continuous { wait: Span },
    /// Full again once a period.
    Interval { anchor: Anchor },
    /// At most so many in any window of whole periods.
    Rolling(Window),
    /// A guaranteed bucket beside the one of the rate.
    Floor { floor: Continuous },
}

/// A rate with the text that says it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'r> {
    pub(super) rate: Rate,
    pub(super) text: &'r Located<String>,
}

/// The shape; `None` only after a mistake was reported.
pub(super) fn check(raw: &raw::Limit, rate: Option<Given<'_>>, f: &mut Findings) -> Option<Shape> {
    let refill = one_of(raw.refill.as_ref(), &REFILLS, &[], f);
    let anchor = one_of(raw.anchor.as_ref(), &ANCHORS, &[], f);
    let wait = lasting(raw.wait.as_ref(), Span::ZERO..=LONGEST_WAIT, f).unwrap_or_default();
    if refill.is_none() && raw.refill.is_some() {
        // Whatever was meant, what does not fit it cannot be said; what is wrong by itself can.
        let _: (Option<Rate>, _) = (
            raw.rolling.as_ref().and_then(|text| parsed(text, f)),
            raw.floor.as_ref().and_then(|text| floor(text, f)),
        );
        return None;
    }
    let kind = match refill {
        _ if raw.has_rolling => Kind::Rolling,
        Some(Refill::Interval) => Kind::Interval,
        _ if raw.floor.is_some() => Kind::Floor,
        _ => Kind::Continuous,
    };
    report_strangers(kind, raw, refill, wait, f);
    let anchor = anchor.unwrap_or_default();
    Some(match kind {
        Kind::Continuous => Shape::Continuous { wait },
        Kind::Interval => Shape::Interval { anchor },
        Kind::Rolling => Shape::Rolling(windows::check(raw, rate, anchor, f)?),
        Kind::Floor => Shape::Floor { floor: floor(raw.floor.as_ref()?, f)? },
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refill {
    Continuous,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Continuous,
    Interval,
    Rolling,
    Floor,
}

impl Kind {
    /// As the subject of a message.
    fn name(self) -> &'static str {
        match self {
            Self::Continuous => "a continuous limit",
            Self::Interval => "an interval limit",
            Self::Rolling => "a rolling window",
            Self::Floor => "a limit with a floor",
        }
    }
}

fn report_strangers(kind: Kind, raw: &raw::Limit, refill: Option<Refill>, wait: Span, f: &mut Findings) {
    let name = kind.name();
    if let Some(text) = &raw.refill
        && (kind, refill) == (Kind::Rolling, Some(Refill::Continuous))
    {
        f.error(&text.spot, "a rolling window does not refill continuously", "leave it out");
    }
    if let Some(text) = &raw.anchor
        && matches!(kind, Kind::Continuous | Kind::Floor)
    {
        f.error(&text.spot, format!("{name} has no periods"), "leave it out, or add refill = \"interval\"");
    }
    if let Some(text) = &raw.every
        && kind != Kind::Rolling
    {
        f.error(&text.spot, "`every` without `rolling`", "as in rolling = \"10000 per 24h\"");
    }
    if let Some(text) = &raw.floor
        && matches!(kind, Kind::Interval | Kind::Rolling)
    {
        f.error(&text.spot, format!("{name} has no floor"), "a floor stands beside a continuous `rate`");
    }
    if let Some(text) = &raw.wait
        && wait > Span::ZERO
        && kind != Kind::Continuous
    {
        let hint = "only a continuous limit knows when each token is due";
        f.error(&text.spot, format!("{name} holds nobody"), hint);
    }
}

fn floor(text: &Located<String>, f: &mut Findings) -> Option<Continuous> {
    let rate: Rate = parsed(text, f)?;
    built(Continuous::new(rate.count, rate.period, rate.burst), &text.spot, f)
}

const REFILLS: [(&str, Refill); 2] = [("continuous", Refill::Continuous), ("interval", Refill::Interval)];
const ANCHORS: [(&str, Anchor); 2] = [("first", Anchor::First), ("clock", Anchor::Clock)];
/// Longer than a minute no browser and no proxy in front is sure to wait.
const LONGEST_WAIT: Span = Span::from_secs(60);
