//! What an attacker can use up: time, connections, descriptors, memory, the upstream, the log.
//!
//! Every wait of the gate has a deadline, and the tests configure short ones instead of waiting for the defaults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use support::{
    Client, Gate, Launch, ONE_AN_HOUR, Reply, Stdout, Upstream, assert_clean, eventually, free_port,
    get_with, post, post_with,
};

fn started(proxy: &str) -> (Upstream, Gate) {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("[proxy]\n{proxy}\n")));
    (upstream, gate)
}

fn is_served(gate: &Gate, source: Ipv4Addr) -> bool {
    let mut client = gate.connect_from(source);
    client.send_what_goes(get_with("/", "Connection: close\r\n").as_bytes());
    client.try_answer().is_some_and(|answer| answer.status == 200)
}

/// H1: a head that never ends.
#[test]
fn a_client_that_drips_its_head_is_cut_off() {
    let (_upstream, gate) = started("header_timeout = \"400ms\"");
    let mut client = gate.connect();
    let mut sender = client.sender();
    let started = Instant::now();
    let dripping = std::thread::spawn(move || {
        let _ = sender.write_all(b"POST /login HTTP/1.1\r\nHost: app.test\r\n");
        for number in 0..200 {
            if sender.write_all(format!("X-{number}: a\r\n").as_bytes()).is_err() {
                break;
            }
            // Slowness is the attack.
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(client.ends_within(Duration::from_secs(5)), "the head takes longer than allowed");
    assert!(started.elapsed() >= Duration::from_millis(350), "but what is allowed is given");
    drop(client);
    dripping.join().unwrap();
}

/// H1: a connection on which nothing ever comes.
#[test]
fn a_client_that_says_nothing_is_cut_off() {
    let (_upstream, gate) = started("header_timeout = \"300ms\"\nidle_timeout = \"300ms\"");
    assert!(gate.connect().ends_within(Duration::from_secs(5)), "silence from the start");
    let mut client = gate.connect();
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    assert!(client.ends_within(Duration::from_secs(5)), "silence after a request");
}

/// H1: a second head on a kept connection that never ends.
#[test]
fn a_client_that_drips_its_second_head_is_cut_off() {
    let (_upstream, gate) = started("header_timeout = \"300ms\"\nidle_timeout = \"600ms\"");
    let mut client = gate.connect();
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    client.send("GET / HTTP/1.1\r\nHost: app");
    assert!(client.ends_within(Duration::from_secs(5)));
}

/// H4: connections of one client, each with a request that is served.
#[test]
fn one_client_cannot_take_more_connections_than_allowed() {
    let slow = |request: &[u8], _| {
        if request.starts_with(b"GET /slow") { Reply::Silence } else { Reply::ok() }
    };
    let upstream = Upstream::answering(slow);
    let gate = Gate::start(&upstream.file("[proxy]\nclient_max = 8\n"));
    let mut held: Vec<Client> = (0..8).map(|_| gate.connect()).collect();
    held.iter_mut().for_each(|client| client.send(get_with("/slow", "")));
    upstream.wait_for(8);
    assert!(!is_served(&gate, Ipv4Addr::LOCALHOST), "the ninth is refused");
    assert!(is_served(&gate, Ipv4Addr::new(127, 0, 0, 2)), "another client is served");
    assert!(gate.metric("tollgate_connections_refused_total", "") >= 1.0, "refused connections are counted");
    drop(held);
    assert!(eventually(Duration::from_secs(5), || is_served(&gate, Ipv4Addr::LOCALHOST)), "places come free");
}

/// L11: idle connections of one client hold all that it may have.
#[test]
fn a_clients_own_idle_connection_gives_way_to_its_next_one() {
    let (_upstream, gate) = started("client_max = 8\nthreads = 2");
    let localhost = Ipv4Addr::LOCALHOST;
    let mut held: Vec<Client> = (0..8).map(|_| served(&gate, localhost)).collect();
    let other = served(&gate, Ipv4Addr::new(127, 0, 0, 2));
    let newcomers: Vec<Client> = (0..3).map(|_| served(&gate, localhost)).collect();
    let evicted = || gate.metric("tollgate_connections_evicted_total", "") >= 3.0;
    assert!(eventually(Duration::from_secs(10), evicted));
    assert_eq!(gate.metric("tollgate_connections_refused_total", "client_max"), 0.0);
    let ended: Vec<bool> =
        held.iter_mut().map(|client| client.ends_well_within(Duration::from_millis(1))).collect();
    assert_eq!(ended, [true, true, true, false, false, false, false, false], "those that were idle longest");
    drop((other, newcomers));
}

/// H4: connections in all, each with a request that is served.
#[test]
fn connections_beyond_the_bound_wait_or_are_refused_and_places_come_free() {
    let slow = |request: &[u8], _| {
        if request.starts_with(b"GET /slow") { Reply::Silence } else { Reply::ok() }
    };
    let upstream = Upstream::answering(slow);
    let gate = Gate::start(&upstream.file("[proxy]\nconnections = 10\n"));
    let mut held: Vec<Client> = Vec::new();
    for host in 1..=10 {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 1, host));
        client.send(get_with("/slow", ""));
        held.push(client);
    }
    upstream.wait_for(10);
    let mut late = gate.connect_from(Ipv4Addr::new(127, 0, 2, 1));
    late.send_what_goes(get_with("/", "").as_bytes());
    let at_once = late.rest(Duration::from_millis(300));
    assert!(!at_once.starts_with(b"HTTP/1.1 200"), "the eleventh is not served while ten are held");
    drop(held);
    let served = eventually(Duration::from_secs(5), || is_served(&gate, Ipv4Addr::new(127, 0, 2, 2)));
    assert!(served, "places come free");
}

/// L11: idle connections hold every place.
#[test]
fn an_idle_connection_gives_way_to_a_newcomer_at_once() {
    let (_upstream, gate) = started("connections = 100\nthreads = 2");
    let mut first = served(&gate, Ipv4Addr::new(127, 0, 3, 1));
    let held: Vec<Client> =
        (0..99).map(|number| served(&gate, Ipv4Addr::new(127, 0, 4, number % 9 + 1))).collect();
    let newcomers: Vec<Client> = (1..=50).map(|host| served(&gate, Ipv4Addr::new(127, 0, 5, host))).collect();
    let gave_way = || gate.metric("tollgate_connections_evicted_total", "") >= 50.0;
    assert!(eventually(Duration::from_secs(10), gave_way), "they have the places of others");
    first.send(get_with("/", ""));
    assert_eq!(first.answer().status, 200, "who holds one place keeps it");
    let mut ended = held;
    ended.retain_mut(|client| client.ends_well_within(Duration::from_millis(1)));
    let ended = ended.len();
    assert!(ended >= 50, "{ended} were closed in peace");
    drop(newcomers);
}

/// L11: what else holds a place without a request: nothing was said yet, or half a head.
#[test]
fn a_connection_that_brings_no_request_gives_way_to_a_newcomer() {
    for begun in ["", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        let (_upstream, gate) = started("connections = 20\nheader_timeout = \"1h\"");
        let mut held: Vec<Client> =
            (0..20).map(|number| gate.connect_from(Ipv4Addr::new(127, 0, 4, number % 4 + 1))).collect();
        held.iter_mut().for_each(|client| client.send(begun));
        assert!(eventually(Duration::from_secs(10), || gate.metric("tollgate_connections", "") >= 20.0));
        let newcomer = served(&gate, Ipv4Addr::new(127, 0, 5, 1));
        let gave_way = || gate.metric("tollgate_connections_evicted_total", "") >= 1.0;
        assert!(eventually(Duration::from_secs(10), gave_way), "after {begun:?}");
        drop(newcomer);
    }
}

/// L11: a request that comes while its connection gives way is answered, or is asked again on another one.
#[test]
fn twice_as_many_clients_as_places_are_all_served_time_and_again() {
    let (_upstream, gate) = started("connections = 8\nthreads = 2");
    let asks = |host: u8| {
        let (mut client, mut again) = (None, 0);
        for _ in 0..30 {
            loop {
                let source = Ipv4Addr::new(127, 0, 3, host);
                let on = client.get_or_insert_with(|| gate.connect_from(source));
                on.send_what_goes(get_with("/", "").as_bytes());
                let Some(answer) = on.try_answer() else {
                    (client, again) = (None, again + 1);
                    continue;
                };
                assert_eq!(answer.status, 200);
                break;
            }
        }
        again
    };
    let again: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=16)
            .map(|host| {
                scope.spawn({
                    let asks = &asks;
                    move || asks(host)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(again <= 2 * 16 * 30, "{again} connections ended before an answer to 480 requests");
}

/// L11: the client that holds most takes no connection slot of clients that hold less.
#[test]
fn a_client_with_many_requests_takes_no_idle_connection_of_another() {
    let slow = |request: &[u8], _| {
        if request.starts_with(b"GET /slow") { Reply::Silence } else { Reply::ok() }
    };
    let upstream = Upstream::answering(slow);
    let gate = Gate::start(&upstream.file("[proxy]\nconnections = 20\n"));
    let mut idle: Vec<Client> = (1..=5).map(|host| served(&gate, Ipv4Addr::new(127, 0, 3, host))).collect();
    let mut busy: Vec<Client> = (0..15).map(|_| gate.connect_from(Ipv4Addr::new(127, 0, 4, 1))).collect();
    busy.iter_mut().for_each(|client| client.send(get_with("/slow", "")));
    assert!(eventually(Duration::from_secs(10), || gate.metric("tollgate_connections", "") >= 20.0));
    for _ in 0..10 {
        assert!(!is_served(&gate, Ipv4Addr::new(127, 0, 4, 1)));
    }
    assert!(gate.metric("tollgate_connections_refused_total", "\"connections\"") >= 10.0);
    for client in &mut idle {
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
    }
    drop(served(&gate, Ipv4Addr::new(127, 0, 5, 1)));
}

/// A connection that was served once and is kept.
fn served(gate: &Gate, source: Ipv4Addr) -> Client {
    let mut client = gate.connect_from(source);
    client.send(get_with("/", ""));
    assert_eq!(client.answer().status, 200);
    client
}

/// H4: connecting again and again.
#[test]
fn one_client_cannot_connect_faster_than_allowed() {
    let (_upstream, gate) = started("client_rate = \"1 per 1m burst 5\"");
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let served = (0..12).filter(|_| is_served(&gate, other)).count();
    assert_eq!(served, 5);
    assert!(is_served(&gate, Ipv4Addr::new(127, 0, 0, 3)), "another client is served");
}

/// H5: no descriptors left.
#[test]
fn a_gate_without_descriptors_recovers_when_they_come_back() {
    let upstream = Upstream::start();
    let mut gate = Launch::new(&upstream.file("")).descriptors(64).start();
    let address = gate.address;
    let held: Vec<TcpStream> =
        (0..300).filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()).collect();
    assert!(held.len() > 64, "{}", held.len());
    let before = gate.processor_time();
    // Time for the accept loop to fail again and again.
    std::thread::sleep(Duration::from_millis(500));
    let busy = gate.processor_time() - before;
    assert!(busy < 20, "{busy} hundredths of a second of processor time to wait for half a second");
    assert!(gate.is_running());
    // With those of the start, on a machine that may take a second for it.
    let lines = gate.messages().lines().count();
    assert!(lines <= 16, "{lines} lines about it in half a second");
    drop(held);
    assert!(eventually(Duration::from_secs(3), || is_served(&gate, Ipv4Addr::LOCALHOST)), "it serves again");
    assert!(gate.is_running() && !gate.messages().contains("panicked"));
}

/// H6: heads that are too large in every dimension.
#[test]
fn a_head_that_is_too_large_is_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let one_header = get_with("/", &format!("X-Bomb: {}\r\n", "x".repeat(200_000)));
    let many_headers = get_with("/", &"X: y\r\n".repeat(5000));
    let long_target = get_with(&format!("/{}", "x".repeat(70_000)), "");
    let many_cookies = get_with("/", &format!("Cookie: {}\r\n", "a=b; ".repeat(20_000)));
    for (name, request) in [
        ("header", one_header),
        ("headers", many_headers),
        ("target", long_target),
        ("cookies", many_cookies),
    ] {
        let mut client = gate.connect();
        let mut sender = client.sender();
        let sending = std::thread::spawn(move || drop(sender.write_all(request.as_bytes())));
        let status = client.try_answer().map(|answer| answer.status);
        assert!(matches!(status, Some(431 | 414)), "{name}: {status:?}");
        assert!(client.ends_within(Duration::from_secs(5)), "{name}: the connection ends");
        sending.join().unwrap();
    }
    assert_eq!(upstream.bytes(), b"");
    assert_eq!(gate.ask(get_with("/", &format!("X-Fine: {}\r\n", "x".repeat(8000)))).status, 200);
}

/// L12: a target that would cost much work is refused before anybody reads it; one that is just short of that passes.
#[test]
fn a_target_that_could_mean_too_much_is_refused() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[route.login]\nmatch = \"POST /login?page=login\"\n"));
    let query = |parameter: &str, count| format!("/?a=b{}", parameter.repeat(count));
    let path = |piece: &str, count| piece.repeat(count);
    let odd = "/%2f..;a/%253f%C0%AF";
    for (most, one_more, refusal) in [
        (query("&a=b", 999), query("&a=b", 1000), 414),
        (query(";a", 999), query(";a", 1000), 414),
        (path("/a", 256), path("/a", 257), 400),
        (path(odd, 1), path(odd, 20), 400),
    ] {
        assert_eq!(gate.ask(get_with(&most, "")).status, 200, "{most}");
        let before = upstream.bytes().len();
        assert_eq!(gate.ask(get_with(&one_more, "")).status, refusal, "{one_more}");
        assert_eq!(upstream.bytes().len(), before, "{one_more}");
    }
}

