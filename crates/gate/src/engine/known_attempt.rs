//! An attempt whose head alone says what it is charged to: if the same head comes again, only its buckets are asked.
//!
//! It is valid only under the rules by which it was made.

use super::{Engine, Refusal, Rules};
use crate::policy::attempt::Attempt;
use crate::policy::{Charge, Charges, MatchedRoutes};
use crate::time::Time;

/// The charges of a head, which are the same whenever it comes.
#[derive(Debug)]
pub struct KnownAttempt {
    found: Charges,
    /// Whether its body may show that its client is the owner of the account: then an alarm does not raise its cost.
    may_be_known: bool,
}

impl Engine {
    /// The charges of an attempt on these routes; `None` if they depend on more: on an account that it names, on earlier
    /// sign-ins, or on a ban that ends.
    pub fn known_attempt(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        routes: MatchedRoutes,
        may_be_known: bool,
        now: Time,
    ) -> Option<KnownAttempt> {
        let at_store = self.store.time(now);
        let found = self.charges_of(rules, attempt, routes, now, at_store).ok()?;
        let is_fixed = found.names_nobody()
            && rules.refusal_of_all(attempt.client, || at_store).is_none()
            && rules.banned_until(attempt.client, at_store).is_none();
        is_fixed.then_some(KnownAttempt { found, may_be_known })
    }

    /// Refuses a known attempt exactly as [`decide_on`](Self::decide_on) or [`refuse`](Self::refuse) would. `None` if these
    /// would admit it, wait for the store, or find other rules: then nothing was taken. `now` is the time of the process's
    /// clock.
    pub fn refuse_known(&self, rules: &Rules, known: &KnownAttempt, now: Time) -> Option<Refusal> {
        let now = self.store.time(now);
        let mut alarmed;
        let mut found = &known.found;
        if found.unsettled.notes.strangers_factors(now).next().is_some() {
            alarmed = found.clone();
            Self::raise_cost(rules, &mut alarmed, known.may_be_known, now);
            found = &alarmed;
        }
        let verdict = self.store.refuse(&rules.withdrawals(found), now).ok()??;
        Some(self.refused(rules, found, &verdict, now))
    }
}

impl KnownAttempt {
    /// Estimated bytes behind its pointers.
    #[must_use]
    pub fn size(&self) -> usize {
        let Charges { charges, exempt, routes, .. } = &self.found;
        charges.len() * size_of::<Charge>() + (exempt.len() + routes.len()) * size_of::<usize>()
    }
}
