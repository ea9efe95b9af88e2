//! The clients that accounts signed in from: looked up before an attempt is charged, remembered after a success.
//!
//! An [`OwnerMemory`] says what a client is known by. In memory the look-up is immediate. Over a shared store the engine uses what this
//! gate last saw there. If it saw nothing, or longer ago than a second, it asks the store for the client and takes the tokens at the same
//! time. If the client turns out to be remembered, it gives these tokens back and charges the attempt again, as one of the owner.

use std::sync::Arc;

use super::{Engine, Rules};
use crate::bucket::{Key, Op, Recent, Spec};
use crate::policy::account::Account;
use crate::policy::attempt::Attempt;
use crate::policy::{Charges, Policy, Remembered, RememberedClient, Unchargeable};
use crate::store::memory::{BucketKey, CombinedVerdict, TooLarge};
use crate::store::shared::{ReplyFuture, Unavailable};
use crate::store::{DecidedBy, LimitBuckets, Store};
use crate::time::Time;

/// The sets of all accounts.
#[derive(Debug, Clone)]
pub(super) struct RememberedSets {
    /// In messages of the store and in snapshots.
    pub(super) name: &'static str,
    pub(super) buckets: LimitBuckets,
    pub(super) spec: Spec,
}

/// The clients that are remembered for an account of one application.
#[derive(Debug, Clone)]
pub struct RememberedCount {
    /// The application: the name of its route, or of its first one.
    pub application: Arc<str>,
    /// How many there are.
    pub known: u32,
    /// When the last of them is forgotten.
    pub until: Time,
}

/// An attempt whose client the store may remember.
pub(super) struct PendingClient {
    reply: ReplyFuture,
    /// The charges if it is.
    found: Charges,
}

impl RememberedSets {
    /// Empty sets, if the policy has any.
    pub(super) fn of(policy: &Policy, store: &Store) -> Result<Option<Self>, TooLarge> {
        let Some(memory) = &policy.owner_memory else { return Ok(None) };
        let (name, spec) = (memory.name(), Spec::Recent(memory.recent()));
        Ok(Some(Self { name, buckets: store.limit(&name.into(), &[spec])?, spec }))
    }

