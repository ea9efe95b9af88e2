//! The addresses that accounts signed in from: looked up before an attempt is charged, remembered after a success.
//!
//! `policy` finds the address of an attempt. In memory the look-up is immediate. Over a shared store the engine uses what this gate last
//! saw there. If it saw nothing, or longer ago than a second, it asks the store for the address and takes the tokens at the same time.
//! If the address turns out to be known, it gives these tokens back and charges the attempt again, as one from a known address.

use std::sync::Arc;

use super::{Engine, Rules};
use crate::bucket::{Key, Op, Recent, Spec};
use crate::policy::account::Account;
use crate::policy::attempt::Attempt;
use crate::policy::{AccountAddress, Charges, KnownAddresses, Policy, Remembered, Unchargeable};
use crate::store::memory::{BucketKey, CombinedVerdict, TooLarge};
use crate::store::shared::{ReplyFuture, Unavailable};
use crate::store::{DecidedBy, LimitBuckets, Store};
use crate::time::Time;

/// The sets of all accounts.
#[derive(Debug, Clone)]
pub(super) struct AddressSets {
    /// In messages of the store and in snapshots.
    pub(super) name: &'static str,
    pub(super) buckets: LimitBuckets,
    pub(super) spec: Spec,
}

/// The known addresses of an account of one application.
#[derive(Debug, Clone)]
pub struct KnownAddressCount {
    /// The application: the name of its route, or of its first one.
    pub application: Arc<str>,
    /// How many there are.
    pub known: u32,
    /// When the last of them is forgotten.
    pub until: Time,
}

/// An attempt whose address may be known to the store.
pub(super) struct PendingAddress {
    reply: ReplyFuture,
    /// The charges if it is.
    found: Charges,
}

impl AddressSets {
    /// Empty sets, if the policy knows addresses.
    pub(super) fn of(policy: &Policy, store: &Store) -> Result<Option<Self>, TooLarge> {
        let Some(KnownAddresses { name, recent, .. }) = policy.addresses else { return Ok(None) };
        let spec = Spec::Recent(recent);
        Ok(Some(Self { name, buckets: store.limit(&name.into(), &[spec])?, spec }))
    }

    /// The sets under new rules: the same, with another time to live if that changed.
    pub(super) fn under(
        former: Option<&Self>,
        policy: &Policy,
        store: &Store,
        now: Time,
    ) -> Result<Option<Self>, TooLarge> {
        match (former, policy.addresses) {
            (Some(former), Some(known)) => {
                former.clone().with_spec(Spec::Recent(known.recent), store, now).map(Some)
            }
            _ => Self::of(policy, store),
        }
    }

    pub(super) fn with_spec(self, spec: Spec, store: &Store, now: Time) -> Result<Self, TooLarge> {
        if self.spec == spec {
            return Ok(self);
        }
        let classes = vec![Some((0, self.spec))];
        let buckets = store.changed(&self.buckets, (&self.name.into(), &[spec]), classes, now)?;
        Ok(Self { buckets, spec, ..self })
    }

    fn bucket_of(&self, address: &AccountAddress) -> BucketKey {
        self.bucket(address.account)
    }

    /// The set of this key.
    pub(super) fn bucket(&self, key: Key) -> BucketKey {
        BucketKey { key, class: 0, spec: self.spec }
    }
}

impl PendingAddress {
    /// The charges if the address is known. If the store does not answer, it is not.
    pub(super) async fn known(self) -> Option<Charges> {
        let is_known = self.reply.await.is_ok_and(|reply| reply.verdict.is_admitted());
        is_known.then_some(self.found)
    }
}

impl Rules {
    /// Whether the account is known to have signed in from there, as far as this gate knows.
    pub(super) fn knows(&self, address: &AccountAddress, now: Time) -> bool {
        self.addresses.as_ref().is_some_and(|sets| {
            let (bucket, tag) = (sets.bucket_of(address), address.tag());
            let peek = Op::PeekOnce { tokens: 1, tag };
            sets.buckets.in_memory().dry_run(&bucket, now, peek).verdict.is_admitted()
        })
    }

    /// The address that only the store may know, if that would change what the attempt is charged.
    fn unknown_address<'f>(&self, found: &'f Charges) -> Option<(&AddressSets, &'f AccountAddress)> {
        let sets = self.addresses.as_ref()?;
        let is_hidden = |limit: usize| self.policy.limits.get(limit).is_some_and(|limit| limit.is_hidden());
        let is_charged = found.charges.iter().any(|charge| is_hidden(charge.limit));
        let address = found.unsettled.address.as_ref().filter(|_| is_charged && !found.facts.is_owner)?;
        Some((sets, address))
    }
}

impl Engine {
    /// Whether the store has to be asked for the address of an attempt.
    pub(super) fn must_ask_for_address(&self, rules: &Rules, found: &Charges, now: Time) -> bool {
        let unknown = rules.unknown_address(found);
        unknown.is_some_and(|(sets, address)| {
            !self.store.has_fresh(&sets.buckets, &sets.bucket_of(address), now)
        })
    }

    /// Asks the store for the address of an attempt, if it alone may know it.
    pub(super) fn ask_for_address(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        found: &Charges,
        own: Time,
        now: Time,
    ) -> Result<Option<Box<PendingAddress>>, Unchargeable> {
        if !self.must_ask_for_address(rules, found, now) {
            return Ok(None);
        }
        let Some((sets, address)) = rules.unknown_address(found) else { return Ok(None) };
        let peek = Op::PeekOnce { tokens: 1, tag: address.tag() };
        let Some(reply) = self.store.ask(&sets.buckets, sets.bucket_of(address), peek) else {
            return Ok(None);
        };
        // Second steps have no addresses.
        let known = Remembered { is_known: &|_: &AccountAddress| true, ..Remembered::NOTHING };
        let mut found = rules.policy.charges_of(attempt, found.routes.clone(), &self.hasher, known, own)?;
        Self::raise_cost(rules, &mut found, false, now);
        Ok(Some(Box::new(PendingAddress { reply, found })))
    }

