//! Pardons of refused attempts: when one is offered, and what a voucher gives.
//!
//! A voucher puts one token into each bucket that refuses. A second bucket limits how many tokens each of these may get, so that an owner
//! of many addresses gets no more for the network that they share. One more bucket for each voucher accepts it only once. The policy's
//! [`Pardon`] says what a voucher is; `proxy` offers and receives it. An application that demands one has these buckets emptied.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Engine, LimitStatus, Refusal, Rules};
use crate::bucket::{Effect, Key, Op, Spec};
use crate::event::{Event, PardonResult};
use crate::policy::attempt::Attempt;
use crate::policy::{Charge, GivenSoFar, Offer, OfferRecipient, Pardon, Policy};
use crate::store::memory::{BucketKey, TooLarge, Withdrawal};
use crate::store::{BucketChange, LimitBuckets, LimitWithdrawal, Store, TakeState};
use crate::time::Time;

/// The buckets of what was given, and of vouchers that were accepted.
#[derive(Debug, Clone)]
pub(super) struct PardonBuckets {
    pardon: Arc<dyn Pardon>,
    /// Of `pardon`: of what a bucket may be given, and of one voucher.
    specs: [Spec; 2],
    buckets: LimitBuckets,
}

/// A voucher that gives nothing: the attempt is refused as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPardoned;

impl PardonBuckets {
    /// The buckets for the policy's pardon, the same as before if it did not change.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub(super) fn of(
        policy: &Policy,
        before: Option<&Self>,
        store: &Store,
        now: Time,
    ) -> Result<Option<Self>, TooLarge> {
        let Some(pardon) = &policy.pardon else { return Ok(None) };
        let (name, specs) = (pardon.name(), [pardon.rate(), pardon.once()]);
        let buckets = match before.filter(|before| before.pardon.name() == name) {
            None => store.limit(&name.into(), &specs)?,
            Some(before) if before.specs == specs => before.buckets.clone(),
            Some(before) => {
                let kept = before.specs.iter().enumerate().map(|(class, spec)| Some((class, *spec)));
                store.changed(&before.buckets, (&name.into(), &specs), kept.collect(), now)?
            }
        };
        Ok(Some(Self { pardon: Arc::clone(pardon), specs, buckets }))
    }

    fn withdrawal(&self, class: usize, spec: Spec, key: Key) -> LimitWithdrawal<'_> {
        let (bucket, effect) = (BucketKey { key, class, spec }, Effect::Enforce { owner: class });
        Withdrawal { buckets: &self.buckets, bucket, cost: 1, tag: None, effect }
    }

    fn of_bucket(&self, engine: &Engine, charge: &Charge) -> LimitWithdrawal<'_> {
        self.withdrawal(0, self.specs[0], engine.hasher.of_given(charge.key))
    }

    fn of_voucher(&self, voucher: Key) -> LimitWithdrawal<'_> {
        self.withdrawal(1, self.specs[1], voucher)
    }

    /// Whether one token is what the attempt lacks under this limit, and a voucher may give it.
    fn lifts(&self, rules: &Rules, LimitStatus { charge, .. }: &LimitStatus) -> bool {
        charge.cost == 1 && !charge.spec.has_debt() && self.pardon.lifts(&rules.policy.limits[charge.limit])
    }
}

/// What empties the buckets of a client from which the application demands a voucher, if one would lift their limit. Those of the
/// networks around it keep their tokens for others.
pub(super) fn emptied<'s>(
    statuses: &'s [LimitStatus],
    is_ipv4: bool,
    rules: &'s Rules,
) -> impl Iterator<Item = (&'s Charge, Op)> {
    let width = move |LimitStatus { charge, .. }: &LimitStatus| {
        let limit = &rules.policy.limits[charge.limit];
        let is_lifted = |given: &PardonBuckets| !charge.spec.has_debt() && given.pardon.lifts(limit);
        let is_lifted = rules.pardon.as_ref().is_some_and(is_lifted);
        is_lifted.then_some(if is_ipv4 { limit.prefixes.ipv4 } else { limit.prefixes.ipv6 })
    };
    let narrowest = statuses.iter().filter_map(width).max();
    let of_client = statuses.iter().filter(move |status| narrowest.is_some() && width(status) == narrowest);
    of_client.flat_map(|LimitStatus { charge, .. }| all_tokens(charge))
}

/// All that is there, in powers of two, whatever other attempts take or get back meanwhile.
fn all_tokens(charge: &Charge) -> impl Iterator<Item = (&Charge, Op)> {
    let most = charge.spec.burst().checked_ilog2().map_or(0, |power| power + 1);
    (0..most).rev().map(move |power| (charge, Op::Take(1 << power)))
}

