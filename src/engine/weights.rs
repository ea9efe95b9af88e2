//! Attempts that count as several: failures with a weight, attempts at bait accounts, and failures in quick succession.
//!
//! `policy` finds the weight of an attempt. The additional tokens are taken after the attempt was admitted, as far as the bucket has
//! them. The times of quick failures exist only in the memory of this process, in a table of fixed size: one client may replace another
//! there, which then pays fewer tokens.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Engine, LimitStatus, LimitStatuses, Rules};
use crate::bucket::Op;
use crate::policy::{Charge, ChargeOn, Charges, LimitKind, QuickFailure, Unit, is_charged_for_suspicion};
use crate::store::DecidedBy;
use crate::time::Time;

/// When clients failed last. Nothing is allocated before the first failure of a route that asks.
#[derive(Debug, Default)]
pub(super) struct LastFailures(OnceLock<Box<[AtomicU64]>>);

/// As how many one attempt counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weight {
    /// Where failures are counted.
    Failure(u32),
    /// Where its client's address pays for what no person does.
    Suspicion(u32),
}

impl Engine {
    /// Takes the additional tokens of an admitted attempt at bait.
    pub(super) fn charge_bait(
        &self,
        rules: &Rules,
        found: &Charges,
        (statuses, decided_by): (&LimitStatuses, DecidedBy),
    ) {
        if let Some(weight) = found.bait_weight {
            let extra = statuses.iter().flat_map(|status| extra(status, rules, &[Weight::Suspicion(weight)]));
            self.apply(rules, decided_by, extra);
        }
    }

    /// The weight of a failure for what no person does; it came at this time.
    pub(super) fn weight_of_failure(&self, failure: Option<&QuickFailure>, came: Time) -> u32 {
        let quick = failure.filter(|failure| self.last_failures.note(failure, came, self.time()));
        quick.map_or(1, |failure| failure.rule.weight)
    }
}

impl LastFailures {
    /// Remembers a failure, and says whether its attempt came too soon after another one.
    fn note(&self, QuickFailure { client, rule }: &QuickFailure, came: Time, failed: Time) -> bool {
        let slots = self.0.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let Some(slot) = usize::try_from(client % SLOTS).ok().and_then(|slot| slots.get(slot)) else {
            return false;
        };
        let millis = |time: Time| time.as_nanos() / NANOS_PER_MILLI % MILLIS;
        // The upper half of the hash tells the clients of a slot apart.
        let last = slot.swap(client / MILLIS * MILLIS + millis(failed), Ordering::Relaxed);
        let apart = (last % MILLIS).abs_diff(millis(came));
        let is_soon = apart.min(MILLIS - apart) <= rule.within.as_nanos() / NANOS_PER_MILLI;
        last / MILLIS == client / MILLIS && is_soon
    }
}

