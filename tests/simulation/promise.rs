//! What a bucket may have admitted at most, worked out from what it did admit.
//!
//! Not the bucket's own arithmetic: a level of tokens, a count of one period, a list of time stamps. Each says at most
//! as little as the shape promises and never less than what is really left: debt is left out, a refund is believed, and
//! of a period whose beginning cannot be seen from outside only what holds for every beginning is asked. Fractions are
//! floats here, with a millionth of a token to spare.

use tollgate::bucket::{PeriodStart, Spec};
use tollgate::time::{Span, Time};

/// A point in time, by the clock that may be set back, and by the sum of all that it ever moved forward.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Time,
    pub(crate) forward: Span,
    /// How often the clock was set back.
    pub(crate) setbacks: u32,
}

/// The most that may be left in a bucket.
#[derive(Debug, Clone)]
pub(crate) enum Promise {
    /// Continuous, floor: tokens at a time.
    Level { tokens: f64, at: Span },
    /// Interval: when the period that is on ends, and what was taken in it; and if another one may be on, because what
    /// it was converted from was perhaps not quite full, or because the clock was set back, when that ends.
    Period { end: Time, taken: f64, or_end: Option<Time> },
    /// Rolling.
    History(Vec<Taken>),
}

/// What was taken, when, and in which period if they follow the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    at: Span,
    tokens: f64,
    period: Option<(u64, u32)>,
}

impl Promise {
    /// Of a bucket that was never seen.
    pub(crate) fn fresh(spec: &Spec, now: Moment) -> Self {
        let withheld = match spec {
            Spec::Continuous(bucket) => bucket.burst() - bucket.initial(),
            Spec::Interval(interval) => interval.quota() - interval.initial(),
            Spec::Floor(floor) => floor.pool().burst() - floor.pool().initial(),
            // Only what was taken is in the list; the start balance of a window is left to its own tests.
            Spec::Rolling(_) => 0,
            Spec::Distinct(distinct) => distinct.bucket().burst() - distinct.bucket().initial(),
            Spec::Escalation(_) | Spec::Recent(_) => 0,
        };
        Self::with_share(spec, 1.0 - f64::from(withheld) / f64::from(spec.burst()), now)
    }

    /// Of a bucket that was forgotten, and may be full.
    pub(crate) fn full(spec: &Spec, now: Moment) -> Self {
        Self::with_share(spec, 1.0, now)
    }

    /// Of a bucket of which this share is left.
    fn with_share(spec: &Spec, share: f64, now: Moment) -> Self {
        let burst = f64::from(spec.burst());
        match spec {
            // Waits that grow promise nothing about attempts; this simulation does not draw them.
            Spec::Continuous(_)
            | Spec::Floor(_)
            | Spec::Distinct(_)
            | Spec::Escalation(_)
            | Spec::Recent(_) => Self::Level { tokens: share * burst, at: now.forward },
            Spec::Interval(_) => Self::period(spec, (1.0 - share) * burst, next_end(spec, now), now),
            Spec::Rolling(rolling) => {
                let tokens = (1.0 - share) * f64::from(rolling.quota());
                // What is more than one period's share weighs on the period before this one.
                Self::History(vec![Taken { at: now.forward.minus(rolling.period()), tokens, period: None }])
            }
        }
    }

    /// A period of which so much is taken. If that is nothing, the next period begins as if none was on.
    fn period(spec: &Spec, taken: f64, end: Time, now: Moment) -> Self {
        if taken > SPARE {
            return Self::Period { end, taken, or_end: None };
        }
        let Spec::Interval(interval) = spec else {
            return Self::Period { end: now.wall, taken, or_end: None };
        };
        let or_end = (interval.period_start() == PeriodStart::First).then_some(end);
        Self::Period { end: now.wall, taken, or_end }
    }

