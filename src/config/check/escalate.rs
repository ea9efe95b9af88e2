//! `[limit.NAME.escalate]`: waits that grow with each further refusal.
//!
//! The table turns them on; each of its keys has a default. `max` is also the time without a refusal after which the
//! count resets.

use super::super::diagnostic::Findings;
use super::super::raw::{self, RawNamed};
use super::super::values::in_words;
use super::fields::{duration_within, within};
use super::rate_parts::built;
use crate::bucket::{Escalation, Spec};
use crate::time::Span;

/// The escalation; `None` only after a mistake was reported.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<raw::RawEscalate>,
    f: &mut Findings,
) -> Option<Spec> {
    let after = raw.after.is_none().then_some(AFTER);
    let after = after.or_else(|| within(raw.after.as_ref(), 1..=Escalation::MAX_STRIKES.into(), f));
    let factor = raw.factor.is_none().then_some(FACTOR);
    let factor = factor.or_else(|| within(raw.factor.as_ref(), 1..=Escalation::MAX_FACTOR.into(), f));
    let wait = raw
        .wait
        .is_none()
        .then_some(WAIT)
        .or_else(|| duration_within(raw.wait.as_ref(), MIN_WAIT..=MAX_WAIT, f));
    let max = raw
        .max
        .is_none()
        .then_some(MAX)
        .or_else(|| duration_within(raw.max.as_ref(), MIN_WAIT..=MAX_WAIT, f));
    let (after, wait, factor, max) = (after?, wait?, factor?, max?);
    if wait > max {
        let text = raw.wait.as_ref().or(raw.max.as_ref());
        let message = format!("the first wait, {}, is longer than `max`, {}", in_words(wait), in_words(max));
        f.error(text.map_or(&name.spot, |text| &text.spot), message, "a longer `max`, or a shorter `wait`");
        return None;
    }
    built(Escalation::new(after, wait, factor, max), &name.spot, f).map(Spec::Escalation)
}

const AFTER: u32 = 5;
const FACTOR: u32 = 2;
const WAIT: Span = Span::from_secs(30);
const MAX: Span = Span::from_secs(3600);
/// Retry-After counts whole seconds.
const MIN_WAIT: Span = Span::from_secs(1);
const MAX_WAIT: Span = Span::from_secs(365 * 86_400);
