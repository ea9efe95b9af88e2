//! What an attacker can use up, how the gate starts and stops, and what leaves the process.
//!
//! Every wait of the gate has a deadline, and the tests configure short ones instead of waiting for the defaults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

mod support;

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{
    Answer, BINARY, Client, Gate, Launch, ONE_AN_HOUR, Reply, Stdout, Upstream, check_file, eventually,
    free_port, get_with, new_directory, post, post_with,
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

/// H4: idle connections of one client.
#[test]
fn one_client_cannot_take_more_connections_than_allowed() {
    let (_upstream, gate) = started("client_max = 8");
    let mut held: Vec<Client> = (0..8).map(|_| gate.connect()).collect();
    for client in &mut held {
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
    }
    assert!(!is_served(&gate, Ipv4Addr::LOCALHOST), "the ninth is refused");
    assert!(is_served(&gate, Ipv4Addr::new(127, 0, 0, 2)), "another client is served");
    assert!(gate.metric("tollgate_connections_refused_total", "") >= 1.0, "refused connections are counted");
    drop(held);
    assert!(eventually(Duration::from_secs(5), || is_served(&gate, Ipv4Addr::LOCALHOST)), "places come free");
}

/// H4: connections in all.
#[test]
fn connections_beyond_the_bound_wait_or_are_refused_and_places_come_free() {
    let (_upstream, gate) = started("connections = 10");
    let mut held: Vec<Client> = Vec::new();
    for host in 1..=10 {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 1, host));
        client.send(get_with("/", ""));
        assert_eq!(client.answer().status, 200);
        held.push(client);
    }
    let mut late = gate.connect_from(Ipv4Addr::new(127, 0, 2, 1));
    late.send_what_goes(get_with("/", "").as_bytes());
    let at_once = late.rest(Duration::from_millis(300));
    assert!(!at_once.starts_with(b"HTTP/1.1 200"), "the eleventh is not served while ten are held");
    drop(held);
    let served = eventually(Duration::from_secs(5), || is_served(&gate, Ipv4Addr::new(127, 0, 2, 2)));
    assert!(served, "places come free");
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
    let lines = gate.messages().lines().count();
    assert!(lines <= 8, "{lines} lines about it in half a second");
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

/// H9: nobody listens at the upstream.
#[test]
fn a_dead_upstream_is_a_502_that_names_nothing() {
    let port = free_port();
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{port}\"\n"));
    for request in [get_with("/", ""), post("/form", "a=b"), get_with("/", "Accept: text/html\r\n")] {
        let answer = gate.ask(request);
        assert_eq!(answer.status, 502);
        is_clean(&answer, &[&port.to_string(), "127.0.0.1", "refused (os"]);
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
        is_clean(&answer, &[&upstream.address.port().to_string(), "garbage"]);
        assert_eq!(upstream.requests().len(), 1, "after {text:?}");
    }
}

/// H9: a slow upstream takes no more connections than it may, and others wait no longer than they must.
#[test]
fn connections_to_a_slow_upstream_are_bounded() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(1500)));
    let gate =
        Gate::start(&upstream.file("[proxy]\nupstream_max = 2\nconnect_timeout = \"200ms\"\nthreads = 1\n"));
    let mut clients: Vec<Client> = (0..6).map(|_| gate.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(get_with("/", "")));
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.answer().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 502 | 503 | 504)), "{statuses:?}");
    assert!(upstream.connections().len() <= 2, "{}", upstream.connections().len());
}

