//! Attempts that clients earn by proofs of work: when one is offered, how much work it takes, and what it gives.
//!
//! A proof puts one token into each address bucket that refuses. A second bucket limits how many tokens each of these may get, so that
//! an owner of many addresses earns no more for the network that they share. One more bucket for each proof accepts it only once.
//! `policy` defines a proof; `proxy` offers and receives it.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::{Engine, LimitStatus, Refusal, Rules};
use crate::bucket::{Effect, Key, Spec};
use crate::event::{ChallengeResult, Event};
use crate::policy::attempt::Attempt;
use crate::policy::challenge::{Challenge, ChallengeRule, Solver, WorkProof};
use crate::policy::{Charge, Policy};
use crate::store::memory::{BucketKey, TooLarge, Withdrawal};
use crate::store::{BucketChange, LimitBuckets, LimitWithdrawal, Store, TakeState};
use crate::time::Time;

/// The buckets of what was earned, and of proofs that were accepted.
#[derive(Debug, Clone)]
pub(super) struct EarnedAttempts {
    rule: ChallengeRule,
    buckets: LimitBuckets,
}

/// A proof that gives nothing: the attempt is refused as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NothingEarned;

impl EarnedAttempts {
    /// The buckets for the policy's challenges, the same as before if they did not change.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub(super) fn of(
        policy: &Policy,
        before: Option<&Self>,
        store: &Store,
        now: Time,
    ) -> Result<Option<Self>, TooLarge> {
        let Some(rule) = policy.challenge else { return Ok(None) };
        let specs = |rule: ChallengeRule| [rule.rate, rule.once];
        let buckets = match before {
            None => store.limit(&NAME.into(), &specs(rule))?,
            Some(before) if before.rule == rule => before.buckets.clone(),
            Some(before) => {
                let kept = vec![Some((0, before.rule.rate)), Some((1, before.rule.once))];
                store.changed(&before.buckets, (&NAME.into(), &specs(rule)), kept, now)?
            }
        };
        Ok(Some(Self { rule, buckets }))
    }

    fn withdrawal(&self, class: usize, spec: Spec, key: Key) -> LimitWithdrawal<'_> {
        let (bucket, effect) = (BucketKey { key, class, spec }, Effect::Enforce { owner: class });
        Withdrawal { buckets: &self.buckets, bucket, cost: 1, tag: None, effect }
    }

    fn of_bucket(&self, engine: &Engine, charge: &Charge) -> LimitWithdrawal<'_> {
        self.withdrawal(0, self.rule.rate, engine.hasher.of_earned(charge.key))
    }

    fn of_proof(&self, proof: Key) -> LimitWithdrawal<'_> {
        self.withdrawal(1, self.rule.once, proof)
    }
}

impl Engine {
    /// The challenge by which a client could earn the attempt that it was refused; `None` if it cannot. `load` is the
    /// number of refusals each second.
    pub fn challenge(
        &self,
        rules: &Rules,
        refusal: &Refusal,
        client: IpAddr,
        load: u32,
        now: Time,
    ) -> Option<Challenge> {
        let earned = rules.earned.as_ref()?;
        let route = rules.policy.routes.get(refusal.route)?;
        let may_be_lifted = refusal.violated().all(|status| is_lifted(rules, status));
        // A proof comes without the body that chose the route.
        if refusal.attempt.facts.is_alarmed || route.is_conditional() || !may_be_lifted {
            return None;
        }
        let mut earned_before = 0;
        for status in refusal.violated() {
            let Withdrawal { buckets, bucket, .. } = earned.of_bucket(self, &status.charge);
            let left = buckets.in_memory().peek(&bucket, self.store.time(now), 1).left;
            earned_before = earned_before.max(bucket.spec.burst().saturating_sub(left));
            if left == 0 {
                return None;
            }
        }
        self.events.emit(&Event::Challenge(ChallengeResult::Offered));
        let solver = Solver { client, route: &route.name };
        Some(Challenge::new(&self.hasher, &solver, zero_bits(earned_before, load), now))
    }