    /// Takes tokens that the bucket gave. Whether it was allowed to give them, and still has what it says is left.
    pub(crate) fn take(&mut self, spec: &Spec, cost: u32, left: u32, now: Moment) -> bool {
        self.advance(spec, now);
        let (cost, left) = (f64::from(cost), f64::from(left));
        match (self, spec) {
            (Self::Level { tokens, .. }, _) => {
                *tokens -= cost;
                // In advance tokens are taken only when none is left.
                *tokens >= if left > 0.0 { left } else { -advance_of(spec) } - SPARE
            }
            (Self::Period { end, taken, or_end }, _) => {
                *taken += cost;
                if *taken + left > f64::from(spec.burst()) + SPARE
                    && or_end.take_if(|end| *end <= now.wall).is_some()
                {
                    (*end, *taken) = (next_end(spec, now), cost);
                }
                *taken + left <= f64::from(spec.burst()) + SPARE
            }
            (Self::History(list), Spec::Rolling(rolling)) => {
                let period = match rolling.period_start() {
                    PeriodStart::First => None,
                    PeriodStart::Clock => {
                        Some((now.wall.as_nanos() / rolling.period().as_nanos(), now.setbacks))
                    }
                };
                list.push(Taken { at: now.forward, tokens: cost, period });
                let in_period = list.iter().filter(|taken| taken.period == period).map(|taken| taken.tokens);
                // Every window that is one period shorter lies within one of whole periods.
                total(list) + left <= f64::from(rolling.quota()) + SPARE
                    && (period.is_none()
                        || in_period.sum::<f64>() + left <= f64::from(rolling.burst()) + SPARE)
            }
            (Self::History(_), _) => false,
        }
    }