impl Engine {
    /// What a client is offered for the attempt that it was refused; `None` if nothing. `load` is the number of refusals
    /// each second, `voucher` what the client came with.
    pub fn offer(
        &self,
        rules: &Rules,
        refusal: &Refusal,
        client: IpAddr,
        (load, voucher): (u32, Option<&str>),
        now: Time,
    ) -> Option<Offer> {
        let given = rules.pardon.as_ref()?;
        let route = rules.policy.routes.get(refusal.route)?;
        let may_be_lifted = refusal.violated().all(|status| given.lifts(rules, status));
        // A voucher comes without the body that chose the route.
        if refusal.attempt.facts.is_alarmed || route.is_conditional() || !may_be_lifted {
            return None;
        }
        let (at_store, mut tokens) = (self.store.time(now), 0);
        for status in refusal.violated() {
            let Withdrawal { buckets, bucket, .. } = given.of_bucket(self, &status.charge);
            let left = buckets.in_memory().peek(&bucket, at_store, 1).left;
            tokens = tokens.max(bucket.spec.burst().saturating_sub(left));
            if left == 0 {
                return None;
            }
        }
        self.events.emit(&Event::Pardon(PardonResult::Offered));
        let to = OfferRecipient { client, route: &route.name };
        let used_for = given.pardon.pause_voucher(&self.hasher, &to).map(|paused| {
            let Withdrawal { buckets, bucket, .. } = given.of_voucher(paused);
            buckets.in_memory().peek(&bucket, at_store, 1).next_token
        });
        let used_for = used_for.unwrap_or_default();
        let so_far = GivenSoFar { tokens, used_for, load, wait: refusal.wait, voucher };
        Some(given.pardon.offer(&self.hasher, &to, &so_far, now))
    }

    /// Puts a token into each bucket that refuses this attempt, if the voucher is one of this client and route that was not
    /// used before. An attempt that no bucket refuses any more costs no voucher.
    ///
    /// # Errors
    /// [`NotPardoned`]; no token was added anywhere.
    pub async fn redeem(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        client: IpAddr,
        voucher: &str,
    ) -> Result<(), NotPardoned> {
        let redeemed = self.try_redeem(rules, attempt, client, voucher).await;
        let result = if redeemed.is_some() { PardonResult::Redeemed } else { PardonResult::Refused };
        self.events.emit(&Event::Pardon(result));
        redeemed.ok_or(NotPardoned)
    }

    async fn try_redeem(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        client: IpAddr,
        voucher: &str,
    ) -> Option<()> {
        let (given, now) = (rules.pardon.as_ref()?, self.clock().now());
        let routes = rules.policy.routes_of(attempt);
        let route = &rules.policy.routes.get(*routes.first()?)?.name;
        let voucher = given.pardon.redeem(&self.hasher, &OfferRecipient { client, route }, voucher, now)?;
        let at_store = self.store.time(now);
        if rules.banned_until(attempt.client, at_store).is_some() {
            return None;
        }
        let mut found = self.charges_of(rules, attempt, routes, now, at_store).ok()?;
        Self::raise_cost(rules, &mut found, true, at_store);
        if found.facts.is_alarmed {
            return None;
        }
        let refusing = self.lifted(given, rules, &found.charges).await?;
        if refusing.is_empty() {
            return Some(());
        }
        let mut withdrawals: SmallVec<[_; 4]> = SmallVec::from_iter([given.of_voucher(voucher)]);
        withdrawals.extend(refusing.iter().map(|charge| given.of_bucket(self, charge)));
        let taken = match self.store.take(&withdrawals, self.store.time(now)).ok()? {
            TakeState::Done(verdict) => verdict,
            TakeState::Pending(take) => take.wait(&withdrawals, |of_store| of_store).await.ok()?.0,
        };
        for charge in refusing.iter().filter(|_| taken.admitted) {
            let Withdrawal { buckets, bucket, .. } = rules.withdrawal(charge);
            self.store.change(buckets, bucket, BucketChange::Credit(1)).await.ok()?;
        }
        taken.admitted.then_some(())
    }

    /// The charges whose buckets refuse; `None` if a voucher lifts one of them not, as one that an operator banned.
    async fn lifted(
        &self,
        given: &PardonBuckets,
        rules: &Rules,
        charges: &[Charge],
    ) -> Option<SmallVec<[Charge; 2]>> {
        let mut refusing = SmallVec::new();
        for charge in charges {
            let Withdrawal { buckets, bucket, cost, .. } = rules.withdrawal(charge);
            let (verdict, own) = self.store.inspect(buckets, bucket, cost).await.ok()?;
            let status = LimitStatus { charge: *charge, verdict };
            match status.refuses() {
                false => {}
                true if own.is_none() && given.lifts(rules, &status) => refusing.push(*charge),
                true => return None,
            }
        }
        Some(refusing)
    }
}

#[cfg(test)]
mod tests;
