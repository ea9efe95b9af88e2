//! What a client without a certificate can do to a handshake: stall it, break it, weaken it, send it twice.

use std::io::ErrorKind::WouldBlock;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{HandshakeKind, version};

use support::authority::{Authority, BOTH, connect_by, encrypted};
use support::{Gate, ONE_AN_HOUR, Upstream, eventually, get_with};

/// Far more than anything here takes, and less than the five minutes that one test asks for.
const LONG: Duration = Duration::from_secs(30);

/// B9: clients that stop in the middle of a handshake.
#[test]
fn a_handshake_that_stalls_ends_in_time_and_holds_up_no_other() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority
        .gate(&["app.test"], &upstream.file(&format!("{ONE_AN_HOUR}[proxy]\nheader_timeout = \"2s\"\n")));
    let hello = client_hello(&authority);
    let mut stalled: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(gate.tls).unwrap()).collect();
    for (number, stream) in stalled.iter_mut().enumerate() {
        // Nothing at all, or a part of the first message.
        stream.write_all(&hello[..hello.len() * (number % 4) / 5]).unwrap();
    }
    assert!(is_served(&gate, &authority), "the others are served");
    for stream in &stalled {
        stream.set_nonblocking(true).unwrap();
    }
    let waits = |stream: &TcpStream| stream.peek(&mut [0]).is_err_and(|error| error.kind() == WouldBlock);
    assert!(stalled.iter().all(waits), "while all of them stall");
    // Each has its place among all; they are taken out of the kernel's queue by several workers, each in its own time.
    let refused = || gate.metric("tollgate_connections_refused_total", "reason=\"tls\"");
    assert!(eventually(LONG, || gate.metric("tollgate_connections", "") + refused() >= 100.0));
    for stream in &mut stalled {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let ended = stream.read(&mut [0; 64]);
        assert!(!ended.is_err_and(|error| error.kind() == WouldBlock), "each ends, and nothing is answered");
    }
    assert!(eventually(LONG, || gate.metric("tollgate_connections", "") == 0.0));
    assert_eq!(refused(), 100.0);
}

/// B9: a long `header_timeout` is not one for handshakes.
#[test]
fn a_handshake_has_ten_seconds_at_most() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority
        .gate(&["app.test"], &upstream.file(&format!("{ONE_AN_HOUR}[proxy]\nheader_timeout = \"5m\"\n")));
    let mut stream = TcpStream::connect(gate.tls).unwrap();
    let begun = Instant::now();
    stream.set_read_timeout(Some(LONG)).unwrap();
    assert!(matches!(stream.read(&mut [0; 64]), Ok(0)));
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
}

/// B9: a first message in pieces, as records and as packets.
#[test]
fn a_first_message_in_a_thousand_pieces_does_no_harm() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let hello = client_hello(&authority);
    let message = &hello[5..];
    for size in [1, 2, 3, 7, 64, message.len() - 1] {
        let records: Vec<u8> = message
            .chunks(size)
            .flat_map(|piece| {
                let [high, low] = u16::try_from(piece.len()).unwrap().to_be_bytes();
                [&[22, 3, 1, high, low], piece].concat()
            })
            .collect();
        let mut stream = TcpStream::connect(gate.tls).unwrap();
        stream.set_nodelay(true).unwrap();
        let sent = records.chunks(97).all(|packet| stream.write_all(packet).is_ok());
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut answer = [0; 1];
        let first = stream.read(&mut answer).map(|_| answer[0]);
        assert!(!sent || matches!(first, Ok(0 | 21 | 22)), "{size}: {first:?}");
        assert!(is_served(&gate, &authority), "after pieces of {size}");
    }
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
}

/// B9: what is no TLS at all.
#[test]
fn garbage_is_dropped_at_once() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let hello = client_hello(&authority);
    let mut seed = 7_u64;
    let mut random = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(seed >> 56).unwrap()
    };
    let mut cases: Vec<Vec<u8>> = vec![
        get_with("/login", "").into_bytes(),
        b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10".to_vec(),
        vec![22, 3, 1, 0xff, 0xff, 1, 2, 3],
        vec![0; 4096],
        vec![23, 3, 3, 0, 1, 0],
    ];
    cases.extend((0..20).map(|_| (0..600).map(&mut random).collect()));
    // The client's own first message with one byte of it turned over.
    cases.extend((0..hello.len()).step_by(5).map(|at| {
        let mut broken = hello.clone();
        broken[at] ^= 0x5a;
        broken
    }));
    for bytes in &cases {
        let mut stream = TcpStream::connect(gate.tls).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(!matches!(&ended, Err(error) if error.kind() == WouldBlock), "{bytes:?}");
        assert!(!answer.starts_with(b"HTTP/"), "nothing is said in clear text");
    }
    assert!(is_served(&gate, &authority));
    assert_eq!(gate.metric("tollgate_panics_total", ""), 0.0);
    assert_eq!(upstream.requests().len(), 1, "none of it was a request");
}

/// B10: a sign-in that an eavesdropper could replay.
#[test]
fn no_request_is_sent_before_the_handshake_is_over() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate = authority.gate(&["app.test"], &upstream.file(ONE_AN_HOUR));
    let mut config = authority.client_config(&[&version::TLS13]);
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut client = connect_by(&config, gate.tls, "app.test");
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    let mut again = encrypted(&config, gate.tls, "app.test");
    assert!(again.conn.early_data().is_none(), "the gate's tickets allow none");
    again.write_all(get_with("/", "").as_bytes()).unwrap();
    assert_eq!(again.conn.handshake_kind(), Some(HandshakeKind::Resumed), "and it had a ticket");
    assert!(!again.conn.is_early_data_accepted());
}

/// B9: handshakes are bounded like all connections.
#[test]
fn one_client_has_its_own_bound_for_handshakes() {
    let (upstream, authority) = (Upstream::start(), Authority::new());
    let gate =
        authority.gate(&["app.test"], &upstream.file(&format!("{ONE_AN_HOUR}[proxy]\nclient_max = 5\n")));
    let held: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(gate.tls).unwrap()).collect();
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 5.0));
    let mut sixth = TcpStream::connect(gate.tls).unwrap();
    sixth.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(sixth.read(&mut [0; 8]), Ok(0) | Err(_)));
    assert_eq!(gate.metric("tollgate_connections_refused_total", "reason=\"client_max\""), 1.0);
    drop(held);
    assert!(eventually(Duration::from_secs(5), || gate.metric("tollgate_connections", "") == 0.0));
    assert!(is_served(&gate, &authority));
}

fn is_served(gate: &Gate, authority: &Authority) -> bool {
    let mut client = authority.connect(gate.tls, "app.test");
    client.send(get_with("/", "Connection: close\r\n"));
    client.answer().status == 200
}

/// The first message of a client, in one record.
fn client_hello(authority: &Authority) -> Vec<u8> {
    let name = "app.test".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(authority.client_config(BOTH)), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}