    /// Remembers an address after a success.
    pub(super) fn remember(&self, rules: &Rules, by: DecidedBy, address: &AccountAddress) {
        let Some(sets) = &rules.addresses else { return };
        let (bucket, see) = (sets.bucket_of(address), Op::TakeOnce { tokens: 1, tag: address.tag() });
        if sets.buckets.in_memory().dry_run(&bucket, self.time(), see).changed {
            self.store.apply(by, [(&sets.buckets, bucket, see)]);
        }
    }

    /// How many addresses an account is known from; takes nothing.
    pub(super) async fn count_addresses(
        &self,
        rules: &Rules,
        account: &Account,
    ) -> Result<Vec<KnownAddressCount>, Unavailable> {
        let Some(sets) = &rules.addresses else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (application, key) in rules.policy.address_sets_of(account, &self.hasher) {
            let (verdict, _) = self.store.inspect(&sets.buckets, sets.bucket(key), 1).await?;
            let known = MAX_ADDRESSES.saturating_sub(verdict.left);
            if known > 0 {
                found.push(KnownAddressCount { application, known, until: verdict.full_at });
            }
        }
        Ok(found)
    }

    /// Gives back what an attempt took as a stranger's.
    pub(super) fn give_back(
        &self,
        rules: &Rules,
        found: &Charges,
        (taken, by): &(CombinedVerdict, DecidedBy),
    ) {
        let both = found.charges.iter().zip(&taken.verdicts).filter(|_| taken.admitted);
        self.apply(rules, *by, both.map(|(charge, verdict)| (charge, Op::Refund(verdict.receipt))));
    }
}

/// Addresses of one account at most.
#[expect(clippy::cast_possible_truncation, reason = "sixteen")]
const MAX_ADDRESSES: u32 = Recent::MAX_TAGS as u32;

impl std::fmt::Debug for PendingAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingAddress")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Continuous, Recent, Span};
    use crate::engine::Decision;
    use crate::event::{Events, Outcome};
    use crate::policy::attempt::{AttemptBody, Client};
    use crate::policy::field::Field;
    use crate::policy::key::{KeyPart, PrefixLengths};
    use crate::policy::{ChargeOn, Limit, Route, RouteReading};
    use crate::time::Clock;

    const BURST: usize = 3;
    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// An account limit that refills after the test, and known addresses.
    fn engine() -> Engine {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(86_400), 3).unwrap());
        let limit =
            Limit { key: vec![KeyPart::User], charge_on: ChargeOn::Failures, ..Limit::new("account", spec) };
        let route = Route {
            reading: RouteReading { user: vec![Field::Form("log".into())], ..RouteReading::default() },
            limits: vec![0],
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        let recent = Recent::new(Span::from_secs(3600)).unwrap();
        let addresses = KnownAddresses { name: "addresses", prefixes: PrefixLengths::default(), recent };
        let policy = Policy::new(vec![route], vec![limit]).with_addresses(Some(addresses));
        Engine::new(policy, 1000, Clock::manual(NOW), Events::default()).unwrap()
    }

    /// Whether an attempt from there at alice's account was admitted; its outcome is this one.
    fn tries(engine: &Engine, client: Client, outcome: Outcome) -> bool {
        let rules = engine.rules();
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "",
            client,
            headers: &HeaderMap::new(),
            body: AttemptBody::Whole(b"log=alice"),
            descriptor: None,
            tls: None,
        };
        match engine.decide_in_memory(&rules, &attempt, engine.clock().now()).unwrap() {
            Decision::Admitted(reservation) => {
                reservation.settle(engine, &rules, outcome);
                true
            }
            _ => false,
        }
    }

    fn client(number: u8) -> Client {
        Client::from_ip([192, 0, 2, number].into())
    }

    proptest! {
        /// Whatever is tried from wherever, guesses beyond the strangers' budget come from addresses of successes alone,
        /// each with one budget.
        #[test]
        fn no_more_guesses_pass_than_strangers_and_known_addresses_have(
            attempts in prop::collection::vec((0_u8..25, 0_u8..4), 1..400),
        ) {
            let engine = engine();
            let (mut signed_in, mut guessed) = (Vec::new(), [0; 25]);
            for (number, right) in attempts {
                let outcome = if right == 0 { Outcome::Success } else { Outcome::Failure };
                if tries(&engine, client(number), outcome) {
                    match outcome {
                        Outcome::Success => signed_in.push(number),
                        _ => guessed[usize::from(number)] += 1,
                    }
                }
            }
            signed_in.sort_unstable();
            signed_in.dedup();
            prop_assert!(guessed.iter().all(|&guesses| guesses <= 2 * BURST), "strangers', then its own");
            prop_assert!(guessed.iter().sum::<usize>() <= BURST * (1 + signed_in.len()), "{guessed:?}");
        }
    }

    #[test]
    fn an_address_is_a_stranger_again_when_its_time_is_over() {
        let engine = engine();
        assert!(tries(&engine, client(1), Outcome::Success));
        (0..5).for_each(|_| _ = tries(&engine, client(2), Outcome::Failure));
        engine.clock().set(NOW.after(Span::from_secs(3540)));
        assert!(tries(&engine, client(1), Outcome::Neutral));
        engine.clock().set(NOW.after(Span::from_secs(3600)));
        assert!(!tries(&engine, client(1), Outcome::Success));
    }
}
