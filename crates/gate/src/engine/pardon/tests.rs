//! By a pardon that asks for nothing, so that only what the engine gives is bounded.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::bucket::{Continuous, Span};
use crate::engine::Decision;
use crate::event::Events;
use crate::policy::attempt::{AttemptBody, Client};
use crate::policy::key::{KeyHasher, PrefixLengths};
use crate::policy::outcome::Outcome;
use crate::policy::{AttemptNote, Defence, Limit, ReadAttempt, Route, RouteDefences};
use crate::time::Clock;

const PER_HOUR: Span = Span::from_secs(3600);
/// Of Fibonacci hashing: the odd number next to 2^128 divided by the golden ratio.
const SPREAD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;

/// Asks for nothing but the client's own address.
#[derive(Debug)]
struct ForNothing;

impl Pardon for ForNothing {
    fn name(&self) -> &'static str {
        "refuse.nothing"
    }

    fn rate(&self) -> Spec {
        Spec::Continuous(Continuous::new(5, PER_HOUR, 5).unwrap())
    }

    fn once(&self) -> Spec {
        Spec::Continuous(Continuous::new(1, PER_HOUR, 1).unwrap())
    }

    fn lifts(&self, _: &Limit) -> bool {
        true
    }

    fn demand(&self) -> Option<HeaderName> {
        Some(HeaderName::from_static("x-earn"))
    }

    fn offer(&self, _: &KeyHasher, _: &OfferRecipient<'_>, so_far: &GivenSoFar<'_>, _: Time) -> Offer {
        Offer { task: so_far.tokens.to_string(), pause: None }
    }

    fn redeem(&self, _: &KeyHasher, of: &OfferRecipient<'_>, voucher: &str, _: Time) -> Option<Key> {
        let (last, number) = voucher.split_once('-')?;
        let (last, number): (u8, u128) = (last.parse().ok()?, number.parse().ok()?);
        // Spread over all lines of the table, as keys of real vouchers are: five of one line would evict each other.
        (of.client == ip(last)).then_some(Key((number << 8 | u128::from(last)).wrapping_mul(SPREAD)))
    }

    fn describe(&self) -> &'static str {
        ""
    }

    fn exception(&self) -> &'static str {
        ""
    }
}

/// One attempt an hour from an address, two from a network of 256; five may be given.
fn engine(defences: RouteDefences) -> Engine {
    let limit = |name, burst, ipv4| Limit {
        prefixes: PrefixLengths { ipv4, ipv6: 64 },
        ..Limit::new(name, Spec::Continuous(Continuous::new(burst, PER_HOUR, burst).unwrap()))
    };
    engine_of(defences, [limit("address", 1, 32), limit("net", 2, 24)])
}

fn engine_of(defences: RouteDefences, limits: [Limit; 2]) -> Engine {
    let patterns = vec!["POST /login".parse().unwrap()];
    let route = Route { limits: vec![0, 1], defences, ..Route::new("login", patterns) };
    let policy = Policy::new(vec![route], limits.into());
    let clock = Clock::manual(Time::from_nanos(1_800_000_000_000_000_000));
    Engine::new(policy.with_pardon(Some(Arc::new(ForNothing))), 1000, clock, Events::default()).unwrap()
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

fn refusal(engine: &Engine, last: u8) -> Box<Refusal> {
    let now = engine.clock().now();
    let decided = with_attempt(last, |attempt| engine.decide_in_memory(&engine.rules(), attempt, now));
    let Ok(Decision::Refused(refusal)) = decided else { panic!("admitted") };
    refusal
}

/// One of the vouchers of this client.
fn voucher(last: u8, number: u32) -> String {
    format!("{last}-{number}")
}

fn redeem(engine: &Engine, last: u8, voucher: &str) -> bool {
    let rules = engine.rules();
    let redeemed = with_attempt(last, |attempt| {
        let redeemed = pin!(engine.redeem(&rules, attempt, ip(last), voucher));
        redeemed.poll(&mut Context::from_waker(Waker::noop()))
    });
    redeemed == Poll::Ready(Ok(()))
}

/// L18: many cores find many vouchers, and get what the file allows.
#[test]
fn eight_threads_with_any_number_of_vouchers_get_at_most_the_rate() {
    let engine = engine(RouteDefences::default());
    assert!(is_admitted(&engine, 1) && !is_admitted(&engine, 1));
    let admitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (engine, admitted) = (&engine, &admitted);
            scope.spawn(move || {
                for number in (thread % 4)..8 {
                    redeem(engine, 1, &voucher(1, number));
                    admitted.fetch_add(u32::from(is_admitted(engine, 1)), Relaxed);
                }
            });
        }
    });
    assert!((1..=5).contains(&admitted.load(Relaxed)), "{admitted:?} of 5");
}

/// L18: neighbours with an address each get no more for the network that they share.
#[test]
fn an_owner_of_many_addresses_is_given_once_for_the_network() {
    let engine = engine(RouteDefences::default());
    assert!(is_admitted(&engine, 1) && is_admitted(&engine, 2) && !is_admitted(&engine, 3));
    let gets = |last: u8| redeem(&engine, last, &voucher(last, 1)) && is_admitted(&engine, last);
    assert_eq!((3..100).filter(|last| gets(*last)).count(), 5);
}

