//! An observer: it sees what was admitted, when, and which rules were in force, and knows what they allow.
//!
//! Across a change of the rules a bucket keeps its share, as of the change, and refills by the new promise from there;
//! of a limit that is gone nothing is remembered. A bucket that was forgotten may begin full again: as often as its
//! table says that it forgot a live one, and no more. Where nothing is forgotten, every promise is strict.

use std::collections::{BTreeMap, HashMap};

use tollgate::bucket::Spec;

use crate::promise::{Moment, Promise};
use crate::rules::{Owner, Rules};

#[derive(Debug, Default)]
pub(crate) struct Observer {
    buckets: BTreeMap<Owner, (Spec, Promise)>,
    /// Forgotten buckets that have served as an excuse already.
    excused: HashMap<&'static str, u64>,
}

impl Observer {
    /// The bucket gave tokens and says how many are left; its table has forgotten so many live buckets by now.
    pub(crate) fn admitted(
        &mut self,
        (owner, spec): (Owner, Spec),
        (cost, left): (u32, u32),
        forgotten: u64,
        now: Moment,
    ) -> Result<(), String> {
        let (_, promise) = self.buckets.entry(owner).or_insert_with(|| (spec, Promise::fresh(&spec, now)));
        let before = promise.clone();
        if promise.take(&spec, cost, left, now) {
            return Ok(());
        }
        let excused = self.excused.entry(owner.limit).or_default();
        *excused += 1;
        *promise = Promise::full(&spec, now);
        if *excused <= forgotten && promise.take(&spec, cost, left, now) {
            return Ok(());
        }
        Err(format!("{owner:?} gave {cost} and has {left} of {spec:?}\nat {now:?}, was {before:#?}"))
    }

    /// The bucket refused. That is written down if it was never seen, so that its start balance begins to refill, and
    /// if the clock was set back.
    pub(crate) fn refused(&mut self, (owner, spec): (Owner, Spec), now: Moment) {
        let (_, promise) = self.buckets.entry(owner).or_insert_with(|| (spec, Promise::fresh(&spec, now)));
        promise.advance(&spec, now);
    }

    /// The last attempt on the bucket was never made.
    pub(crate) fn given_back(&mut self, owner: Owner, cost: u32) {
        if let Some((spec, promise)) = self.buckets.get_mut(&owner) {
            promise.give_back(spec, cost);
        }
    }

    pub(crate) fn rules_replaced(&mut self, before: &Rules, after: &Rules, now: Moment) {
        let spec_of = |rules: &Rules, owner: &Owner| {
            let drawn = rules.find(owner.limit)?;
            if owner.of_office { drawn.office } else { Some(drawn.spec) }
        };
        self.excused.retain(|limit, _| after.find(limit).is_some());
        // A limit that is gone, or switched off for a client, takes its buckets along.
        self.buckets.retain(|owner, (spec, promise)| {
            let (Some(_), Some(next)) = (spec_of(before, owner), spec_of(after, owner)) else { return false };
            if *spec != next {
                *promise = promise.converted(spec, &next, now);
                *spec = next;
            }
            true
        });
    }

    pub(crate) fn before_a_setback(&mut self, now: Moment) {
        for (spec, promise) in self.buckets.values_mut() {
            promise.before_a_setback(spec, now);
        }
    }
}
