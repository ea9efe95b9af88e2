//! A gate that is wired wrongly says so, and one that is not says nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

use support::{Client, Gate, Upstream, eventually, get_with, post, post_with};

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1h\"\n";

fn warnings(gate: &Gate) -> Vec<String> {
    let mut stream = UnixStream::connect(gate.admin_socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    status["warnings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn readiness(gate: &Gate) -> String {
    let mut client = Client::connect(gate.admin);
    client.send("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 200, "a warning is no reason to leave the gate out");
    answer.text()
}

/// Waits for the one warning with these words, in `status`, in `/readyz` and, once, in the log.
fn assert_said(gate: &Gate, words: &str, summary: &str) {
    assert!(
        eventually(Duration::from_secs(5), || warnings(gate).iter().any(|text| text.contains(words))),
        "{:?}",
        warnings(gate)
    );
    assert_eq!(warnings(gate).len(), 1, "{:?}", warnings(gate));
    assert_eq!(readiness(gate), format!("ok\nwarning: {summary}\n"));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(gate.messages().matches(words).count(), 1, "said once");
}

fn ask_from(gate: &Gate, host: u8, request: &str) -> u16 {
    let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 9, host));
    client.send(request);
    client.answer().status
}

#[test]
fn nearly_all_attempts_from_one_private_address_are_named() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    (0..104).for_each(|n| _ = ask_from(&gate, if n < 100 { 1 } else { n }, &post("/login", "a=b")));
    assert_said(
        &gate,
        "come from 127.0.9.1, a private address",
        "nearly all attempts come from one private address",
    );
}

#[test]
fn a_proxy_that_is_not_trusted_is_named() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    for n in 0..20 {
        let header = if n % 2 == 0 { "X-Forwarded-For: 203.0.113.9" } else { "Forwarded: for=203.0.113.9" };
        ask_from(&gate, 1, &get_with("/", &format!("{header}\r\n")));
    }
    assert_said(&gate, "127.0.9.1 says for whom it asks", "a peer that is not trusted names clients");
}

#[test]
fn a_form_with_a_password_that_no_route_covers_is_named_and_still_arrives() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    let body = "user=alice&pass%77ord=secret";
    let form =
        post_with("/account/enter?next=private", "Content-Type: application/x-www-form-urlencoded\r\n");
    let form = form.replace("Content-Length: 0", &format!("Content-Length: {}", body.len())) + body;
    (0..6).for_each(|n| assert_eq!(ask_from(&gate, 1 + n % 3, &form), 200));
    assert_eq!(application.last().body, body.as_bytes());
    assert_said(&gate, "posted to /account/enter, which", "passwords are posted where no route covers them");
    assert!(!gate.messages().contains("secret") && !gate.messages().contains("private"));
}

#[test]
fn one_address_that_many_browsers_share_is_named() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    for n in 0..40 {
        ask_from(&gate, 1, &post_with("/login", &format!("User-Agent: browser {n}\r\n")));
    }
    assert_said(&gate, "127.0.9.1 is refused with ", "one address is refused with many User-Agents");
}

/// The upstream leads back to the gate.
#[test]
fn a_loop_is_named() {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let target: Arc<OnceLock<SocketAddr>> = Arc::default();
    let (upstream, to) = (front.local_addr().unwrap(), Arc::clone(&target));
    std::thread::spawn(move || {
        for stream in front.incoming().map_while(Result::ok) {
            if let Some(gate) = to.get() {
                relay(stream, *gate);
            }
        }
    });
    let gate = Gate::start(&format!(
        "upstream = \"http://{upstream}\"\n{LOGIN}[proxy]\nupstream_max = 30\nconnect_timeout = \"500ms\"\n"
    ));
    target.set(gate.address).unwrap();
    assert!(gate.ask(get_with("/", "")).status >= 500, "it does not go on for ever");
    let said = || warnings(&gate).iter().any(|text| text.contains("an upstream leads back here"));
    assert!(eventually(Duration::from_secs(5), said), "{:?}", warnings(&gate));
}

fn relay(client: TcpStream, gate: SocketAddr) {
    let Ok(server) = TcpStream::connect(gate) else { return };
    for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
    }
}

/// One of the requests that people and their programs send.
fn honest_request(n: u32, host: u8) -> String {
    match n % 7 {
        0..3 => get_with("/news", &format!("User-Agent: browser {}\r\n", n % 5)),
        3 => post("/login", "a=b"),
        4 => post("/search", "q=x"),
        // One that pretends to be a proxy now and then, and one that repeats an id.
        5 if host == 7 => get_with("/", "X-Forwarded-For: 203.0.113.9\r\n"),
        5 => get_with("/", "X-Request-Id: 0192f0c1\r\n"),
        _ => post_with("/comment", "Content-Type: application/x-www-form-urlencoded\r\n"),
    }
}

#[test]
fn honest_mixed_load_names_nothing() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    for n in 0..400 {
        let host = u8::try_from(1 + n % 40).unwrap();
        ask_from(&gate, host, &honest_request(n, host));
    }
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(warnings(&gate), [""; 0]);
    assert_eq!(readiness(&gate), "ok\n");
}

/// Forty requests a second from 200 clients, some of whom forget their passwords.
#[test]
#[ignore = "takes HONEST seconds, an hour without; run by scripts/soak"]
fn an_hour_of_honest_mixed_load_names_nothing() {
    let seconds = std::env::var("HONEST").map_or(3600, |text| text.parse().unwrap());
    let application = Upstream::start();
    let gate = Gate::start(&application.file(LOGIN));
    #[expect(clippy::disallowed_methods, reason = "the pace is that of the machine")]
    let begun = std::time::Instant::now();
    let (mut refused, mut asked) = (0, 0);
    for n in 0..seconds * 40 {
        let host = u8::try_from(1 + n * 37 % 200).unwrap();
        let status = ask_from(&gate, host, &honest_request(n / 3, host));
        (asked, refused) = (asked + 1, refused + u32::from(status == 429));
        if n % 400 == 0 {
            assert_eq!(warnings(&gate), [""; 0], "after {asked} requests");
        }
        let due = Duration::from_millis(25) * n;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    assert_eq!(warnings(&gate), [""; 0]);
    assert_eq!(readiness(&gate), "ok\n");
    println!("{asked} requests, {refused} of them refused, no warning");
}