    /// Puts a token into each bucket that refuses this attempt, if the proof is one of this client and route that was not
    /// used before. An attempt that no bucket refuses any more costs no proof.
    ///
    /// # Errors
    /// [`NothingEarned`]; no token was added anywhere.
    pub async fn redeem(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        client: IpAddr,
        proof: &str,
    ) -> Result<(), NothingEarned> {
        let redeemed = self.try_redeem(rules, attempt, client, proof).await;
        let result = if redeemed.is_some() { ChallengeResult::Solved } else { ChallengeResult::Refused };
        self.events.emit(&Event::Challenge(result));
        redeemed.ok_or(NothingEarned)
    }

    async fn try_redeem(
        &self,
        rules: &Rules,
        attempt: &Attempt<'_>,
        client: IpAddr,
        proof: &str,
    ) -> Option<()> {
        let (earned, now) = (rules.earned.as_ref()?, self.clock().now());
        let routes = rules.policy.routes_of(attempt);
        let route = &rules.policy.routes.get(*routes.first()?)?.name;
        let proof =
            WorkProof::parse(proof).ok()?.verify(&self.hasher, &Solver { client, route }, now).ok()?;
        let at_store = self.store.time(now);
        if rules.banned_until(attempt.client, at_store).is_some() {
            return None;
        }
        let mut found = self.charges_of(rules, attempt, routes, now, at_store).ok()?;
        Self::raise_cost(rules, &mut found, true, at_store);
        if found.facts.is_alarmed {
            return None;
        }
        let refusing = self.lifted_by_proof(rules, &found.charges).await?;
        if refusing.is_empty() {
            return Some(());
        }
        let mut withdrawals: SmallVec<[_; 4]> = SmallVec::from_iter([earned.of_proof(proof)]);
        withdrawals.extend(refusing.iter().map(|charge| earned.of_bucket(self, charge)));
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

    /// The charges whose buckets refuse; `None` if a proof lifts one of them not, as one that an operator banned.
    async fn lifted_by_proof(&self, rules: &Rules, charges: &[Charge]) -> Option<SmallVec<[Charge; 2]>> {
        let mut refusing = SmallVec::new();
        for charge in charges {
            let Withdrawal { buckets, bucket, cost, .. } = rules.withdrawal(charge);
            let (verdict, own) = self.store.inspect(buckets, bucket, cost).await.ok()?;
            let status = LimitStatus { charge: *charge, verdict };
            match status.refuses() {
                false => {}
                true if own.is_none() && is_lifted(rules, &status) => refusing.push(*charge),
                true => return None,
            }
        }
        Some(refusing)
    }
}

/// Whether one token is what the attempt lacks under this limit, and a proof may earn it.
fn is_lifted(rules: &Rules, LimitStatus { charge, .. }: &LimitStatus) -> bool {
    charge.cost == 1 && !charge.spec.has_debt() && ChallengeRule::lifts(&rules.policy.limits[charge.limit])
}

/// Each earned attempt doubles the work for the next one, and so does each fourfold of the load.
fn zero_bits(earned_before: u32, load: u32) -> u32 {
    let of_load =
        load.checked_div(BUSY).and_then(u32::checked_ilog2).map_or(0, |doublings| 1 + doublings / 2);
    BASE_BITS.saturating_add(earned_before).saturating_add(of_load).min(MAX_BITS)
}

/// Half a million hashes on average: about two seconds of a phone, half a second of a desktop computer.
const BASE_BITS: u32 = 19;
/// Eight million hashes on average: half a minute of a phone, which a challenge outlives.
const MAX_BITS: u32 = 23;
/// Refusals each second from which the work grows.
const BUSY: u32 = 64;
/// The buckets' name; a limit of the file is not called so.
const NAME: &str = "refuse.challenge";

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::{Context, Poll, Waker};

    use http::{HeaderMap, Method};