#[test]
fn a_voucher_is_used_once_and_not_at_all_while_nothing_refuses() {
    let engine = engine(RouteDefences::default());
    let voucher = voucher(1, 3);
    assert!(redeem(&engine, 1, &voucher), "nothing refuses yet");
    assert!(is_admitted(&engine, 1) && !is_admitted(&engine, 1));
    assert!(redeem(&engine, 1, &voucher) && is_admitted(&engine, 1) && !is_admitted(&engine, 1));
    assert!(!redeem(&engine, 1, &voucher));
}

#[test]
fn a_banned_client_is_given_nothing() {
    let engine = engine(RouteDefences::default());
    let bucket = with_attempt(1, |attempt| engine.peek(&engine.rules(), attempt)).unwrap().0.charges[0];
    assert!(is_admitted(&engine, 1));
    let now = engine.clock().now();
    let ban = crate::bucket::Own::ban(now, now.after(PER_HOUR)).unwrap();
    let rules = engine.rules();
    let Withdrawal { buckets, bucket, .. } = rules.withdrawal(&bucket);
    buckets.in_memory().ban(&bucket, ban, now).unwrap();
    assert!(!redeem(&engine, 1, &voucher(1, 1)));
}

#[test]
fn an_offer_lasts_as_long_as_something_may_be_given_and_knows_what_was() {
    let engine = engine(RouteDefences::default());
    assert!(is_admitted(&engine, 1));
    let now = engine.clock().now();
    let offered = || engine.offer(&engine.rules(), &refusal(&engine, 1), ip(1), (0, None), now);
    for tokens in 0..5 {
        assert_eq!(offered().unwrap().task, tokens.to_string());
        assert!(redeem(&engine, 1, &voucher(1, tokens)) && is_admitted(&engine, 1));
    }
    assert_eq!(offered(), None);
}

#[test]
fn under_attack_nothing_is_offered_and_nothing_given() {
    #[derive(Debug)]
    struct Alarmed;

    impl Defence for Alarmed {
        fn name(&self) -> &'static str {
            "alarmed"
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
    assert!(engine.offer(&engine.rules(), &refusal(&engine, 1), ip(1), (0, None), now).is_none());
    assert!(!redeem(&engine, 1, &voucher(1, 1)));
}

#[test]
fn an_application_that_demands_a_voucher_leaves_no_token_and_a_voucher_gives_one() {
    let limit = |name, ipv4| Limit {
        prefixes: PrefixLengths { ipv4, ipv6: 64 },
        ..Limit::new(name, Spec::Continuous(Continuous::new(11, PER_HOUR, 11).unwrap()))
    };
    let engine = engine_of(RouteDefences::default(), [limit("address", 32), limit("net", 24)]);
    let demand = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-earn", HeaderValue::from_static(value));
        }
        let now = engine.clock().now();
        let decided = with_attempt(1, |attempt| engine.decide_in_memory(&engine.rules(), attempt, now));
        let Ok(Decision::Admitted(mut reservation)) = decided else { panic!("refused") };
        reservation.read_demand(&engine.rules(), &headers);
        reservation.settle(&engine, &engine.rules(), Outcome::Failure);
    };
    for values in [&[][..], &["0"], &["1", "1"], &["true"]] {
        demand(values);
    }
    assert!(is_admitted(&engine, 1), "nothing was demanded");
    demand(&["1"]);
    assert!(!is_admitted(&engine, 1) && is_admitted(&engine, 2), "its neighbour keeps the tokens of both");
    assert!(redeem(&engine, 1, &voucher(1, 1)) && is_admitted(&engine, 1) && !is_admitted(&engine, 1));
}

#[test]
fn the_narrowest_limits_are_those_of_the_family_of_the_client() {
    let limit = |name, ipv6| Limit {
        prefixes: PrefixLengths { ipv4: 32, ipv6 },
        ..Limit::new(name, Spec::Continuous(Continuous::new(11, PER_HOUR, 11).unwrap()))
    };
    let engine = engine_of(RouteDefences::default(), [limit("site", 48), limit("home", 64)]);
    let now = engine.clock().now();
    let decided = with_attempt(1, |attempt| engine.decide_in_memory(&engine.rules(), attempt, now));
    let Ok(Decision::Admitted(mut reservation)) = decided else { panic!("refused") };
    let mut headers = HeaderMap::new();
    headers.insert("x-earn", HeaderValue::from_static("1"));
    reservation.read_demand(&engine.rules(), &headers);
    reservation.settle(&engine, &engine.rules(), Outcome::Failure);
    let (_, statuses) = with_attempt(1, |attempt| engine.peek(&engine.rules(), attempt)).unwrap();
    let left: Vec<_> = statuses.iter().map(|status| status.verdict.left).collect();
    assert_eq!(left, [0, 0]);
}