    /// The attempt was never made.
    pub(crate) fn give_back(&mut self, spec: &Spec, cost: u32) {
        match self {
            Self::Level { tokens, .. } => *tokens = (*tokens + f64::from(cost)).min(f64::from(spec.burst())),
            Self::Period { end, taken, or_end } => {
                *taken = (*taken - f64::from(cost)).max(0.0);
                // A period in which nothing is taken is as if it had never begun.
                if *taken <= SPARE {
                    (*or_end, *end) = (Some(or_end.map_or(*end, |other| other.min(*end))), Time::default());
                }
            }
            Self::History(list) => drop(list.pop()),
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, spec: &Spec, now: Moment) {
        match (self, spec) {
            (Self::Level { tokens, at }, _) => {
                let passed = nanos(now.forward.minus(*at));
                *tokens = (*tokens + passed * per_nano(spec)).min(f64::from(spec.burst()));
                *at = now.forward;
            }
            (Self::Period { end, taken, or_end }, _) => {
                let next = next_end(spec, now);
                if now.wall >= *end {
                    (*end, *taken) = (next, 0.0);
                }
                // Set back, a clock makes no period longer than it is: it lasts for a whole one from then.
                *end = not_too_late(spec, *end, now);
                *or_end = or_end.map(|end| not_too_late(spec, end, now));
            }
            (Self::History(list), Spec::Rolling(rolling)) => {
                let seen = rolling.window().minus(rolling.period());
                list.retain(|taken| now.forward.minus(taken.at) < seen);
            }
            (Self::History(_), _) => {}
        }
    }

    /// What is full by now may have been forgotten, or is as it was once the clock has been set back.
    pub(crate) fn before_a_setback(&mut self, spec: &Spec, now: Moment) {
        match self {
            Self::Period { end, taken, or_end } if *end <= now.wall => {
                (*or_end, *taken) = (Some(or_end.map_or(*end, |other| other.min(*end))), 0.0);
                *end = Time::default();
            }
            Self::Period { .. } => {}
            Self::Level { .. } | Self::History(_) => self.advance(spec, now),
        }
    }

    /// The same share under another spec, from now on.
    pub(crate) fn converted(&self, from: &Spec, to: &Spec, now: Moment) -> Self {
        let mut before = self.clone();
        before.advance(from, now);
        // Beside the clock, since that was set back: the period that was on instead has ended.
        if let (Self::Period { taken, or_end: Some(end), .. }, Spec::Interval(old)) = (&mut before, from)
            && old.period_start() == PeriodStart::Clock
            && *end <= now.wall
        {
            *taken = 0.0;
        }
        match (&mut before, from, to) {
            (Self::Period { end, taken, .. }, Spec::Interval(old), Spec::Interval(new)) => {
                let taken = *taken * f64::from(new.quota()) / f64::from(old.quota());
                let end = match new.period_start() {
                    PeriodStart::First => next_end(to, now).min(*end),
                    PeriodStart::Clock => next_end(to, now),
                };
                Self::period(to, taken, end, now)
            }
            (Self::History(list), Spec::Rolling(old), Spec::Rolling(new))
                if old.period() == new.period() && old.period_start() == new.period_start() =>
            {
                let scale = f64::from(new.quota()) / f64::from(old.quota());
                let scaled = |taken: &Taken| Taken { tokens: taken.tokens * scale, period: None, ..*taken };
                Self::History(list.iter().map(scaled).collect())
            }
            (Self::Level { tokens, .. }, Spec::Floor(old), Spec::Floor(new)) => {
                // Each part keeps its share; which part the tokens are in cannot be seen, so the better one.
                let parts = [(old.floor(), new.floor()), (old.pool(), new.pool())];
                let [small, large] = parts.map(|(old, new)| (f64::from(old.burst()), f64::from(new.burst())));
                let (best, rest) =
                    if small.1 / small.0 > large.1 / large.0 { (small, large) } else { (large, small) };
                let in_best = tokens.clamp(0.0, best.0);
                let in_rest = (*tokens - in_best).clamp(0.0, rest.0);
                let tokens = in_best * best.1 / best.0 + in_rest * rest.1 / rest.0;
                Self::Level { tokens, at: now.forward }
            }
            (before, ..) => Self::with_share(to, before.share(from), now),
        }
    }

    fn share(&self, spec: &Spec) -> f64 {
        let left = match (self, spec) {
            (Self::Level { tokens, .. }, _) => tokens / f64::from(spec.burst()),
            (Self::Period { taken, .. }, _) => 1.0 - taken / f64::from(spec.burst()),
            (Self::History(list), Spec::Rolling(rolling)) => 1.0 - total(list) / f64::from(rolling.quota()),
            (Self::History(_), _) => 0.0,
        };
        left.clamp(0.0, 1.0)
    }
}

/// When a period ends that begins, or is on, now.
fn next_end(spec: &Spec, now: Moment) -> Time {
    let Spec::Interval(interval) = spec else { return now.wall };
    let since_border = match interval.period_start() {
        PeriodStart::First => 0,
        PeriodStart::Clock => now.wall.as_nanos() % interval.period().as_nanos(),
    };
    now.wall.after(interval.period()).before(Span::from_nanos(since_border))
}

/// When a period ends that would end then, if the clock was not set back since.
fn not_too_late(spec: &Spec, end: Time, now: Moment) -> Time {
    let Spec::Interval(interval) = spec else { return end };
    let longest = now.wall.after(interval.period());
    // Up to a second it may be a thread that read the clock a while ago.
    if end > longest.after(Span::from_secs(1)) { longest } else { end }
}

/// Tokens that come back in a nanosecond.
fn per_nano(spec: &Spec) -> f64 {
    match spec {
        Spec::Continuous(bucket) => 1.0 / nanos(bucket.per_token()),
        Spec::Floor(floor) => 1.0 / nanos(floor.floor().per_token()) + 1.0 / nanos(floor.pool().per_token()),
        Spec::Distinct(distinct) => 1.0 / nanos(distinct.bucket().per_token()),
        Spec::Interval(_) | Spec::Rolling(_) | Spec::Escalation(_) | Spec::Recent(_) => 0.0,
    }
}

/// Tokens that may be taken before they are there.
fn advance_of(spec: &Spec) -> f64 {
    match spec {
        Spec::Continuous(bucket) => nanos(bucket.hold()) / nanos(bucket.per_token()),
        _ => 0.0,
    }
}

fn total(list: &[Taken]) -> f64 {
    list.iter().map(|taken| taken.tokens).sum()
}

#[expect(clippy::cast_precision_loss, reason = "what is lost is far less than is spared")]
fn nanos(span: Span) -> f64 {
    span.as_nanos() as f64
}

const SPARE: f64 = 1e-6;