/// H9: an upstream that answers before it has read a request, and then reads no further.
#[test]
fn a_connection_that_the_upstream_does_not_read_holds_up_nobody() {
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
fn a_log_that_nobody_reads_holds_up_no_request() {
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

/// H12: nobody reads the log any more.
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

/// I1: a file with a mistake.
#[test]
fn a_bad_file_is_refused_with_its_place_before_anything_is_bound() {
    let port = free_port();
    let output = run(&format!(
        "listen = \"http://127.0.0.1:{port}\"\nupstream = \"http://127.0.0.1:2\"\n{ONE_AN_HOUR}exempt = [\"ofice\"]\n\
         [networks]\noffice = [\"203.0.113.0/24\"]\n"
    ));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("ofice") && said.contains("did you mean `office`?"), "{said}");
    assert!(said.contains("gate.toml:9:11"), "file, line and column: {said}");
    assert!(output.stdout.is_empty() && TcpStream::connect(("127.0.0.1", port)).is_err());
}

/// I1: a file that is not there, or is not TOML.
#[test]
fn a_missing_or_unreadable_file_is_a_clear_error() {
    let output = Command::new(BINARY).args(["run", "-c", "/nonexistent/gate.toml"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/nonexistent/gate.toml"), "{said}");
    let output = run("listen = \"http://127.0.0.1:1\nupstream = ");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("gate.toml:1:"), "{said}");
}

/// I3: whatever is not understood is refused and not skipped.
#[test]
fn unknown_keys_and_values_without_sense_are_refused() {
    let mistakes = [
        "[limit.b]\nrate = \"1 per 1h\"\nbrust = 3",
        "[limit.b]\nrate = \"1 per 1h\"\nrate = \"2 per 1h\"",
        "[limit.b]\nrate = \"0 per 1h\"",
        "[limit.b]\nrate = \"-1 per 1h\"",
        "[limit.b]\nrate = \"1 per 0s\"",
        "[limit.b]\nrate = \"1 per 1h burst 0\"",
        "[limit.b]\nrate = \"1.5 per 1h\"",
        "[limit.b]\nrate = \"1 per 5 parsecs\"",
        "[limit.b]\nrate = \"lots\"",
        "[limit.b]\nrate = 10",
        "[limit.b]",
        "[limit.b]\nrate = \"1 per 1h\"\nipv4 = 33",
        "[limit.b]\nrate = \"1 per 1h\"\nipv6 = 129",
        "[limit.b]\nrate = \"1 per 1h\"\nipv4 = -1",
        "[limit.b]\nrate = \"1 per 1h\"\nkey = \"iq\"",
        "[limit.b]\nrate = \"1 per 1h\"\nmode = \"perhaps\"",
        "[limit.b]\nrate = \"1 per 1h\"\ninitial = 2",
        "[limit.b]\nrate = \"1 per 1h\"\nexempt = [\"300.0.0.0/8\"]",
        "[limit.b]\nrate = \"1 per 1h\"\nroutes = [\"nowhere\"]",
        "[route.b]\nmatch = \"POST login\"",
        "[route.b]\nmatch = \"login\"",
        "[route.b]\nmatch = [\"POST /a\", 3]",
        "[route.b]\nmatch = \"POST /b\"\ncost = 0",
        "[route.b]\nmatch = \"POST /b\"\nlimits = [\"nothing\"]",
        "[proxy]\nheader_timeout = \"10\"",
        "[proxy]\nheader_timeout = 10",
        "[proxy]\nheader_timeout = \"-1s\"",
        "[proxy]\nconnections = 0",
        "[proxy]\nclient_rate = \"0/s\"",
        "[refuse]\nstatus = 200",
        "[refuse]\njitter = -0.5",
        "[log]\nlevel = \"shout\"",
        "[store]\nurl = \"memroy:\"",
        "[sotre]\ncapacity = 1",
        "[client]\ntrust = [\"everybody\"]",
        "nonsense = 1",
    ];
    let head = "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n";
    for mistake in mistakes {
        let text = if mistake.starts_with('[') {
            format!("{head}{ONE_AN_HOUR}{mistake}\n")
        } else {
            format!("{mistake}\n{head}{ONE_AN_HOUR}")
        };
        let output = check_file(&text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{mistake}\n{said}");
        assert!(said.contains("gate.toml:"), "{mistake}\n{said}");
        assert!(!said.contains("panicked"), "{mistake}\n{said}");
    }
}

/// I4: what is legal and surely wrong is said aloud; what can never be right is refused.
#[test]
fn an_unsafe_file_is_warned_about_or_refused() {
    let head = "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n";
    let unsafe_ones = [
        "[client]\ntrust = [\"0.0.0.0/0\"]",
        "[client]\ntrust = [\"::/0\"]",
        "[admin]\nlisten = \"http://0.0.0.0:9180\"",
        "[store]\ncapacity = 0",
        "[store]\non_error = \"allow\"",
        "[client]\nipv6 = 128",
        "[client]\nipv4 = 0",
        "[limit.lonely]\nrate = \"1 per 1h\"\nroutes = []",
    ];
    for tables in unsafe_ones {
        let output = check_file(&format!("{head}{ONE_AN_HOUR}{tables}\n"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let warned = output.status.success() && said.contains("warning");
        assert!(warned || output.status.code() == Some(78), "{tables}\n{said}");
    }
    let fine = check_file(&format!("{head}{ONE_AN_HOUR}"));
    assert!(fine.status.success() && fine.stderr.is_empty(), "{fine:?}");
}

/// I6: a request in flight when the gate is told to stop.
#[test]
fn a_stopping_gate_finishes_what_is_in_flight_and_exits_with_0() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(700)));
    let mut gate = Gate::start(&upstream.file(""));
    let mut idle = gate.connect();
    let mut busy = gate.connect();
    busy.send(post("/form", "a=b"));
    upstream.wait_for(1);
    gate.signal("TERM");
    assert!(idle.ends_within(Duration::from_secs(5)), "idle connections are closed");
    let refused = || TcpStream::connect(gate.address).is_err();
    assert!(eventually(Duration::from_secs(2), refused), "no new ones are accepted");
    let answer = busy.answer();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"ok"[..]));
    assert!(answer.closes() || busy.ends_within(Duration::from_secs(5)), "and then its connection ends");
    let status = gate.exit_status(Duration::from_secs(10)).expect("it exits");
    assert_eq!(status.code(), Some(0), "{}", gate.messages());
}