    use super::*;
    use crate::bucket::{Continuous, Span};
    use crate::engine::Decision;
    use crate::event::Events;
    use crate::policy::attempt::{AttemptBody, Client};
    use crate::policy::key::PrefixLengths;
    use crate::policy::{AttemptNote, Defence, Limit, ReadAttempt, Route, RouteDefences};
    use crate::time::Clock;

    const PER_HOUR: Span = Span::from_secs(3600);

    /// One attempt an hour from an address, two from a network of 256; five may be earned.
    fn engine(defences: RouteDefences) -> Engine {
        let limit = |name, burst, ipv4| Limit {
            prefixes: PrefixLengths { ipv4, ipv6: 64 },
            ..Limit::new(name, Spec::Continuous(Continuous::new(burst, PER_HOUR, burst).unwrap()))
        };
        let patterns = vec!["POST /login".parse().unwrap()];
        let route = Route { limits: vec![0, 1], defences, ..Route::new("login", patterns) };
        let rule = ChallengeRule::new(Continuous::new(5, PER_HOUR, 5).unwrap()).unwrap();
        let policy = Policy::new(vec![route], vec![limit("address", 1, 32), limit("net", 2, 24)]);
        let clock = Clock::manual(Time::from_nanos(1_800_000_000_000_000_000));
        Engine::new(policy.with_challenge(Some(rule)), 1000, clock, Events::default()).unwrap()
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn with_attempt<T>(last: u8, act: impl FnOnce(&Attempt<'_>) -> T) -> T {
        act(&Attempt {
            descriptor: None,
            tls: None,
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "",
            client: Client::from_ip(ip(last)),
            headers: &HeaderMap::new(),
            body: AttemptBody::Whole(&[]),
        })
    }

    fn is_admitted(engine: &Engine, last: u8) -> bool {
        let now = engine.clock().now();
        let decided = with_attempt(last, |attempt| engine.decide_in_memory(&engine.rules(), attempt, now));
        matches!(decided, Ok(Decision::Admitted(_)))
    }

    fn refusal(engine: &Engine, last: u8) -> Refusal {
        let now = engine.clock().now();
        let decided = with_attempt(last, |attempt| engine.decide_in_memory(&engine.rules(), attempt, now));
        let Ok(Decision::Refused(refusal)) = decided else { panic!("admitted") };
        refusal
    }

    /// A solved challenge of this client: one of several for this minute, by the work that it takes.
    fn proof(engine: &Engine, last: u8, bits: u32) -> String {
        let (solver, now) = (Solver { client: ip(last), route: "login" }, engine.clock().now());
        let challenge = Challenge::new(&engine.hasher, &solver, bits, now);
        let mut proofs = (0..100_000).map(|number| format!("{challenge}-{number}"));
        let verified =
            |proof: &String| WorkProof::parse(proof).unwrap().verify(&engine.hasher, &solver, now).is_ok();
        proofs.find(verified).unwrap()
    }

    fn redeem(engine: &Engine, last: u8, proof: &str) -> bool {
        let rules = engine.rules();
        let redeemed = with_attempt(last, |attempt| {
            let redeemed = pin!(engine.redeem(&rules, attempt, ip(last), proof));
            redeemed.poll(&mut Context::from_waker(Waker::noop()))
        });
        redeemed == Poll::Ready(Ok(()))
    }

    /// L18: many cores find many proofs, and earn what the file allows.
    #[test]
    fn eight_threads_with_any_number_of_proofs_earn_at_most_the_rate() {
        let engine = engine(RouteDefences::default());
        assert!(is_admitted(&engine, 1) && !is_admitted(&engine, 1));
        let admitted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (engine, admitted) = (&engine, &admitted);
                scope.spawn(move || {
                    for bits in (thread % 4)..8 {
                        let proof = proof(engine, 1, bits);
                        redeem(engine, 1, &proof);
                        admitted.fetch_add(u32::from(is_admitted(engine, 1)), Relaxed);
                    }
                });
            }
        });
        assert!((1..=5).contains(&admitted.load(Relaxed)), "{admitted:?} of 5");
    }

    /// L18: neighbours with an address each earn no more for the network that they share.
    #[test]
    fn an_owner_of_many_addresses_earns_once_for_the_network() {
        let engine = engine(RouteDefences::default());
        assert!(is_admitted(&engine, 1) && is_admitted(&engine, 2) && !is_admitted(&engine, 3));
        let earn = |last: u8| redeem(&engine, last, &proof(&engine, last, 1)) && is_admitted(&engine, last);
        assert_eq!((3..100).filter(|last| earn(*last)).count(), 5);
    }

    #[test]
    fn a_proof_is_used_once_and_not_at_all_while_nothing_refuses() {
        let engine = engine(RouteDefences::default());
        let proof = proof(&engine, 1, 3);
        assert!(redeem(&engine, 1, &proof), "nothing refuses yet");
        assert!(is_admitted(&engine, 1) && !is_admitted(&engine, 1));
        assert!(redeem(&engine, 1, &proof) && is_admitted(&engine, 1) && !is_admitted(&engine, 1));
        assert!(!redeem(&engine, 1, &proof));
    }

    #[test]
    fn a_banned_client_earns_nothing() {
        let engine = engine(RouteDefences::default());
        let bucket = with_attempt(1, |attempt| engine.peek(&engine.rules(), attempt)).unwrap().0.charges[0];
        assert!(is_admitted(&engine, 1));
        let now = engine.clock().now();
        let ban = crate::bucket::Own::ban(now, now.after(PER_HOUR)).unwrap();
        let rules = engine.rules();
        let Withdrawal { buckets, bucket, .. } = rules.withdrawal(&bucket);
        buckets.in_memory().ban(&bucket, ban, now).unwrap();
        assert!(!redeem(&engine, 1, &proof(&engine, 1, 1)));
    }

    #[test]
    fn a_challenge_is_offered_as_long_as_something_may_be_earned_and_grows() {
        let engine = engine(RouteDefences::default());
        assert!(is_admitted(&engine, 1));
        let now = engine.clock().now();
        let offered = || {
            let challenge = engine.challenge(&engine.rules(), &refusal(&engine, 1), ip(1), 0, now);
            challenge.map(|challenge| challenge.to_string().split('-').nth(1).unwrap().to_owned())
        };
        for bits in 0..5 {
            assert_eq!(offered().unwrap(), (19 + bits.min(4)).to_string());
            assert!(redeem(&engine, 1, &proof(&engine, 1, bits)) && is_admitted(&engine, 1));
        }
        assert_eq!(offered(), None);
    }

    #[test]
    fn under_attack_nothing_is_offered_and_nothing_earned() {
        #[derive(Debug)]
        struct Alarmed;

        impl Defence for Alarmed {
            fn name(&self) -> &'static str {
                "alarmed"
            }

            fn describe(&self) -> Option<String> {
                Some("always".to_owned())
            }

            fn note(&self, _: &ReadAttempt<'_>) -> Option<AttemptNote> {
                Some(AttemptNote(0, 0))
            }

            fn strangers_factor(&self, _: AttemptNote, _: Time) -> Option<u32> {
                Some(1)
            }
        }

        let mut defences = RouteDefences::default();
        defences.add(Alarmed);
        let engine = engine(defences);
        assert!(is_admitted(&engine, 1));
        let now = engine.clock().now();
        assert!(engine.challenge(&engine.rules(), &refusal(&engine, 1), ip(1), 0, now).is_none());
        assert!(!redeem(&engine, 1, &proof(&engine, 1, 1)));
    }

    #[test]
    fn the_work_grows_with_what_was_earned_and_with_the_load_up_to_a_bound() {
        let table = [
            (0, 0, 19),
            (0, 63, 19),
            (0, 64, 20),
            (0, 255, 20),
            (0, 256, 21),
            (1, 0, 20),
            (3, 64, 23),
            (9, 9_999, 23),
        ];
        for (earned, load, bits) in table {
            assert_eq!(zero_bits(earned, load), bits, "{earned} earned, {load} a second");
        }
        assert_eq!(zero_bits(u32::MAX - 30, u32::MAX), MAX_BITS);
    }
}
