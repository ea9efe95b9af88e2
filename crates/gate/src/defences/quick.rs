//! `quick`: failures of one client that follow each other too quickly for a person. The second one counts as several for
//! the client's address.
//!
//! The times of failures are in the memory of this process and nowhere else: a table of fixed size, in which a client may
//! take the place of another, and so spare it some tokens.

use std::any::Any;

use tollgate_grammar::duration::{Duration, SECOND};
use tollgate_grammar::kind::{Checked as _, Key, Lasting};
use tollgate_grammar::{Findings, tables};

use super::slots::FailureSlots;
use super::{DefenceCheck, DefendedRoute, Weight, weight};
use crate::policy::key::PrefixLengths;
use crate::policy::{AttemptNote, Defence, FailedAttempt, ReadAttempt};
use crate::time::{Span, Time};

tables! {
    pub RawQuick {
        quick: Key<Lasting<1, { 10 * SECOND }>> = Example,
        quick_weight: Key<Weight>,
    }
}

#[derive(Debug)]
pub(super) struct Quick {
    pub(super) within: Span,
    pub(super) weight: u32,
    pub(super) prefixes: PrefixLengths,
    pub(super) last_failures: LastFailures,
}

/// When clients failed last.
#[derive(Debug, Clone, Default)]
pub(super) struct LastFailures(FailureSlots);

pub(super) fn check(
    raw: &RawQuick,
    check: &mut DefenceCheck<'_>,
    to: &mut DefendedRoute<'_>,
    f: &mut Findings,
) {
    let weight = weight(&raw.quick_weight, "quick", raw.quick.is_some(), f);
    let Some(text) = &raw.quick else { return };
    let within = raw.quick.checked(f);
    to.warn_of_addresses("quick", &text.spot, f);
    to.warn_of_failures(&text.spot, f);
    if let (Some(route), Some(within)) = (to.route.as_deref_mut(), within) {
        let (weight, last_failures) = (weight.unwrap_or(WEIGHT), check.last_failures.clone());
        route.defences.add(Quick { within, weight, prefixes: check.shared.prefixes, last_failures });
    }
}

impl Defence for Quick {
    fn name(&self) -> &'static str {
        "quick"
    }

    fn describe(&self) -> Option<String> {
        let words = "for its address; an attacker who waits, or has many addresses, does not pay it";
        let Self { within, weight, .. } = self;
        let within = Duration(*within);
        Some(format!("a failure within {within} of its client's last counts as {weight} {words}"))
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        let client = attempt.client(self.prefixes).filter(|_| !attempt.is_of_owner());
        client.map(|client| AttemptNote(client, 0))
    }

    fn weight_of_failure(&self, AttemptNote(client, _): AttemptNote, attempt: FailedAttempt) -> u32 {
        if self.last_failures.note(client, attempt, self.within) { self.weight } else { 1 }
    }

    fn carry_over(&mut self, former: &dyn Defence) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            self.last_failures = former.last_failures.clone();
        }
    }
}

impl LastFailures {
    /// Remembers a failure, and says whether its attempt came too soon after another one.
    fn note(&self, client: u64, FailedAttempt { decided, failed }: FailedAttempt, within: Span) -> bool {
        let millis = |time: Time| time.as_nanos() / NANOS_PER_MILLI % MILLIS;
        // The upper half of the hash tells the clients of a slot apart.
        let last = self.0.swap(client, client / MILLIS * MILLIS + millis(failed));
        let apart = (last % MILLIS).abs_diff(millis(decided));
        let is_soon = apart.min(MILLIS - apart) <= within.as_nanos() / NANOS_PER_MILLI;
        last / MILLIS == client / MILLIS && is_soon
    }
}

/// A button that is clicked twice makes two failures as well.
const WEIGHT: u32 = 3;
/// The lower half of a slot, 49 days.
const MILLIS: u64 = 1 << 32;
const NANOS_PER_MILLI: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_clients_of_one_slot_apart_and_works_where_its_times_begin_anew() {
        let failures = LastFailures::default();
        let at = |millis: u64| Time::from_nanos(millis * NANOS_PER_MILLI);
        let note = |client: u64, decided: u64, failed: u64| {
            let attempt = FailedAttempt { decided: at(decided), failed: at(failed) };
            failures.note(client + MILLIS, attempt, Span::from_millis(300))
        };
        let border = 7 * MILLIS;
        assert!(!note(5, border - 100, border - 100));
        assert!(note(5, border + 100, border + 100));
        assert!(!note(5 + MILLIS, border + 150, border + 150), "another client");
        assert!(!note(5, border + 200, border + 200), "which took the place");
        assert!(!note(5, border + 501, border + 501), "later");
        assert!(note(5, border + 400, border + 600), "came before the last failed");
    }
}
