//! Clients that send or take next to nothing, but never stop.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use socket2::SockRef;

use support::{Client, Gate, Reply, Upstream, eventually, get_with, post};

/// Sends a byte at a time as long as it goes, but not for ever; how long it went.
fn drip(client: &mut Client, head: &str, pause: Duration) -> std::thread::JoinHandle<()> {
    client.send(head);
    let mut sender = client.sender();
    std::thread::spawn(move || {
        for _ in 0..200 {
            if sender.write_all(b"x").is_err() {
                break;
            }
            // Slowness is the attack.
            std::thread::sleep(pause);
        }
    })
}

/// H2: a body that makes progress, but next to none.
#[test]
fn a_client_that_drips_its_body_is_cut_off_whether_it_is_read_or_streamed() {
    let (upstream, file) = (Upstream::start(), "[proxy]\nbody_timeout = \"1s\"\nthreads = 1\n");
    let read = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\n\
                [limit.account]\nkey = \"user\"\nrate = \"9/s\"\n";
    let gate = Gate::start(&upstream.file(&format!("{read}{file}")));
    for target in ["/upload", "/login"] {
        let mut client = gate.connect();
        let started = Instant::now();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 1000\r\n\r\n"
        );
        let dripping = drip(&mut client, &head, Duration::from_millis(100));
        let answer = client.try_answer().map(|answer| answer.status);
        let took = started.elapsed();
        assert_eq!(answer, Some(408), "{target}");
        // Each byte came in time; all of them have a second, and two milliseconds for each.
        assert!(took > Duration::from_millis(900) && took < Duration::from_secs(5), "{target}: {took:?}");
        assert!(client.ends_within(Duration::from_secs(5)), "{target}");
        drop(client);
        dripping.join().unwrap();
    }
    assert!(upstream.connections().concat().len() < 1000, "no connection carried a whole request");
}

/// H2: and a slow one that is none of an attacker's.
#[test]
fn an_upload_may_take_longer_than_its_time_out_if_it_goes_on() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nbody_timeout = \"500ms\"\n"));
    let mut client = gate.connect();
    client.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n");
    for _ in 0..20 {
        // A thousand bytes a second, which is twice what is asked for.
        std::thread::sleep(Duration::from_millis(100));
        client.send("x".repeat(100));
    }
    assert_eq!(client.answer().status, 200, "after two seconds");
    // A pause is what was earned before.
    client.send(format!(
        "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n{}",
        "x".repeat(100_000)
    ));
    std::thread::sleep(Duration::from_millis(400));
    client.send("x");
    assert_eq!(client.answer().status, 200);
}

/// An answer that fills every buffer on the way.
fn long_answer() -> Reply {
    let body = vec![b'x'; 40 << 20];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    Reply::Bytes([head.into_bytes(), body].concat())
}

/// Sends a request with a small window, so that the gate notices early that the client does not read.
fn asks_for_much(gate: &Gate, window: usize) -> std::net::TcpStream {
    let client = gate.connect();
    SockRef::from(&client.sender()).set_recv_buffer_size(window).unwrap();
    let mut sender = client.sender();
    sender.write_all(get_with("/long", "").as_bytes()).unwrap();
    sender
}

/// H3: an answer of which some bytes are taken from time to time.
#[test]
fn a_client_that_reads_a_byte_at_a_time_loses_its_place_at_the_upstream() {
    let upstream = Upstream::answering(|_, _| long_answer());
    let gate = Gate::start(&upstream.file("[proxy]\nidle_timeout = \"1s\"\nthreads = 1\nupstream_max = 1\n"));
    let mut client = asks_for_much(&gate, 4096);
    let is_here = || gate.metric("tollgate_connections", "") > 0.0;
    assert!(eventually(Duration::from_secs(5), is_here));
    let (started, mut taken) = (Instant::now(), 0);
    let mut byte = [0; 16];
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    while is_here() && started.elapsed() < Duration::from_secs(20) {
        taken += client.read(&mut byte).unwrap_or(0);
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = started.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(12), "{took:?}, {taken} bytes");
    assert_eq!(gate.ask(post("/x", "")).status, 200, "the place at the upstream is free");
}

/// H3: one client that reads nothing of many answers.
#[test]
fn a_client_that_reads_nothing_leaves_places_at_the_upstream_to_others() {
    let upstream = Upstream::answering(|request, _| match request.starts_with(b"GET /long") {
        true => long_answer(),
        false => Reply::ok(),
    });
    let gate = Gate::start(&upstream.file("[proxy]\nupstream_max = 8\nconnect_timeout = \"5s\"\n"));
    let held: Vec<_> = (0..20).map(|_| asks_for_much(&gate, 4096)).collect();
    let has_its_share = || upstream.connections().iter().filter(|bytes| !bytes.is_empty()).count() >= 6;
    assert!(
        eventually(Duration::from_secs(10), has_its_share),
        "it has six of eight places, and waits for more"
    );
    for host in 2..40 {
        let started = Instant::now();
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 0, host));
        client.send(get_with("/short", ""));
        assert_eq!(client.answer().status, 200);
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}: it waited", started.elapsed());
    }
    drop(held);
    assert!(eventually(Duration::from_secs(5), || gate.ask(get_with("/short", "")).status == 200));
}

/// H3: a slow reader that is none of an attacker's.
#[test]
fn an_answer_may_take_longer_than_the_time_out_if_the_client_reads_on() {
    let body = vec![b'x'; 6 << 20];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let all = [head.into_bytes(), body].concat();
    let upstream = Upstream::answering(move |_, _| Reply::Bytes(all.clone()));
    let gate = Gate::start(&upstream.file("[proxy]\nidle_timeout = \"700ms\"\nthreads = 1\n"));
    let mut client = asks_for_much(&gate, 64 << 10);
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (started, mut taken, mut some) = (Instant::now(), 0, vec![0; 256 << 10]);
    while taken < 6 << 20 {
        match client.read(&mut some) {
            Ok(count @ 1..) => taken += count,
            end => panic!("{end:?} after {taken} bytes and {:?}", started.elapsed()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(started.elapsed() > Duration::from_secs(1), "{:?}: too quick to say anything", started.elapsed());
}

/// H1: a short time to be idle, kept from the first request on.
#[test]
fn a_connection_is_idle_no_longer_than_it_may_be_even_if_a_head_might_take_longer() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[proxy]\nidle_timeout = \"500ms\"\nheader_timeout = \"20s\"\n"));
    let mut client = gate.connect();
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    assert!(client.ends_within(Duration::from_secs(3)));
}
