//! `key = "password"`: one password at many accounts, from anywhere.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use tollgate::bucket::{Continuous, Distinct, Spec};
use tollgate::engine::{Decision, Engine};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::field::Field;
use tollgate::policy::key::KeyPart;
use tollgate::policy::{Limit, Policy, Route, RouteReading, Unit};
use tollgate::time::{Clock, Span, Time};

use support::Gate;
use support::application::{
    ROUTE, application, cookie, form, post, right, sign_in, sign_in_with, status_from,
};

const SPRAY: &str = "[limit.spray]\nkey = \"password\"\nunit = \"users\"\nrate = \"9 per 1d\"\n";

/// How many of these accounts can be tried with a password, each from an address of its own.
fn tried(gate: &Gate, accounts: std::ops::Range<u8>, password: &str) -> usize {
    let is_admitted = |number: &u8| {
        let address = Ipv4Addr::new(127, 3, *number, 1);
        status_from(gate, address, &format!("account{number}"), password) != 429
    };
    accounts.filter(is_admitted).count()
}

#[test]
fn the_tenth_account_tried_with_one_password_is_refused_wherever_it_comes_from() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{SPRAY}")));
    assert_eq!(tried(&gate, 0..9, "Winter2026!"), 9);
    assert_eq!(tried(&gate, 9..40, "Winter2026!"), 0);
    assert_eq!(application.requests().len(), 9);
    assert_eq!(tried(&gate, 0..9, "Winter2026!"), 9, "the same account again costs nothing");
    assert_eq!(tried(&gate, 9..20, "Winter2027!"), 9, "another password has a bucket of its own");
    let other_spelling = post("/login", "", "log=account30&pwd=Winter2026%21");
    assert_eq!(gate.ask(other_spelling).status, 429);
    let several = post("/login", "", "log=account31&pwd=new&pwd=Winter2026%21");
    assert_eq!(gate.ask(several).status, 429, "a second password hides none");
}

#[test]
fn a_refusal_tells_nobody_that_the_password_was_why() {
    let application = application();
    let account = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1d\"\n";
    let file = format!("{ROUTE}{SPRAY}{account}[refuse]\nheaders = \"always\"\n");
    let gate = Gate::start(&application.file(&file));
    assert_eq!(tried(&gate, 0..9, "Winter2026!"), 9);
    let by_password = gate.ask(sign_in("account50", "Winter2026!"));
    gate.ask(sign_in("account60", "one"));
    let by_account = gate.ask(sign_in("account60", "two"));
    let shown = |answer: &support::Answer| {
        let hidden = ["x-request-id", "date", "retry-after"];
        let mut headers = answer.headers.clone();
        headers.retain(|(name, _)| !hidden.contains(&name.as_str()));
        (answer.status, headers)
    };
    assert_eq!(shown(&by_password), shown(&by_account));
    assert!(!by_password.text().contains("spray") && !by_password.text().contains("password"));
}

#[test]
fn owners_at_a_known_device_are_not_refused_for_the_password_of_others() {
    let application = application();
    let keys = "[device]\nsecret = \"planted-key-planted-key-planted-key\"\n";
    let gate = Gate::start(&application.file(&format!("{ROUTE}{SPRAY}{keys}")));
    let answer = gate.ask(sign_in("alice", &right("alice")));
    let device = format!("Cookie: tollgate_device={}\r\n", cookie(&answer, "tollgate_device").unwrap());
    assert_eq!(tried(&gate, 0..40, &right("alice")), 8, "hers was the first account");
    assert_eq!(gate.ask(sign_in_with(&device, &form("alice", &right("alice")))).status, 302);
    assert_eq!(gate.ask(sign_in_with(&device, &form("bob", &right("alice")))).status, 429, "not for bob");
}

/// Forms that sign in by a link send an empty password for every account.
#[test]
fn attempts_without_a_password_pay_for_their_address() {
    let application = application();
    let gate = Gate::start(&application.file(&format!("{ROUTE}{SPRAY}")));
    assert_eq!(tried(&gate, 0..40, ""), 40);
    let from_one =
        (0..40).filter(|number| gate.ask(post("/login", "", &format!("log=b{number}"))).status != 429);
    assert_eq!(from_one.count(), 9);
}

/// The policy of [`SPRAY`], with room for `most` accounts.
fn engine(most: u32) -> Engine {
    let bucket = Continuous::new(1, Span::from_secs(86_400), most).unwrap();
    let limit = Limit {
        key: vec![KeyPart::Password],
        unit: Unit::Users,
        ..Limit::new("spray", Spec::Distinct(Distinct::new(bucket, None).unwrap()))
    };
    let route = Route {
        reading: RouteReading {
            user: vec![Field::form("log").unwrap()],
            password: vec![Field::form("pwd").unwrap()],
            ..RouteReading::default()
        },
        limits: vec![0],
        ..Route::new("login", vec!["POST /login".parse().unwrap()])
    };
    let clock = Clock::manual(Time::from_nanos(1_800_000_000_000_000_000));
    Engine::new(Policy::new(vec![route], vec![limit]), 1000, clock, Events::default()).unwrap()
}

fn is_admitted(engine: &Engine, address: u8, user: u8, password: u8) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
    let body = form(&format!("user{user}"), &format!("planted{password}"));
    let attempt = Attempt {
        method: &Method::POST,
        path: "/login",
        query: None,
        host: "a",
        client: Client::from_ip([127, 0, 0, address].into()),
        headers: &headers,
        body: AttemptBody::Whole(body.as_bytes()),
        descriptor: None,
        tls: None,
    };
    let now = engine.clock().now();
    matches!(engine.decide_in_memory(&engine.rules(), &attempt, now), Ok(Decision::Admitted(_)))
}

fn wait(engine: &Engine, seconds: u64) {
    engine.clock().set(engine.clock().now().after(Span::from_secs(seconds)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_password_is_tried_at_more_accounts_than_its_bucket_holds(
        most in 1_u32..16,
        attempts in prop::collection::vec((any::<u8>(), 0_u8..40, 0_u8..4, 0_u64..60), 1..300),
    ) {
        let engine = engine(most);
        let mut tried: HashMap<u8, HashSet<u8>> = HashMap::new();
        for (address, user, password, seconds) in attempts {
            wait(&engine, seconds);
            let accounts = tried.entry(password).or_default();
            let fits = accounts.contains(&user) || accounts.len() < most as usize;
            prop_assert_eq!(is_admitted(&engine, address, user, password), fits);
            if fits {
                accounts.insert(user);
            }
        }
        // Nothing of it is kept beyond the process.
        prop_assert!(engine.snapshot().limits.is_empty());
    }
}

#[test]
fn a_day_later_every_password_begins_anew() {
    let engine = engine(3);
    let admitted = |engine: &Engine| (0..9).filter(|user| is_admitted(engine, 1, *user, 1)).count();
    assert_eq!((admitted(&engine), admitted(&engine)), (3, 3), "three accounts, and these again");
    wait(&engine, 86_400);
    assert_eq!(admitted(&engine), 3);
    let restored = self::engine(3).with_snapshot(&engine.snapshot()).0;
    assert_eq!(admitted(&restored), 3, "and so it does after a restart");
}