/// H9: no server listens at the upstream's address.
#[test]
fn a_dead_upstream_is_a_502_that_names_nothing() {
    let port = free_port();
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{port}\"\n"));
    for request in [get_with("/", ""), post("/form", "a=b"), get_with("/", "Accept: text/html\r\n")] {
        let answer = gate.ask(request);
        assert_eq!(answer.status, 502);
        assert_clean(&answer, &[&port.to_string(), "127.0.0.1", "refused (os"]);
    }
}

/// H9: an upstream that accepts and never answers.
#[test]
fn a_silent_upstream_is_a_504_within_the_reply_time_out() {
    let upstream = Upstream::answering(|_, _| Reply::Silence);
    let gate = Gate::start(&upstream.file("[proxy]\nreply_timeout = \"300ms\"\n"));
    let started = Instant::now();
    assert_eq!(gate.ask(post("/form", "a=b")).status, 504);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(upstream.requests().len(), 1, "it is not asked again");
}

/// H9: an upstream whose queue of connections is full.
#[test]
fn an_upstream_that_does_not_accept_is_given_up_within_the_connect_time_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let quick = Duration::from_millis(200);
    let held: Vec<_> = (0..8).map(|_| TcpStream::connect_timeout(&address, quick)).collect();
    assert!(held.iter().any(Result::is_err), "its queue is full");
    let gate =
        Gate::start(&format!("upstream = \"http://{address}\"\n[proxy]\nconnect_timeout = \"300ms\"\n"));
    let started = Instant::now();
    let answer = gate.ask(get_with("/", ""));
    assert!(matches!(answer.status, 502 | 504), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// H9: an upstream that breaks off, or answers what is no HTTP.
#[test]
fn a_broken_upstream_is_a_502_and_is_not_asked_again() {
    let answers =
        ["", "HTTP/1.1", "garbage\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n"];
    for text in answers {
        let upstream = Upstream::answering(move |_, _| Reply::text_and_close(text));
        let gate = Gate::start(&upstream.file(""));
        let answer = gate.ask(post("/form", "a=b"));
        assert_eq!(answer.status, 502, "after {text:?}");
        assert_clean(&answer, &[&upstream.address.port().to_string(), "garbage"]);
        assert_eq!(upstream.requests().len(), 1, "after {text:?}");
    }
}

/// H9: a slow upstream takes no more connections than it may, and others wait no longer than they must.
#[test]
fn connections_to_a_slow_upstream_are_bounded() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(1500)));
    let gate =
        Gate::start(&upstream.file("[proxy]\nupstream_max = 2\nconnect_timeout = \"200ms\"\nthreads = 1\n"));
    // Each is another client: one alone with more than its share would wait longer.
    let mut clients: Vec<Client> =
        (1..=6).map(|host| gate.connect_from(Ipv4Addr::new(127, 0, 0, host))).collect();
    clients.iter_mut().for_each(|client| client.send(get_with("/", "")));
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.answer().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 502 | 503 | 504)), "{statuses:?}");
    assert!(upstream.connections().len() <= 2, "{}", upstream.connections().len());
}

