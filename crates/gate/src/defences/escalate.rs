//! `[limit.NAME.escalate]`: waits that grow with each further refusal.
//!
//! The table turns them on; each of its keys has a default. `max` is also the time without a refusal after which the
//! count resets. `crates/bucket/src/escalation.rs` calculates, and the policy says what counts as a strike.

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::duration::{DAY, SECOND, in_words};
use tollgate_grammar::kind::{Checked as _, Key, Kind, Lasting, Whole};
use tollgate_grammar::rate::built;
use tollgate_grammar::{Findings, RawNamed, tables};

use super::RawSubLimits;
use crate::bucket::{Admission, Escalation, Spec, Verdict};
use crate::policy::{ChargeOn, Limit, LimitKind};
use crate::time::Span;

tables! {
    pub RawEscalate {
        escalate: Option<RawNamed<RawWaits>> = Own,
    }

    /// Growing waits.
    pub RawWaits {
        after: Key<Whole<u32, 1, { Escalation::MAX_STRIKES as i64 }>>,
        wait: Key<Lasting<SECOND, { 365 * DAY }>>,
        factor: Key<Whole<u32, 1, { Escalation::MAX_FACTOR as i64 }>>,
        max: Key<Lasting<SECOND, { 365 * DAY }>>,
    }
}

/// Reports waits for a limit that cannot have them.
pub fn check_sub_limits(raw: &RawSubLimits, limit: &Limit, f: &mut Findings) {
    if let Some(table) = raw.escalate.escalate.as_ref().filter(|_| limit.is_of_passwords()) {
        let hint = "leave it out: people who have the same password would wait for each other";
        f.error(&table.name.spot, "`escalate` does not go with key = \"password\"", hint);
    }
}

/// The kind and the buckets of the limit that the table adds; `None` if there are none, or after a mistake was reported.
pub fn sub_limit(raw: &RawSubLimits, f: &mut Findings) -> Option<(LimitKind, Spec)> {
    let RawNamed { name, value: raw } = raw.escalate.escalate.as_ref()?;
    let (after, factor) = (or(&raw.after, AFTER, f), or(&raw.factor, FACTOR, f));
    let (wait, max) = (or(&raw.wait, WAIT, f), or(&raw.max, MAX, f));
    let (after, wait, factor, max) = (after?, wait?, factor?, max?);
    if wait > max {
        let spot = raw.wait.as_ref().map(|text| &text.spot).or(raw.max.as_ref().map(|text| &text.spot));
        let message = format!("the first wait, {}, is longer than `max`, {}", in_words(wait), in_words(max));
        f.error(spot.unwrap_or(&name.spot), message, "a longer `max`, or a shorter `wait`");
        return None;
    }
    let waits = built(Escalation::new(after, wait, factor, max), &name.spot, f)?;
    Some((LimitKind::Escalation, Spec::Escalation(waits)))
}

/// After how many refusals in a row such a limit makes a client wait, and for how long at first; `None` for others.
#[must_use]
pub fn first_wait(limit: &Limit) -> Option<(u32, Span)> {
    let Spec::Escalation(waits) = limit.spec else { return None };
    Some((waits.after(), waits.wait()))
}

/// What such a limit does in the worst case, as in `after 5 refusals in a row waits of 30s, growing to 1h, for a client that goes on`.
pub fn worst_case(limit: &Limit) -> Option<String> {
    let Spec::Escalation(waits) = limit.spec else { return None };
    let strikes = if limit.charge_on == ChargeOn::Failures { "failures" } else { "refusals" };
    let first = in_words(waits.wait());
    let grows = waits.factor() > 1 && waits.wait() < waits.max();
    let to = if grows { format!(", growing to {}", in_words(waits.max())) } else { String::new() };
    let after = grouped(waits.after().into());
    Some(format!("after {after} {strikes} in a row waits of {first}{to}, for a client that goes on"))
}

/// What an attempt meets in the bucket of such a limit, and the bucket after it; `None` for one of tokens.
pub fn explain(spec: Spec, verdict: &Verdict, time: impl Fn(Span) -> String) -> Option<(String, String)> {
    let Spec::Escalation(waits) = spec else { return None };
    let meets = match verdict.admission {
        Admission::Refused { wait } => format!("keeps waiting for {}", time(wait)),
        _ => "passes, no wait is on".to_owned(),
    };
    let (wait, max) = (in_words(waits.wait()), in_words(waits.max()));
    let left = format!("waits of {wait}, growing to {max}; {} more until the next wait", verdict.left);
    Some((meets, left))
}

/// The value of a key, or its default; `None` only after a mistake was reported.
fn or<K: Kind>(key: &Key<K>, default: K::Value, f: &mut Findings) -> Option<K::Value> {
    if key.is_none() { Some(default) } else { key.checked(f) }
}

const AFTER: u32 = 5;
const FACTOR: u32 = 2;
const WAIT: Span = Span::from_secs(30);
const MAX: Span = Span::from_secs(3600);
