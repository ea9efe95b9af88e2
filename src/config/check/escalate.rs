//! `[limit.NAME.escalate]`: waits that grow with each further refusal.
//!
//! The table turns them on; each of its keys has a default. `max` is also the time without a refusal after which the
//! count resets.

use tollgate_grammar::kind::{Checked as _, Key, Kind};
use tollgate_grammar::rate::built;
use tollgate_grammar::{Findings, RawNamed};

use super::super::raw;
use super::super::values::in_words;
use crate::bucket::{Escalation, Spec};
use crate::time::Span;

/// The escalation; `None` only after a mistake was reported.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<raw::RawEscalate>,
    f: &mut Findings,
) -> Option<Spec> {
    let (after, factor) = (or(&raw.after, AFTER, f), or(&raw.factor, FACTOR, f));
    let (wait, max) = (or(&raw.wait, WAIT, f), or(&raw.max, MAX, f));
    let (after, wait, factor, max) = (after?, wait?, factor?, max?);
    if wait > max {
        let spot = raw.wait.as_ref().map(|text| &text.spot).or(raw.max.as_ref().map(|text| &text.spot));
        let message = format!("the first wait, {}, is longer than `max`, {}", in_words(wait), in_words(max));
        f.error(spot.unwrap_or(&name.spot), message, "a longer `max`, or a shorter `wait`");
        return None;
    }
    built(Escalation::new(after, wait, factor, max), &name.spot, f).map(Spec::Escalation)
}

/// The value of a key, or its default; `None` only after a mistake was reported.
fn or<K: Kind>(key: &Key<K>, default: K::Value, f: &mut Findings) -> Option<K::Value> {
    if key.is_none() { Some(default) } else { key.checked(f) }
}

const AFTER: u32 = 5;
const FACTOR: u32 = 2;
const WAIT: Span = Span::from_secs(30);
const MAX: Span = Span::from_secs(3600);
