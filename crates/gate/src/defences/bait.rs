//! `bait`: accounts that no person uses. An attempt at one counts as several for the address of its client.
//!
//! It is admitted and answered as any other, and takes the rest as far as its bucket has it.

use std::collections::HashSet;

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::kind::Key;
use tollgate_grammar::{Findings, List, tables};

use super::{DefenceCheck, DefendedRoute, Weight, weight};
use crate::policy::fingerprint::Fingerprint;
use crate::policy::{AttemptNote, Defence, Needs, ReadAttempt};

tables! {
    pub RawBait {
        bait: Option<List> = Example,
        bait_weight: Key<Weight>,
    }
}

#[derive(Debug)]
pub(super) struct Bait {
    pub(super) accounts: HashSet<Fingerprint>,
    pub(super) weight: u32,
}

pub(super) fn check(
    raw: &RawBait,
    check: &mut DefenceCheck<'_>,
    to: &mut DefendedRoute<'_>,
    f: &mut Findings,
) {
    let weight = weight(&raw.bait_weight, "bait", raw.bait.is_some(), f);
    let Some(list) = &raw.bait else { return };
    if list.is_empty {
        f.error(&list.spot, "`bait` is empty", "leave it out to mean none");
    }
    let accounts: HashSet<Fingerprint> = check.files.accounts(list, f).into_iter().collect();
    to.warn_of_addresses("bait", &list.spot, f);
    if to.route.as_ref().is_some_and(|route| route.reading.user.is_empty()) {
        to.warn(&list.spot, "names no `user`, so none is bait", "add user = \"form:username\"", f);
    }
    if let Some(route) = to.route.as_deref_mut().filter(|_| !accounts.is_empty()) {
        route.defences.add(Bait { accounts, weight: weight.unwrap_or(WEIGHT) });
    }
}

impl Defence for Bait {
    fn name(&self) -> &'static str {
        "bait"
    }

    fn describe(&self) -> Option<String> {
        let names = grouped(u64::try_from(self.accounts.len()).unwrap_or(u64::MAX));
        let words = "for its address; an attacker who tries other names does not meet them";
        Some(format!("an attempt at a bait name ({names} listed) counts as {} {words}", self.weight))
    }

    fn needs(&self) -> Needs {
        Needs { accounts: true, ..Needs::default() }
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        attempt.is_strangers_at(&self.accounts).then_some(AttemptNote(u64::from(self.weight), 0))
    }

    fn is_of_nobody(&self, _: AttemptNote) -> bool {
        true
    }

    fn weight_of_attempt(&self, AttemptNote(weight, _): AttemptNote) -> u32 {
        u32::try_from(weight).unwrap_or(self.weight)
    }

    fn explain(&self, AttemptNote(weight, _): AttemptNote) -> Option<(&'static str, String)> {
        Some(("bait", format!("counts as {weight} for limits by address, as far as they have tokens")))
    }
}

/// The bucket of `10 per 5m`.
const WEIGHT: u32 = 10;