/// The additional tokens of an attempt with these weights, one failure at a time: as much as is there.
pub(super) fn extra<'s>(
    LimitStatus { charge, .. }: &'s LimitStatus,
    rules: &Rules,
    weights: &[Weight],
) -> impl Iterator<Item = (&'s Charge, Op)> + use<'s> {
    let limit = &rules.policy.limits[charge.limit];
    let counts = |weight: &Weight| match *weight {
        Weight::Failure(weight)
            if limit.kind == LimitKind::Rate
                && limit.charge_on == ChargeOn::Failures
                && limit.unit == Unit::Attempts =>
        {
            weight
        }
        Weight::Suspicion(weight) if is_charged_for_suspicion(limit) => weight,
        _ => 1,
    };
    let times = weights.iter().map(counts).max().unwrap_or(1).saturating_sub(1);
    std::iter::repeat_with(move || (charge, Op::Take(charge.cost))).take(usize::try_from(times).unwrap_or(0))
}

/// A power of two: 512 KiB.
const SLOTS: u64 = 65_536;
/// The lower half of a slot, 49 days.
const MILLIS: u64 = 1 << 32;
const NANOS_PER_MILLI: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Continuous, Span, Spec};
    use crate::engine::Decision;
    use crate::event::{Events, Outcome};
    use crate::policy::account::Account;
    use crate::policy::attempt::{Attempt, AttemptBody, Client};
    use crate::policy::field::Field;
    use crate::policy::fingerprint::Fingerprint;
    use crate::policy::key::{KeyHasher, KeyPart, PrefixLengths};
    use crate::policy::{Bait, Limit, Policy, QuickFailures, Route};
    use crate::time::Clock;

    const BURST: u32 = 12;
    const WITHIN: u64 = 300;
    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    /// Buckets that refill after the test: for each address, and for each account.
    fn engine(charge_on: ChargeOn) -> Engine {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(86_400), BURST).unwrap());
        let address = Limit { charge_on, ..Limit::new("address", spec) };
        let plenty = Spec::Continuous(Continuous::new(1, Span::from_secs(86_400), 10_000).unwrap());
        let account = Limit { key: vec![KeyPart::User], ..Limit::new("account", plenty) };
        let accounts = [Fingerprint::of_account(&Account::fold(b"admin"))].into();
        let quick = QuickFailures {
            within: Span::from_millis(WITHIN),
            weight: 3,
            prefixes: PrefixLengths::default(),
        };
        let route = Route {
            limits: vec![0, 1],
            user: vec![Field::Form("log".into())],
            bait: Some(Box::new(Bait { accounts, weight: 4 })),
            quick: Some(quick),
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        let policy = Policy::new(vec![route], vec![address, account]);
        let engine = Engine::new(policy, 1000, Clock::manual(NOW), Events::default()).unwrap();
        // Under which each of the three clients has its own place in the table of failures.
        engine.with_hasher(KeyHasher::seeded(1))
    }

    fn tries(engine: &Engine, client: u8, name: &str, outcome: Outcome) -> bool {
        let (rules, body) = (engine.rules(), format!("log={name}"));
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "",
            client: Client::from_ip([192, 0, 2, client].into()),
            headers: &HeaderMap::new(),
            body: AttemptBody::Whole(body.as_bytes()),
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

    proptest! {
        /// Each client has its tokens and no more, and pays for bait and haste as far as it has any.
        #[test]
        fn an_address_pays_as_much_as_the_weights_say_and_never_gets_more_than_its_bucket_holds(
            attempts in prop::collection::vec((0_u8..3, any::<bool>(), 0_u8..3, 0_u64..500), 1..80),
            counts_failures in any::<bool>(),
        ) {
            let engine = engine(if counts_failures { ChargeOn::Failures } else { ChargeOn::Attempts });
            let (mut left, mut failed, mut now) = (HashMap::new(), HashMap::new(), 0);
            for (client, is_bait, kind, pause) in attempts {
                now += pause;
                engine.clock().set(NOW.after(Span::from_millis(now)));
                let name = if is_bait { "Admin" } else { "alice" };
                let outcome = [Outcome::Failure, Outcome::Success, Outcome::Failure][usize::from(kind)];
                let left: &mut u32 = left.entry(client).or_insert(BURST);
                prop_assert_eq!(tries(&engine, client, name, outcome), *left > 0);
                if *left == 0 {
                    continue;
                }
                *left = left.saturating_sub(if is_bait { 4 } else { 1 });
                match outcome {
                    Outcome::Failure => {
                        let last = failed.insert(client, now);
                        let is_quick = last.is_some_and(|last| now - last <= WITHIN);
                        *left = left.saturating_sub(if is_quick { 2 } else { 0 });
                    }
                    _ if counts_failures => *left += 1,
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_table_tells_clients_of_one_slot_apart_and_works_where_its_times_begin_anew() {
        let rule = QuickFailures {
            within: Span::from_millis(WITHIN),
            weight: 3,
            prefixes: PrefixLengths::default(),
        };
        let failures = LastFailures::default();
        let failure = |client: u64| QuickFailure { client: client + MILLIS, rule };
        let at = |millis: u64| Time::from_nanos(millis * NANOS_PER_MILLI);
        let border = 7 * MILLIS;
        assert!(!failures.note(&failure(5), at(border - 100), at(border - 100)));
        assert!(failures.note(&failure(5), at(border + 100), at(border + 100)));
        assert!(!failures.note(&failure(5 + MILLIS), at(border + 150), at(border + 150)), "another client");
        assert!(!failures.note(&failure(5), at(border + 200), at(border + 200)), "which took the place");
        assert!(!failures.note(&failure(5), at(border + 501), at(border + 501)), "later");
        assert!(
            failures.note(&failure(5), at(border + 400), at(border + 600)),
            "came before the last failed"
        );
    }
}