/// H9: an upstream that answers before it has read a request, and then reads no further.
#[test]
fn a_connection_that_the_upstream_does_not_read_holds_up_no_other() {
    let address = upstream_that_reads_little();
    let gate = Gate::start(&format!(
        "upstream = \"http://{address}\"\n[proxy]\nthreads = 1\nreply_timeout = \"1s\"\n"
    ));
    for size in [20_000, 60_000, 120_000, 250_000, 500_000, 1_000_000, 3_000_000] {
        let mut client = gate.connect();
        let mut sender = client.sender();
        let request = post("/upload", &"x".repeat(size));
        let sending = std::thread::spawn(move || drop(sender.write_all(request.as_bytes())));
        assert!(client.try_answer().is_some_and(|answer| matches!(answer.status, 200 | 502 | 504)), "{size}");
        let started = Instant::now();
        let status = gate.ask(get_with("/next", "")).status;
        assert!(matches!(status, 200 | 502 | 504), "after {size} bytes: {status}");
        assert!(started.elapsed() < Duration::from_secs(5), "after {size} bytes: {:?}", started.elapsed());
        client.finish();
        drop(client);
        sending.join().unwrap();
    }
}

/// Reads some of each connection once, answers, and keeps it open.
fn upstream_that_reads_little() -> std::net::SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(64).unwrap();
    let listener: TcpListener = socket.into();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut some = [0; 200];
            let _ = std::io::Read::read(&mut stream, &mut some);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            held.push(stream);
        }
    });
    address
}

