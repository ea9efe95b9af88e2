//! Tests that need no server: slots, pauses and warnings.

use redis::Value;

use super::address::{Host, RedisAddress, host};
use super::inspect::sentences;
use super::node::pause_after;
use super::slots::{Slots, redirected, slot};

fn at(name: &str, port: u16) -> Host {
    Host { name: name.into(), port }
}

fn range(first: i64, last: i64, name: Value, port: i64) -> Value {
    let owner = Value::Array(vec![name, Value::Int(port), Value::BulkString(b"id".to_vec())]);
    Value::Array(vec![Value::Int(first), Value::Int(last), owner])
}

#[test]
fn slots_are_those_of_the_specification() {
    // The specification's own example, and two replies of redis-server 7.0 to CLUSTER KEYSLOT.
    assert_eq!(slot("123456789"), 0x31c3);
    assert_eq!(slot("foo"), 12182);
    assert_eq!(slot(""), 0);
}

#[test]
fn a_server_that_does_not_know_its_name_is_the_one_that_was_asked() {
    let server = at("asked", 1);
    let text = |name: &str| Value::BulkString(name.as_bytes().to_vec());
    let answer = Value::Array(vec![
        range(0, 9, text(""), 7000),
        range(10, 19, Value::Nil, 7001),
        range(30, 16383, text("other"), 7002),
    ]);
    let slots = Slots::read(answer, &server).unwrap();
    assert_eq!(slots.owner(9), Some(&at("asked", 7000)));
    assert_eq!(slots.owner(10), Some(&at("asked", 7001)));
    assert_eq!(slots.owner(20), None);
    assert_eq!(slots.owner(16383), Some(&at("other", 7002)));
    assert_eq!(redirected(":7003", &server), Some(at("asked", 7003)));
    assert_eq!(redirected("::1:7003", &server), Some(at("::1", 7003)));
    assert_eq!(redirected("nowhere", &server), None);
}

#[test]
fn what_has_moved_is_found_there_until_all_is_asked_again() {
    let mut slots = Slots::default();
    assert_eq!(slots.owner(5), None);
    slots.set_moved(5, at("new", 1));
    assert_eq!(slots.owner(5), Some(&at("new", 1)));
    assert_eq!(slots.owners().collect::<Vec<_>>(), [&at("new", 1)]);
}

#[test]
fn answers_that_are_no_slots_are_errors() {
    for answer in [
        Value::Int(1),
        Value::Array(vec![Value::Nil]),
        Value::Array(vec![Value::Array(vec![Value::Int(0)])]),
        Value::Array(vec![range(0, 70_000, Value::Nil, 1)]),
        Value::Array(vec![range(-1, 1, Value::Nil, 1)]),
        Value::Array(vec![range(0, 1, Value::Int(3), 70_000)]),
    ] {
        assert!(Slots::read(answer.clone(), &at("asked", 1)).is_err(), "{answer:?}");
    }
}

#[test]
fn brackets_are_no_part_of_an_address() {
    assert_eq!(host("[::1]:7"), Ok(at("::1", 7)));
    assert_eq!(host("[::1]"), Ok(at("::1", 6379)));
    assert_eq!(host("name"), Ok(at("name", 6379)));
}

#[test]
fn attempts_are_never_nearer_than_a_tenth_of_a_second() {
    for failures in 0..100 {
        let pause = pause_after(failures).as_millis();
        assert!((100..600).contains(&pause), "{pause} ms after {failures}");
    }
}

#[test]
fn an_answer_without_the_fields_says_nothing() {
    assert_eq!(sentences(""), [""; 0]);
    assert_eq!(sentences("maxmemory:5\r\n"), [""; 0]);
    assert_eq!(sentences("role:slave\r\nslave_read_only:0\r\n"), [""; 0]);
    assert_eq!(sentences("role:slave\r\nslave_read_only:1\r\n").len(), 1);
}

#[test]
fn a_password_in_clear_text_over_a_network_is_told() {
    let is_unencrypted = |url: &str| RedisAddress::parse(url).unwrap().is_unencrypted();
    for url in
        ["redis://:p@db.example", "redis-cluster://n:p@127.0.0.1,10.0.0.1", "redis+sentinel://:p@s/one"]
    {
        assert!(is_unencrypted(url), "{url}");
    }
    for url in ["redis://db.example", "redis://:p@localhost", "redis://:p@[::1]", "rediss://:p@db.example"] {
        assert!(!is_unencrypted(url), "{url}");
    }
}
