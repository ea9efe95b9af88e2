//! Messages of Envoy's with bytes changed, lost, doubled and swapped: each is answered, and the gate goes on.

use std::time::Duration;

use prost::Message;
use support::dice::Dice;
use tokio::time::timeout;

use crate::calls::{Caller, framed, run};
use crate::envoy::{
    BUFFERED, CHECK, Head, PROCESS, Part, Piece, Processing, Service, check, request, response,
};

const TABLES: &str = "[route.login]\nmatch = \"POST /login\"\nwhen = \"form:password\"\nuser = \"form:user\"\n\
                      success = { status = 302, set_cookie = \"session\" }\n\
                      [limit.address]\nrate = \"100 per 1s\"\n\
                      [limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n\
                      [device]\nsecret = \"${file:{dir}/device.keys}\"\n";
const FORM: &[(&str, &str)] = &[
    ("content-type", "application/x-www-form-urlencoded"),
    ("cookie", "a=1; tollgate_device=AAAA"),
    ("accept", "text/html"),
    ("user-agent", "Mozilla/5.0"),
];
const BODY: &str = "user=anna&password=secret";

/// One to eight changes of these bytes.
fn mutant(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.within(0..8) {
        let at = |dice: &mut Dice| usize::try_from(dice.within(0..bytes.len().max(1) as u64)).unwrap();
        let (one, other) = (at(dice), at(dice));
        let (from, to) = (one.min(other), one.max(other));
        let byte = u8::try_from(dice.within(0..256)).unwrap();
        match dice.within(0..7) {
            _ if bytes.is_empty() => bytes.push(byte),
            0 => bytes[one] = byte,
            1 => bytes[one] ^= 1 << dice.within(0..8),
            2 => bytes.insert(one, byte),
            3 => drop(bytes.drain(from..to.min(from + 20))),
            4 => bytes.extend_from_within(from..to),
            5 => bytes.swap(one, other),
            _ => bytes[one] = dice.pick(&[0x00, 0x7f, 0x80, 0xff, 0x0a, 0x1a, 0x22, 0x6a]),
        }
    }
    bytes
}

/// 2,000 for each service.
#[test]
fn four_thousand_mutants_are_answered_without_a_panic() {
    let seed = 44;
    let mut dice = Dice::new(seed);
    let authz = Service::start("ext-authz", TABLES, "bodies = true\n");
    let question = check("192.0.2.1", "POST", "/login", FORM, BODY);
    let bytes = question.encode_to_vec();
    run(async {
        let mut caller = Caller::connect(authz.address).await;
        for number in 0..2_000 {
            let body = match dice.within(0..5) {
                0 => mutant(&framed(&bytes), &mut dice),
                _ => framed(&mutant(&bytes, &mut dice)),
            };
            let called = caller.call(CHECK, "application/grpc", body).await;
            let status = called.status.as_deref();
            assert!(
                matches!(status, Some("0" | "3" | "12" | "13")),
                "seed {seed}, number {number}: {called:?}"
            );
        }
        assert!(matches!(caller.check(&question).await.verdict(), 200 | 429));
    });
    assert!(!authz.gate.messages().contains("panic"));
    let proc = Service::start("ext-proc", TABLES, "bodies = true\n");
    run(async {
        let caller = Caller::connect(proc.address).await;
        for number in 0..2_000 {
            let story = mutated_stream(&caller, &mut dice);
            let status = timeout(Duration::from_secs(20), story).await.expect("it ends");
            assert!(
                matches!(status.as_deref(), Some("0" | "3" | "8" | "12" | "13")),
                "seed {seed}, number {number}: {status:?}"
            );
        }
        let mut call = caller.open(PROCESS).await;
        let head = Head { is_end: true, ..request("192.0.2.9", "GET", "/", FORM) };
        assert_eq!(call.process(Part::RequestHeaders(head), Some(BUFFERED)).await.unwrap().verdict(), 200);
    });
    assert!(!proc.gate.messages().contains("panic"));
}

/// The status of a stream of which one message is a mutant.
async fn mutated_stream(caller: &Caller, dice: &mut Dice) -> Option<String> {
    let parts = [
        (Part::RequestHeaders(request("192.0.2.1", "POST", "/login", FORM)), Some(BUFFERED)),
        (Part::RequestBody(Piece { body: BODY.into(), is_end: true }), None),
        (response("302", &[("location", "/home"), ("set-cookie", "session=1")]), None),
    ];
    let chosen = usize::try_from(dice.within(0..3)).unwrap();
    let mut call = caller.open(PROCESS).await;
    for (number, (part, modes)) in parts.into_iter().enumerate() {
        let message = Processing { part: Some(part), observes: false, modes }.encode_to_vec();
        match dice.within(0..6) {
            _ if number != chosen => call.send(&message),
            0 => call.send_bytes(mutant(&framed(&message), dice)),
            _ => call.send(&mutant(&message, dice)),
        }
    }
    call.end().await.1
}
