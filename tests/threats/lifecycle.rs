//! How the gate starts and stops, and what it says to a file that it cannot run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use support::{
    Client, Gate, Launch, ONE_AN_HOUR, Reply, Upstream, binary, check_file, eventually, free_port, get_with,
    new_directory, post,
};

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
    let output = Command::new(binary()).args(["run", "-c", "/nonexistent/gate.toml"]).output().unwrap();
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
        "[admin]\nlisten = \"http://0.0.0.0:9180\"\ntoken = \"0123456789abcdef0123\"",
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

/// I10: a store that is away is no reason to turn away from a gate that serves without it.
#[test]
fn a_gate_without_its_store_is_ready_and_says_that_it_is_not_well() {
    let upstream = Upstream::start();
    let unused = free_port();
    let store = format!("[store]\nurl = \"memcached://127.0.0.1:{unused}\"\n[log]\nlevel = \"error\"\n");
    let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{store}")));
    let ready = || {
        let mut client = Client::connect(gate.admin);
        client.send("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let answer = client.answer();
        (answer.status, answer.text())
    };
    let degraded = (200, "degraded: the store does not answer\n".to_owned());
    assert!(eventually(Duration::from_secs(10), || ready() == degraded), "{:?}", ready());
    assert_eq!(gate.ask(get_with("/", "")).status, 200);
}

/// I10: a gate that is about to stop accepts no new connection.
#[test]
fn a_gate_that_drains_is_not_ready_but_alive() {
    let upstream = Upstream::answering(|_, _| Reply::Silence);
    let gate = Gate::start(&upstream.file(""));
    let mut busy = gate.connect();
    busy.send(get_with("/", ""));
    upstream.wait_for(1);
    gate.signal("TERM");
    let status = |page: &str| {
        let mut client = Client::connect(gate.admin);
        client.send(format!("GET {page} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
        client.answer().status
    };
    assert!(eventually(Duration::from_secs(5), || status("/readyz") == 503));
    assert_eq!(status("/livez"), 200);
}

/// I9: another process has the port, be it another gate.
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
    let mut process = Command::new(binary())
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

/// `tollgate run` on a whole file that should not start.
fn run(config: &str) -> Output {
    let directory = new_directory();
    let file = directory.join("gate.toml");
    fs::write(&file, config).unwrap();
    let mut process = Command::new(binary())
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