/// I6: a connection on which nothing is going on does not hold up the end.
#[test]
fn a_stopping_gate_does_not_wait_for_connections_without_a_request() {
    let upstream = Upstream::start();
    let mut gate = Gate::start(&upstream.file(""));
    let (silent, mut half, mut kept) = (gate.connect(), gate.connect(), gate.connect());
    half.send("GET / HTTP/1.1\r\nHost: a");
    kept.send(get_with("/", ""));
    assert_eq!(kept.answer().status, 200);
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(5)).is_some_and(|status| status.success()));
    drop((silent, half));
}

/// I6: with several listeners, every connection is waited for.
#[test]
fn a_stopping_gate_waits_for_the_requests_of_all_its_listeners() {
    let upstream = Upstream::answering(|_, _| Reply::ok().after(Duration::from_millis(600)));
    let file = upstream.file("[proxy]\nthreads = 1\n");
    let gate = Launch::new(&file).on_unix_socket_too().start();
    let by_socket: Vec<_> = (0..8)
        .map(|_| {
            let mut stream =
                std::os::unix::net::UnixStream::connect(gate.directory.join("gate.sock")).unwrap();
            stream.write_all(get_with("/unix", "").as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut busy: Vec<Client> = (0..4).map(|_| gate.connect()).collect();
    busy.iter_mut().for_each(|client| client.send(get_with("/tcp", "")));
    upstream.wait_for(12);
    drop(by_socket);
    gate.signal("TERM");
    let statuses: Vec<_> =
        busy.iter_mut().map(|client| client.try_answer().map(|answer| answer.status)).collect();
    assert_eq!(statuses, [Some(200); 4]);
}

/// I6: a request that never ends does not keep the gate alive.
#[test]
fn a_stopping_gate_waits_no_longer_than_it_was_told() {
    let upstream = Upstream::answering(|_, _| Reply::Silence);
    for (drain, second) in [("300ms", false), ("1h", true)] {
        let mut gate = Gate::start(&upstream.file(&format!("[proxy]\ndrain = \"{drain}\"\n")));
        let mut client = gate.connect();
        let before = upstream.requests().len();
        client.send(get_with("/", ""));
        upstream.wait_for(before + 1);
        gate.signal("TERM");
        if second {
            assert!(gate.exit_status(Duration::from_millis(300)).is_none(), "it drains");
            gate.signal("TERM");
        }
        assert!(
            gate.exit_status(Duration::from_secs(5)).is_some(),
            "drain = {drain}, second signal: {second}"
        );
    }
}

/// I9: somebody else has the port, be it another gate.
#[test]
fn a_port_that_is_taken_is_a_clear_error() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    for taken in [stranger.local_addr().unwrap(), gate.address] {
        let output = run(&format!("listen = \"http://{taken}\"\n{}", upstream.line()));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{taken}: {said}");
        assert!(said.contains(&taken.to_string()) && said.to_lowercase().contains("in use"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// I9: addresses of both families.
#[test]
fn a_listener_on_every_address_takes_both_families() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let (upstream, port) = (Upstream::start(), free_port());
    let directory = new_directory();
    let file = directory.join("gate.toml");
    fs::write(&file, format!("listen = \"http://[::]:{port}\"\n{}", upstream.line())).unwrap();
    let mut process = Command::new(BINARY)
        .args(["run", "-c"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let served = ["127.0.0.1", "[::1]"].map(|host| {
        let address = format!("{host}:{port}").parse().unwrap();
        let up = eventually(Duration::from_secs(5), || TcpStream::connect(address).is_ok());
        up && {
            let mut client = Client::connect(address);
            client.send(get_with("/", ""));
            client.answer().status == 200
        }
    });
    let _ = process.kill();
    let _ = process.wait();
    let _ = fs::remove_dir_all(&directory);
    assert_eq!(served, [true, true]);
    assert_eq!(upstream.requests()[0].only("x-forwarded-for"), "127.0.0.1", "not its mapped spelling");
}

/// J1: what a client sends cannot forge a line of the log or command a terminal.
#[test]
fn one_request_is_one_line_of_plain_text_in_the_log() {
    for style in ["combined", "json"] {
        let upstream = Upstream::start();
        let log = "[log]\naccess = \"{dir}/access.log\"\nstyle = \"STYLE\"\n".replace("STYLE", style);
        let gate = Gate::start(&upstream.file(&log));
        let hostile = [
            get_with("/a%0d%0aforged", ""),
            get_with("/a\u{1b}[31mred", ""),
            get_with("/a\"b\\c", ""),
            get_with("/%1b%5b31m", ""),
            get_with("/bidi", "User-Agent: \u{202e}\u{2066}txt.exe\r\n"),
            get_with("/csi", "User-Agent: \u{9b}31m\u{85}\u{2028}x\r\n"),
            get_with("/quote", "User-Agent: a\" \"b\\\r\nReferer: \" 200 0 \"\r\n"),
            get_with("/tab", "User-Agent: a\tb\r\n"),
            get_with("/esc", "User-Agent: \u{1b}]0;owned\u{7}\r\n"),
            "GET /host HTTP/1.1\r\nHost: a\"b\r\n\r\n".into(),
            "G\u{1b}T / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        ];
        for request in &hostile {
            let _ = gate.try_ask(request);
        }
        assert_eq!(gate.ask(get_with("/last", "")).status, 200);
        let read = || fs::read(gate.directory.join("access.log")).unwrap_or_default();
        let complete = || String::from_utf8_lossy(&read()).contains("/last");
        assert!(eventually(Duration::from_secs(5), complete), "the log is written");
        let bytes = read();
        assert!(
            bytes.iter().all(|byte| *byte == b'\n' || (0x20..0x7F).contains(byte)),
            "{}",
            bytes.escape_ascii()
        );
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().count();
        assert!((6..=hostile.len() + 1).contains(&lines), "{lines} lines: {text}");
        for line in text.lines() {
            assert!(line.starts_with(if style == "json" { "{" } else { "127.0.0.1 - " }), "{line}");
            let unescaped =
                line.replace("\\\\", "").replace("\\\"", "").replace("\\x22", "").matches('"').count();
            assert!(style == "json" || unescaped == 6, "{unescaped} quotes: {line}");
        }
    }
}

/// J1: the same for what the gate says itself.
#[test]
fn the_gates_own_messages_hold_no_byte_of_a_client_as_it_came() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[log]\nlevel = \"trace\"\n"));
    for request in [
        get_with("/a\u{1b}[31m", ""),
        get_with("/", "X: \u{7}\r\n"),
        get_with("/", "User-Agent: \u{202e}x\r\n"),
    ] {
        let _ = gate.try_ask(request);
    }
    let said = gate.messages();
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", said.escape_debug());
}

/// J2: templates of the gate's own answers.
#[test]
fn nothing_that_a_client_sends_splits_or_marks_up_an_answer() {
    let upstream = Upstream::start();
    let directory = new_directory();
    let page = directory.join("refused.html");
    fs::write(&page, "<p>{{retry_after}} {{limit}} [{{request_id}}]</p>").unwrap();
    let gate =
        Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}[refuse]\nhtml = \"{}\"\n", page.display())));
    gate.drain("/login", "");
    let ids = [
        "<script>alert(1)</script>",
        "a\"onload=\"x",
        "\\\"",
        "{{limit}}",
        &"x".repeat(5000),
        "%0d%0aSet-Cookie:a",
    ];
    for id in ids {
        let ask = |accept: &str| {
            gate.ask(post_with("/login", &format!("Accept: {accept}\r\nX-Request-Id: {id}\r\n")))
        };
        let answer = ask("text/html");
        assert_eq!((answer.status, answer.header("set-cookie")), (429, None));
        let text = answer.text();
        assert!(!text.contains("<script") && !text.contains("onload=\"") && text.len() < 4000, "{text}");
        assert!(answer.header("x-request-id").is_some_and(|id| (1..300).contains(&id.len())), "{answer:?}");
        let json: serde_json::Value = serde_json::from_slice(&ask("application/json").body).expect("JSON");
        assert_eq!(json["status"], 429);
    }
    let _ = fs::remove_dir_all(directory);
}

/// J3: the page of a refusal.
#[test]
fn the_page_of_a_refusal_runs_no_script_of_anybody() {
    let upstream = Upstream::start();
    let gate = Gate::start(
        &upstream.file("[route.all]\nmatch = \"POST /**\"\n[limit.address]\nrate = \"1 per 1h\"\n"),
    );
    gate.drain("/login", "");
    for target in [
        "/login?next=<script>alert(1)</script>",
        "/\"><img/src=x>",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/'onmouseover=alert(1)",
    ] {
        let lines = "Accept: text/html\r\nReferer: http://a/<script>\r\nUser-Agent: <script>\r\n";
        let answer = gate.ask(post_with(target, lines));
        if answer.status == 400 {
            continue;
        }
        assert_eq!(answer.status, 429, "{target}");
        let text = answer.text();
        assert!(!text.contains("alert(1)") && !text.contains("<img") && !text.contains("<script"), "{text}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").expect("a policy for the page");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

/// J4: no answer of the gate itself may be kept and given to somebody else.
#[test]
fn no_answer_of_the_gates_own_is_cached() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    for accept in ["text/html", "application/json", "text/plain", "*/*"] {
        let answer = gate.ask(post_with("/login", &format!("Accept: {accept}\r\n")));
        assert_eq!((answer.status, answer.header("cache-control")), (429, Some("no-store")), "{accept}");
        assert!(answer.header("vary").is_some_and(|vary| vary.to_lowercase().contains("accept")));
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
    }
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{}\"\n", free_port()));
    assert_eq!(gate.ask(get_with("/", "")).header("cache-control"), Some("no-store"));
    let malformed = gate.ask("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((malformed.status, malformed.header("cache-control")), (400, Some("no-store")));
}

/// J5: whether limits are told is the file's choice.
#[test]
fn limits_are_told_as_the_file_says() {
    let upstream = Upstream::start();
    for (headers, with_refusals, with_others) in [
        ("", true, false),
        ("[refuse]\nheaders = \"never\"\n", false, false),
        ("[refuse]\nheaders = \"always\"\n", true, true),
    ] {
        let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{headers}")));
        let answers = [gate.ask(post("/login", "")), gate.ask(post("/login", ""))];
        let told = answers.each_ref().map(|answer| {
            let both = [answer.header("ratelimit"), answer.header("ratelimit-policy")];
            assert_eq!(both[0].is_some(), both[1].is_some());
            both[0].is_some()
        });
        assert_eq!(told, [with_others, with_refusals], "{headers:?}");
        if with_refusals {
            let (limit, policy) =
                (answers[1].header("ratelimit").unwrap(), answers[1].header("ratelimit-policy"));
            assert!(limit.starts_with("\"address\";r=0;t="), "{limit}");
            assert_eq!(policy, Some("\"address\";q=1;w=3600"));
        }
    }
}

/// J6: what the upstream hears about the client comes from the gate alone.
#[test]
fn forged_identity_is_replaced_by_ours() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let forged = "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\n\
                  X-Forwarded-Proto: https\r\nForwarded: for=9.9.9.9\r\nx-real-ip: 9.9.9.9\r\n";
    assert_eq!(gate.ask(get_with("/", forged)).status, 200);
    let request = upstream.last();
    assert_eq!(request.only("x-forwarded-for"), "127.0.0.1");
    assert_eq!(request.only("x-forwarded-proto"), "http");
    assert_eq!(request.only("x-forwarded-host"), "app.test");
    assert!(request.headers.iter().all(|(_, value)| !value.contains("9.9.9.9") && !value.contains("evil")));
}