/// H11: the reader of the log is stuck.
#[test]
fn an_unread_log_holds_up_no_request() {
    let upstream = Upstream::start();
    let file = upstream.file(&format!("{ONE_AN_HOUR}[log]\naccess = \"-\"\n"));
    let gate = Launch::new(&file).stdout(Stdout::NeverRead).start();
    let agent = format!("User-Agent: {}\r\n", "a".repeat(7000));
    let mut client = gate.connect();
    // More than a pipe and any sensible queue hold.
    for number in 0..1000 {
        client.send(post_with("/login", &agent));
        let status = client.answer().status;
        assert_eq!(status, if number == 0 { 200 } else { 429 });
    }
    assert!(gate.metric("tollgate_access_log_dropped_total", "") >= 1.0, "what is lost is counted");
}

/// H12: the reader of the log has gone.
#[test]
fn a_closed_standard_output_ends_nothing() {
    let upstream = Upstream::start();
    let file = upstream.file("[log]\naccess = \"-\"\n");
    let mut gate = Launch::new(&file).stdout(Stdout::Closed).start();
    for _ in 0..20 {
        assert_eq!(gate.ask(get_with("/", "")).status, 200);
    }
    assert!(gate.is_running() && !gate.messages().contains("panicked"), "{}", gate.messages());
}

/// H12: the disk is full.
#[test]
fn a_full_disk_ends_nothing() {
    let upstream = Upstream::start();
    let mut gate = Gate::start(&upstream.file("[log]\naccess = \"/dev/full\"\n"));
    for _ in 0..20 {
        assert_eq!(gate.ask(get_with("/", "")).status, 200);
    }
    assert!(gate.is_running() && !gate.messages().contains("panicked"), "{}", gate.messages());
    assert!(gate.messages().lines().count() < 20, "{}", gate.messages());
}