    /// The sets under new rules: the same, with another time to live if that changed.
    pub(super) fn under(
        former: Option<&Self>,
        policy: &Policy,
        store: &Store,
        now: Time,
    ) -> Result<Option<Self>, TooLarge> {
        match (former, &policy.owner_memory) {
            (Some(former), Some(memory)) => {
                former.clone().with_spec(Spec::Recent(memory.recent()), store, now).map(Some)
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

    fn bucket_of(&self, client: &RememberedClient) -> BucketKey {
        self.bucket(client.account)
    }

    /// The set of this key.
    pub(super) fn bucket(&self, key: Key) -> BucketKey {
        BucketKey { key, class: 0, spec: self.spec }
    }
}

impl PendingClient {
    /// The charges if the client is remembered. If the store does not answer, it is not.
    pub(super) async fn remembered(self) -> Option<Charges> {
        let is_remembered = self.reply.await.is_ok_and(|reply| reply.verdict.is_admitted());
        is_remembered.then_some(self.found)
    }
}

impl Rules {
    /// Whether the account signed in from this client, as far as this gate knows.
    pub(super) fn remembers(&self, client: &RememberedClient, now: Time) -> bool {
        self.remembered.as_ref().is_some_and(|sets| {
            let (bucket, tag) = (sets.bucket_of(client), client.tag());
            let peek = Op::PeekOnce { tokens: 1, tag };
            sets.buckets.in_memory().dry_run(&bucket, now, peek).verdict.is_admitted()
        })
    }

    /// The client that only the store may remember, if that would change what the attempt is charged.
    fn unknown_client<'f>(&self, found: &'f Charges) -> Option<(&RememberedSets, &'f RememberedClient)> {
        let sets = self.remembered.as_ref()?;
        let is_hidden = |limit: usize| self.policy.limits.get(limit).is_some_and(|limit| limit.is_hidden());
        let is_charged = found.charges.iter().any(|charge| is_hidden(charge.limit));
        let client = found.unsettled.client.as_ref().filter(|_| is_charged && !found.facts.is_owner)?;
        Some((sets, client))
    }
}

impl Engine {
    /// Whether the store has to be asked for the client of an attempt.
    pub(super) fn must_ask_for_client(&self, rules: &Rules, found: &Charges, now: Time) -> bool {
        let unknown = rules.unknown_client(found);
        unknown
            .is_some_and(|(sets, client)| !self.store.has_fresh(&sets.buckets, &sets.bucket_of(client), now))
    }

    /// Asks the store for the client of an attempt, if it alone may remember it.
    pub(super) fn ask_for_client(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        found: &Charges,
        own: Time,
        now: Time,
    ) -> Result<Option<Box<PendingClient>>, Unchargeable> {
        if !self.must_ask_for_client(rules, found, now) {
            return Ok(None);
        }
        let Some((sets, client)) = rules.unknown_client(found) else { return Ok(None) };
        let peek = Op::PeekOnce { tokens: 1, tag: client.tag() };
        let Some(reply) = self.store.ask(&sets.buckets, sets.bucket_of(client), peek) else {
            return Ok(None);
        };
        // Of second steps no client is remembered.
        let known = Remembered { is_known: &|_: &RememberedClient| true, ..Remembered::NOTHING };
        let mut found = rules.policy.charges_of(attempt, found.routes.clone(), &self.hasher, known, own)?;
        Self::raise_cost(rules, &mut found, false, now);
        Ok(Some(Box::new(PendingClient { reply, found })))
    }

    /// Remembers a client after a success.
    pub(super) fn remember(&self, rules: &Rules, by: DecidedBy, client: &RememberedClient) {
        let Some(sets) = &rules.remembered else { return };
        let (bucket, see) = (sets.bucket_of(client), Op::TakeOnce { tokens: 1, tag: client.tag() });
        if sets.buckets.in_memory().dry_run(&bucket, self.time(), see).changed {
            self.store.apply(by, [(&sets.buckets, bucket, see)]);
        }
    }

    /// How many clients are remembered for an account; takes nothing.
    pub(super) async fn count_remembered(
        &self,
        rules: &Rules,
        account: &Account,
    ) -> Result<Vec<RememberedCount>, Unavailable> {
        let Some(sets) = &rules.remembered else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (application, key) in rules.policy.remembered_sets_of(account, &self.hasher) {
            let (verdict, _) = self.store.inspect(&sets.buckets, sets.bucket(key), 1).await?;
            let known = MAX_REMEMBERED.saturating_sub(verdict.left);
            if known > 0 {
                found.push(RememberedCount { application, known, until: verdict.full_at });
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

/// Clients of one account at most.
#[expect(clippy::cast_possible_truncation, reason = "sixteen")]
const MAX_REMEMBERED: u32 = Recent::MAX_TAGS as u32;

impl std::fmt::Debug for PendingClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingClient")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Continuous, Recent, Span};
    use crate::engine::Decision;
    use crate::event::Events;
    use crate::policy::attempt::{AttemptBody, Client};
    use crate::policy::field::Field;
    use crate::policy::key::{KeyHasher, KeyPart, PrefixLengths};
    use crate::policy::outcome::Outcome;
    use crate::policy::{ChargeOn, Limit, OwnerMemory, Route, RouteReading};
    use crate::time::Clock;

    const BURST: usize = 3;
    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// Each address is a client, for an hour.
    #[derive(Debug)]
    struct ByAddress;

    impl OwnerMemory for ByAddress {
        fn name(&self) -> &'static str {
            "addresses"
        }

        fn is_same(&self, _: &dyn OwnerMemory) -> bool {
            true
        }

        fn recent(&self) -> Recent {
            Recent::new(Span::from_secs(3600)).unwrap()
        }

        fn client(
            &self,
            hasher: &KeyHasher,
            client: Client,
            application: &str,
            account: &Account,
        ) -> Option<RememberedClient> {
            Some(hasher.client_by_address(PrefixLengths::default(), client, application, account))
        }

        fn describe(&self) -> String {
            String::new()
        }
    }

    /// An account limit that refills after the test, and remembered clients.
    fn engine() -> Engine {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(86_400), 3).unwrap());
        let limit =
            Limit { key: vec![KeyPart::User], charge_on: ChargeOn::Failures, ..Limit::new("account", spec) };
        let route = Route {
            reading: RouteReading { user: vec![Field::Form("log".into())], ..RouteReading::default() },
            limits: vec![0],
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        let policy = Policy::new(vec![route], vec![limit]).with_owner_memory(Some(Arc::new(ByAddress)));
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
