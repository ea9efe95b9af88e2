//! The header in pieces, and what comes right behind it.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::proxy_protocol::{block, connect, gate, v1, v2};
use support::{Upstream, get_with, post};

#[test]
fn a_header_may_come_byte_by_byte() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    let with_fields = [&[198, 51, 100, 9, 127, 0, 0, 1, 0x10, 0x92, 0, 80], &b"\x04\x01\x2c"[..], &[0; 300]];
    for (header, pause, address) in [
        (v1("198.51.100.7"), 5, "198.51.100.7"),
        (v2(Ipv4Addr::new(198, 51, 100, 8)), 5, "198.51.100.8"),
        (block(0x21, 0x11, &with_fields.concat()), 2, "198.51.100.9"),
    ] {
        let mut client = gate.connect();
        let request = get_with("/", "");
        for byte in [&header, request.as_bytes()].concat() {
            client.send([byte]);
            std::thread::sleep(Duration::from_millis(pause));
        }
        assert_eq!(client.answer().status, 200);
        assert_eq!(upstream.last().all("x-forwarded-for"), [address]);
    }
    assert!(gate.processor_time() < 100, "nothing spins while it waits");
}

#[test]
fn what_comes_in_the_same_packet_is_the_first_request() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    for header in [v1("198.51.100.7"), v2(Ipv4Addr::new(198, 51, 100, 7)), block(0x20, 0, b"")] {
        upstream.forget();
        let bodies = ["a=1", "b=22", "c=333"];
        let requests = bodies.map(|body| post("/any", body)).concat();
        let mut client = connect(&gate, &[&header, requests.as_bytes()].concat());
        for _ in bodies {
            assert_eq!(client.answer().status, 200);
        }
        client.send(post("/any", "d"));
        assert_eq!(client.answer().status, 200);
        let seen: Vec<_> = upstream.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(seen, ["a=1", "b=22", "c=333", "d"].map(|body| body.as_bytes().to_vec()));
    }
}

#[test]
fn a_header_longer_than_one_look_leaves_what_follows_it() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "v2", "");
    let addresses = [198, 51, 100, 7, 127, 0, 0, 1, 0x10, 0x92, 0, 80];
    // Fields to the longest that is taken, and to lengths around one look of 256 bytes.
    for padding in [4096 - 16 - 12 - 3, 256 - 16 - 12 - 3, 255 - 16 - 12 - 3, 257 - 16 - 12 - 3] {
        let length = u16::try_from(padding).unwrap().to_be_bytes();
        let header = block(0x21, 0x11, &[&addresses[..], &[4], &length, &vec![b'G'; padding]].concat());
        let mut client = connect(&gate, &[&header, get_with("/", "").as_bytes()].concat());
        assert_eq!(client.answer().status, 200, "{padding}");
    }
}

/// C12: a gate that stops serves connections whose header arrived before, and waits at most three seconds for a header.
#[test]
fn a_gate_that_drains_hears_who_is_there_and_serves_him() {
    let upstream = Upstream::start();
    let mut gate = gate(&upstream, "any", "");
    let mut late = gate.connect();
    late.send(&v1("198.51.100.7")[..10]);
    let silent = gate.connect();
    // Both are accepted when this one is.
    assert_eq!(
        {
            let mut client = connect(&gate, &v1("198.51.100.8"));
            client.send(get_with("/", "Connection: close\r\n"));
            client.answer().status
        },
        200
    );
    std::thread::sleep(Duration::from_millis(200));
    gate.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    late.send([&v1("198.51.100.7")[10..], get_with("/", "").as_bytes()].concat());
    let answer = late.answer();
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    let status = gate.exit_status(Duration::from_secs(10)).expect("it ends");
    assert!(status.success());
    drop(silent);
}
