//! Headers that are none, and headers of those who may not send any.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::proxy_protocol::{block, connect, gate, v1, v2};
use support::{Client, Gate, Upstream, eventually, get_with};

fn refused(gate: &Gate, reason: &str) -> f64 {
    gate.metric("tollgate_connections_refused_total", &format!("reason=\"{reason}\""))
}

/// Whether the gate closes without a word, and at once.
fn is_closed(mut client: Client) -> bool {
    let begun = Instant::now();
    let (answer, end) = client.all_until_the_end(Duration::from_secs(2));
    answer.is_empty() && end.is_some() && begun.elapsed() < Duration::from_secs(2)
}

fn is_served(gate: &Gate) -> bool {
    let mut client = connect(gate, &v1("198.51.100.99"));
    client.send(get_with("/", "Connection: close\r\n"));
    client.answer().status == 200
}

/// C12: a header from a peer that is not in `client.trust`.
#[test]
fn a_stranger_is_not_let_in_whatever_he_sends() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    let request = get_with("/", "");
    let sent = [v1("127.0.0.1"), v2(Ipv4Addr::LOCALHOST), block(0x20, 0, b""), Vec::new()];
    for header in &sent {
        let mut stranger = gate.connect_from(Ipv4Addr::new(127, 0, 0, 2));
        stranger.send_what_goes(&[header, request.as_bytes()].concat());
        assert!(is_closed(stranger), "{header:?}");
    }
    assert_eq!((refused(&gate, "untrusted"), refused(&gate, "proxy_protocol")), (4.0, 0.0));
    assert!(gate.messages().contains("client.trust"), "{}", gate.messages());
    assert!(is_served(&gate));
    assert_eq!(upstream.requests().len(), 1);
}

/// C12: a proxy of ours that sends no header, or one of the other version.
#[test]
fn a_header_is_never_guessed() {
    let upstream = Upstream::start();
    let (line, whole) = (v1("198.51.100.7"), v2(Ipv4Addr::new(198, 51, 100, 7)));
    for (version, other) in [("v1", Some(&whole)), ("v2", Some(&line)), ("any", None)] {
        let gate = gate(&upstream, version, "");
        let mut cases =
            vec![get_with("/", "").into_bytes(), b"\x16\x03\x01\x02\0\x01".to_vec(), b"\r\n".to_vec()];
        cases.extend(other.map(|header| [header, get_with("/", "").as_bytes()].concat()));
        // A line of blanks could still become a header of version 2.
        let cases: Vec<_> = cases.into_iter().filter(|bytes| bytes != b"\r\n" || version == "v1").collect();
        for bytes in &cases {
            assert!(is_closed(connect(&gate, bytes)), "{version}: {bytes:?}");
        }
        assert_eq!(refused(&gate, "proxy_protocol"), f64::from(u32::try_from(cases.len()).unwrap()));
    }
    assert!(upstream.requests().is_empty());
}

/// C12: three seconds for the header, however it drips, or less where heads have less.
#[test]
fn a_header_has_three_seconds_at_most() {
    let upstream = Upstream::start();
    for (more, at_least, at_most) in [("", 2500, 5000), ("header_timeout = \"500ms\"", 400, 2000)] {
        let gate = gate(&upstream, "any", more);
        let begun = Instant::now();
        let mut silent = gate.connect();
        let dripping = gate.connect();
        let mut sender = dripping.sender();
        let drops = std::thread::spawn(move || {
            use std::io::Write;
            for byte in v1("198.51.100.7") {
                if sender.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(150));
            }
        });
        for client in [&mut silent, &mut { dripping }] {
            let (answer, end) = client.all_until_the_end(Duration::from_secs(8));
            assert!(answer.is_empty() && end.is_some());
            let took = begun.elapsed().as_millis();
            assert!((at_least..at_most).contains(&took), "{took} ms");
        }
        drops.join().unwrap();
        assert_eq!(refused(&gate, "proxy_protocol"), 2.0);
        assert!(is_served(&gate));
    }
}

/// C13: lengths, checksums, fields and lines that are wrong.
#[test]
fn a_broken_header_ends_the_connection_and_nothing_else() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    let addresses = [198, 51, 100, 7, 127, 0, 0, 1, 0x10, 0x92, 0, 80];
    let with = |fields: &[u8]| block(0x21, 0x11, &[&addresses, fields].concat());
    let mut huge = block(0x21, 0x11, &addresses);
    huge[14..16].copy_from_slice(&[0xff, 0xff]);
    let line = |length: usize| format!("PROXY UNKNOWN {}\r\n", "f".repeat(length - 16)).into_bytes();
    let mut cases = vec![
        block(0x21, 0x11, &addresses[..11]),
        block(0x21, 0x21, &addresses),
        block(0x21, 0x41, &addresses),
        block(0x22, 0x11, &addresses),
        block(0x11, 0x11, &addresses),
        huge,
        with(b"\x03\0\x04\0\0\0\0"),
        with(b"\x03\0\x03abc"),
        with(b"\x02\0\x0a12345"),
        with(b"\x02\0\x041234\x05"),
        with(b"\x01"),
        line(108),
        line(4000),
        b"PROXY TCP4 198.51.100.7 127.0.0.1 4242 80\n".to_vec(),
        b"PROXY TCP4 198.51.100.256 127.0.0.1 4242 80\r\n".to_vec(),
        b"PROXY TCP4 198.51.100.7 127.0.0.1 +4242 80\r\n".to_vec(),
        b"PROXY TCP5 198.51.100.7 127.0.0.1 4242 80\r\n".to_vec(),
        b"PROXY  TCP4 198.51.100.7 127.0.0.1 4242 80\r\n".to_vec(),
        b"proxy TCP4 198.51.100.7 127.0.0.1 4242 80\r\n".to_vec(),
        [v1("198.51.100.7"), v1("198.51.100.8")].concat(),
    ];
    // A header of which each byte is another one, in turn: none may pass for anybody but the client it may name.
    let sound = with(b"\x03\0\x04\0\0\0\0");
    cases.extend((0..12).map(|at| {
        let mut broken = sound.clone();
        broken[at] ^= 0x20;
        broken
    }));
    for header in &cases {
        let mut client = gate.connect();
        client.send_what_goes(&[&header[..], get_with("/", "").as_bytes()].concat());
        let (answer, _) = client.all_until_the_end(Duration::from_secs(2));
        // Two headers are one, and then a request that is none.
        let said = String::from_utf8_lossy(&answer);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400 "), "{header:?}: {said}");
    }
    assert!(is_served(&gate));
    assert_eq!(upstream.requests().len(), 1, "none of it was a request");
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
}

/// C12: probes that connect and send nothing.
#[test]
fn a_proxy_that_only_knocks_is_not_a_mistake() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, "any", "");
    for _ in 0..5 {
        drop(gate.connect());
    }
    assert!(is_served(&gate));
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
    assert_eq!(refused(&gate, "proxy_protocol"), 0.0);
}
