//! The shape of a limit's buckets: which keys make it, and which of them conflict.
//!
//! It judges keys next to each other; numbers are left to [`buckets`](super::buckets) and [`windows`](super::windows).
//! `rolling` beats `refill`, which beats `floor`, so each limit has one shape, and every key that does not fit it is
//! reported.

use tollgate_grammar::Findings;
use tollgate_grammar::kind::{Checked as _, Given, Text};
use tollgate_grammar::rate::built;

use super::super::raw;
use super::super::values::RateValue;
use super::super::words::Refill;
use super::rate_parts::GivenRate;
use super::windows::{self, RollingWindow};
use crate::bucket::{Continuous, PeriodStart};
use crate::time::Span;

/// The shape that a limit's keys give to a rate.
#[derive(Debug, Clone, Copy)]
pub(super) enum BucketShape {
    /// A steady refill; an attempt is held for its tokens at most this long.
    Continuous { wait: Span },
    /// Full again once a period.
    Interval { anchor: PeriodStart },
    /// At most its quota in any window of whole periods.
    Rolling(RollingWindow),
    /// A guaranteed bucket next to the one of the rate.
    Floor { floor: Continuous },
}

/// The shape; `None` only after a mistake was reported.
pub(super) fn check(
    raw: &raw::RawLimit,
    rate: Option<GivenRate<'_>>,
    f: &mut Findings,
) -> Option<BucketShape> {
    let refill = raw.refill.checked(f);
    let anchor = raw.anchor.checked(f);
    let wait = raw.wait.checked(f).unwrap_or_default();
    if refill.is_none() && raw.refill.is_some() {
        // With an unknown `refill` the shape is open: report what is invalid in any shape, and no conflicts.
        let _ = (raw.rolling.value.checked(f), raw.floor.as_ref().and_then(|text| floor(text, f)));
        return None;
    }
    let kind = match refill {
        _ if raw.rolling.key.is_some() => ShapeKind::Rolling,
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
enum ShapeKind {
    Continuous,
    Interval,
    Rolling,
    Floor,
}

impl ShapeKind {
    /// The noun of a message.
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
        f.error(&text.spot, format!("{name} has no floor"), "a floor goes with a continuous `rate`");
    }
    if let Some(text) = &raw.wait
        && wait > Span::ZERO
        && kind != ShapeKind::Continuous
    {
        let message = match kind {
            ShapeKind::Rolling => "`wait` does not go with `rolling`",
            ShapeKind::Floor => "`wait` does not go with `floor`",
            ShapeKind::Continuous | ShapeKind::Interval => "`wait` needs `refill = \"continuous\"`",
        };
        f.error(&text.spot, message, "only a continuous limit knows when each token is due");
    }
}

fn floor(text: &Given<Text<RateValue>>, f: &mut Findings) -> Option<Continuous> {
    let rate = text.checked(f)?;
    built(Continuous::new(rate.count, rate.period, rate.burst), &text.spot, f)
}
