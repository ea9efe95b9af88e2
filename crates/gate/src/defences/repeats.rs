//! `repeats = "free"`: the same wrong password costs once.
//!
//! A phone with an old password asks every few minutes, and must not use up the budget of its owner. If a request failed
//! before, and the same request fails again, limits that count failures do not charge it. Whole requests are compared,
//! because the gate cannot always know where an application reads the password: a request that differs anywhere may be
//! another guess. Limits that count attempts charge every request, and so bound the work of the application.
//!
//! The requests are hashes in the memory of this process, under a key that lives for a day, in a table of fixed size. One
//! may replace another there, which then costs once more.

use std::any::Any;

use tollgate_grammar::kind::{Checked as _, Key, Word};
use tollgate_grammar::{Findings, tables, words};

use super::slots::FailureSlots;
use super::{DefenceCheck, DefendedRoute};
use crate::policy::{AttemptNote, Defence, FailedAttempt, Needs, ReadAttempt};

tables! {
    pub RawRepeats {
        repeats: Key<Word<Repeats>> = Example,
    }
}

words! {
    /// What a failure costs whose request failed before.
    pub Repeats: bool { "free" => true, "charged" => false, }
}

#[derive(Debug)]
struct FreeRepeats(FailedRequests);

/// Requests that failed.
#[derive(Debug, Clone, Default)]
pub(super) struct FailedRequests(FailureSlots);

pub(super) fn check(
    raw: &RawRepeats,
    check: &mut DefenceCheck<'_>,
    to: &mut DefendedRoute<'_>,
    f: &mut Findings,
) {
    let Some(word) = raw.repeats.as_ref().filter(|_| raw.repeats.checked(f) == Some(true)) else { return };
    to.warn_of_failures(&word.spot, f);
    if to.route.as_ref().is_some_and(|route| route.step.is_some()) {
        let hint = "leave it out: a code that was wrong may be right in the next half minute";
        f.error(&word.spot, "`repeats` does not fit a second step", hint);
    }
    if let Some(route) = to.route.as_deref_mut() {
        route.defences.add(FreeRepeats(check.failed_requests.clone()));
    }
}

impl Defence for FreeRepeats {
    fn name(&self) -> &'static str {
        "repeats"
    }

    fn describe(&self) -> Option<String> {
        let words = "a request that failed before costs nothing where failures are counted, if it comes again as it was";
        Some(words.into())
    }

    fn needs(&self) -> Needs {
        Needs { body: true, ..Needs::default() }
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        attempt.whole()
    }

    fn forgives_failures(&self) -> bool {
        true
    }

    fn charges_failure(&self, AttemptNote(slot, request): AttemptNote, _: FailedAttempt) -> bool {
        self.0.is_new(slot, request)
    }

    fn carry_over(&mut self, former: &dyn Defence) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            self.0 = former.0.clone();
        }
    }
}

impl FailedRequests {
    /// Remembers a failure, and says whether it was not known.
    fn is_new(&self, slot: u64, request: u64) -> bool {
        self.0.swap(slot, request) != request
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::SLOTS;
    use super::*;

    #[test]
    fn a_request_that_failed_is_known_until_another_one_takes_its_place() {
        let failed = FailedRequests::default();
        assert_eq!([1, 2, 1, 2].map(|request| failed.is_new(request, request)), [true, true, false, false]);
        assert!(failed.is_new(1 + SLOTS, 3), "takes the place");
        assert!(failed.is_new(1, 1), "and is gone");
    }
}
