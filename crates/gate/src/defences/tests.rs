//! Defences in an engine with buckets in memory.

use std::collections::HashMap;

use http::{HeaderMap, Method};
use proptest::prelude::*;

use super::bait::Bait;
use super::quick::{LastFailures, Quick};
use crate::bucket::{Continuous, Spec};
use crate::engine::{Decision, Engine};
use crate::event::Events;
use crate::policy::account::Account;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::field::Field;
use crate::policy::fingerprint::Fingerprint;
use crate::policy::key::{KeyHasher, KeyPart, PrefixLengths};
use crate::policy::outcome::Outcome;
use crate::policy::{ChargeOn, Limit, Policy, Route, RouteDefences, RouteReading};
use crate::time::{Clock, Span, Time};

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
    let (within, prefixes) = (Span::from_millis(WITHIN), PrefixLengths::default());
    let mut defences = RouteDefences::default();
    defences.add(Bait { accounts, weight: 4 });
    defences.add(Quick { within, weight: 3, prefixes, last_failures: LastFailures::default() });
    let route = Route {
        reading: RouteReading { user: vec![Field::Form("log".into())], ..RouteReading::default() },
        limits: vec![0, 1],
        defences,
        ..Route::new("login", vec!["POST /login".parse().unwrap()])
    };
    let policy = Policy::new(vec![route], vec![address, account]);
    let engine = Engine::new(policy, 1000, Clock::manual(NOW), Events::default()).unwrap();
    // With this seed the three clients have separate places in the table of failures.
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
