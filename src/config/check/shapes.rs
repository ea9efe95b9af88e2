//! The shape of a limit's buckets: which keys make it, and which of them do not go together.
//!
//! It judges the keys beside each other and no numbers; those are judged in [`buckets`](super::buckets) and
//! [`windows`](super::windows). The surprising thing: `rolling` beats `refill`, which beats `floor`, so that each
//! file has one shape and everything that does not fit it is named.

use super::super::diagnostic::Findings;
use super::super::document::Located;
use super::super::raw;
use super::super::values::RateValue;
use super::fields::{duration_within, one_of, parsed};
use super::rate_parts::{GivenRate, built};
use super::windows::{self, RollingWindow};
use crate::bucket::{Continuous, PeriodStart};
use crate::time::Span;

/// What a limit's keys make of a rate.
#[derive(Debug, Clone, Copy)]
pub(super) enum BucketShape {
    /// A steady refill; an attempt is held for its tokens at most this long.
    Continuous { wait: Span },
    /// Full again once a period.
    Interval { anchor: PeriodStart },
    /// At most so many in any window of whole periods.
    Rolling(RollingWindow),
    /// A guaranteed bucket beside the one of the rate.
    Floor { floor: Continuous },
}

/// The shape; `None` only after a mistake was reported.
pub(super) fn check(
    raw: &raw::RawLimit,
    rate: Option<GivenRate<'_>>,
    f: &mut Findings,
) -> Option<BucketShape> {
    let refill = one_of(raw.refill.as_ref(), &REFILLS, &[], f);
    let anchor = one_of(raw.anchor.as_ref(), &ANCHORS, &[], f);
    let wait = duration_within(raw.wait.as_ref(), Span::ZERO..=MAX_WAIT, f).unwrap_or_default();
    if refill.is_none() && raw.refill.is_some() {
        // Whatever was meant, what does not fit it cannot be said; what is wrong by itself can.
        let _: (Option<RateValue>, _) = (
            raw.rolling.as_ref().and_then(|text| parsed(text, f)),
            raw.floor.as_ref().and_then(|text| floor(text, f)),
        );
        return None;
    }
    let kind = match refill {
        _ if raw.has_rolling => ShapeKind::Rolling,
        Some(Refill::Interval) => ShapeKind::Interval,
        _ if raw.floor.is_some() => ShapeKind::Floor,
        _ => ShapeKind::Continuous,
    };
    report_conflicts(kind, raw, refill, wait, f);
    let anchor = anchor.unwrap_or_default();
    Some(match kind {
        ShapeKind::Continuous => BucketShape::Continuous { wait },
        ShapeKind::Interval => BucketShape::Interval { anchor },
        ShapeKind::Rolling => BucketShape::Rolling(windows::check(raw, rate, anchor, f)?),
        ShapeKind::Floor => BucketShape::Floor { floor: floor(raw.floor.as_ref()?, f)? },
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refill {
    Continuous,
    Interval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShapeKind {
    Continuous,
    Interval,
    Rolling,
    Floor,
}

impl ShapeKind {
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

fn report_conflicts(
    kind: ShapeKind,
    raw: &raw::RawLimit,
    refill: Option<Refill>,
    wait: Span,
    f: &mut Findings,
) {
    let name = kind.name();
    if let Some(text) = &raw.refill
        && (kind, refill) == (ShapeKind::Rolling, Some(Refill::Continuous))
    {
        f.error(&text.spot, "a rolling window does not refill continuously", "leave it out");
    }
    if let Some(text) = &raw.anchor
        && matches!(kind, ShapeKind::Continuous | ShapeKind::Floor)
    {
        f.error(&text.spot, format!("{name} has no periods"), "leave it out, or add refill = \"interval\"");
    }
    if let Some(text) = &raw.every
        && kind != ShapeKind::Rolling
    {
        f.error(&text.spot, "`every` without `rolling`", "as in rolling = \"10000 per 24h\"");
    }
    if let Some(text) = &raw.floor
        && matches!(kind, ShapeKind::Interval | ShapeKind::Rolling)
    {
        f.error(&text.spot, format!("{name} has no floor"), "a floor stands beside a continuous `rate`");
    }
    if let Some(text) = &raw.wait
        && wait > Span::ZERO
        && kind != ShapeKind::Continuous
    {
        let hint = "only a continuous limit knows when each token is due";
        f.error(&text.spot, format!("{name} holds nobody"), hint);
    }
}

fn floor(text: &Located<String>, f: &mut Findings) -> Option<Continuous> {
    let rate: RateValue = parsed(text, f)?;
    built(Continuous::new(rate.count, rate.period, rate.burst), &text.spot, f)
}

const REFILLS: [(&str, Refill); 2] = [("continuous", Refill::Continuous), ("interval", Refill::Interval)];
const ANCHORS: [(&str, PeriodStart); 2] = [("first", PeriodStart::First), ("clock", PeriodStart::Clock)];
/// Longer than a minute no browser and no proxy in front is sure to wait.
const MAX_WAIT: Span = Span::from_secs(60);