/// J7: no answer of the gate says what it is made of.
#[test]
fn no_answer_names_the_server_its_version_or_what_is_behind_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let port = upstream.address.port().to_string();
    let secrets = [port.as_str(), "/tmp", env!("CARGO_MANIFEST_DIR"), ".rs", "src/"];
    is_clean(&gate.ask(post("/login", "")), &secrets);
    for request in [
        "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        get_with("/", &format!("X: {}\r\n", "x".repeat(100_000))),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(),
    ] {
        if let Some(answer) = gate.try_ask(request) {
            is_clean(&answer, &secrets);
        }
    }
    let upstreams_own = Upstream::answering(|_, _| {
        Reply::text("HTTP/1.1 200 OK\r\nServer: app/1\r\nContent-Length: 0\r\n\r\n")
    });
    let gate = Gate::start(&upstreams_own.file(""));
    assert_eq!(
        gate.ask(get_with("/", "")).header("server"),
        Some("app/1"),
        "what the upstream says is its own"
    );
}

/// No word about the program or about the place where it runs.
fn is_clean(answer: &Answer, secrets: &[&str]) {
    assert_eq!(
        (answer.header("server"), answer.header("x-powered-by"), answer.header("via")),
        (None, None, None)
    );
    let shown = format!("{:?} {}", answer.headers, answer.text());
    for word in secrets.iter().copied().chain(["hyper", "panicked", "backtrace", env!("CARGO_PKG_VERSION")]) {
        assert!(!shown.contains(word), "{word:?} in {shown}");
    }
}

/// `tollgate run` on a whole file that should not start.
fn run(config: &str) -> Output {
    let directory = new_directory();
    let file = directory.join("gate.toml");
    fs::write(&file, config).unwrap();
    let mut process = Command::new(BINARY)
        .args(["run", "-c"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = eventually(Duration::from_secs(5), || process.try_wait().unwrap().is_some());
    if !ended {
        let _ = process.kill();
    }
    let output = process.wait_with_output().unwrap();
    let _ = fs::remove_dir_all(&directory);
    assert!(ended, "it runs on: {}", String::from_utf8_lossy(&output.stderr));
    output
}
