//! What an observing gate says is what an enforcing one does.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::decisions::end;
use support::decisions::{FILE, attempt, objects};
use support::{Client, Gate, Reply, Upstream, binary, eventually, free_port, new_directory, post};

const ATTEMPTS: usize = 10_000;
/// Requests on their way at once, over one connection.
const PIPELINED: usize = 25;

/// Sign-ins that fail unless the password is right.
fn application() -> Upstream {
    Upstream::answering(|request, _| match request.ends_with(b"=right") {
        true => Reply::text("HTTP/1.1 302 Found\r\nLocation: /home\r\nContent-Length: 0\r\n\r\n"),
        false => Reply::text("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
    })
}

/// Attempts of some busy and many quiet clients, for busy and quiet accounts; one in seven is right.
fn attempts() -> impl Iterator<Item = String> {
    (0..ATTEMPTS).map(|number| {
        // A fixed scatter (Knuth's multiplicative hash), so that both gates get the same.
        let dice = number.wrapping_mul(2_654_435_761) >> 7;
        let client = if dice % 3 == 0 { dice % 20 } else { dice % 2_500 };
        let account = if dice % 5 == 0 { dice % 40 } else { dice % 1_700 };
        let password = if dice % 7 == 0 { "right" } else { "wrong" };
        let client = format!("198.51.{}.{}", client / 250, 1 + client % 250);
        attempt(&client, number, &format!("u{account}"), password)
    })
}

/// The statuses of all attempts, and the log of decisions.
fn run(mode: &str) -> (Vec<u16>, Vec<Value>) {
    let application = application();
    let log = "[log]\ndecisions = \"{dir}/decisions.log\"\n";
    let mut gate = Gate::start(&format!("mode = \"{mode}\"\n{}{log}", application.file(FILE)));
    let mut client = gate.connect();
    let (mut statuses, requests) = (Vec::new(), attempts().collect::<Vec<_>>());
    for window in requests.chunks(PIPELINED) {
        client.send(window.concat());
        statuses.extend(window.iter().map(|_| client.answer().status));
    }
    drop(client);
    end(&mut gate);
    (statuses, objects(&gate.directory.join("decisions.log"), ATTEMPTS))
}

/// What the limits said of one attempt.
#[derive(Default)]
struct Decided {
    client: String,
    /// The limits with this verdict, in their order.
    refusing: Vec<String>,
    others: Vec<String>,
}

/// By request id; limits with this verdict are the refusing ones.
fn decided(lines: &[Value], verdict: &str) -> BTreeMap<String, Decided> {
    let mut all: BTreeMap<String, Decided> = BTreeMap::new();
    for line in lines {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let decided = all.entry(text("request_id")).or_default();
        decided.client = text("client");
        match line["verdict"] == verdict {
            true => decided.refusing.push(text("limit")),
            false => decided.others.push(text("limit")),
        }
    }
    all
}

/// The refused attempts of each client.
fn refused_clients(attempts: &BTreeMap<String, Decided>) -> BTreeMap<&str, usize> {
    let mut clients = BTreeMap::new();
    for attempt in attempts.values().filter(|attempt| !attempt.refusing.is_empty()) {
        *clients.entry(&*attempt.client).or_default() += 1;
    }
    clients
}

#[test]
fn the_log_of_an_observing_gate_names_exactly_what_an_enforcing_one_refuses() {
    let (answered, observed) = run("observe");
    let (refused, enforced) = run("enforce");
    assert!(answered.iter().all(|status| [302, 401].contains(status)), "observing changes no answer");
    let (observed, enforced) = (decided(&observed, "observe"), decided(&enforced, "refuse"));
    assert_eq!((observed.len(), enforced.len()), (ATTEMPTS, ATTEMPTS));
    let (would, did) = (refused_clients(&observed), refused_clients(&enforced));
    assert_eq!(would, did);
    assert!(did.len() > 100 && did.len() < 2_000, "{} clients are refused", did.len());
    let mut by_account = 0;
    for (number, status) in refused.iter().enumerate() {
        let id = format!("a{number}");
        let (would, did) = (&observed[&id], &enforced[&id]);
        assert_eq!(!did.refusing.is_empty(), *status == 429, "{id}");
        // A client that a limit refuses is refused before the account is read, and so before its limit is asked.
        let is_early = did.refusing.len() + did.others.len() == 1;
        assert_eq!(did.refusing[0..], would.refusing[..did.refusing.len()], "{id}");
        assert!(is_early || (did.refusing == would.refusing && did.others == would.others), "{id}");
        by_account += usize::from(did.refusing == ["account"]);
    }
    assert!(by_account > 100, "{by_account}");
}

#[test]
fn an_observing_gate_answers_as_the_application_does_whatever_the_limits_say() {
    let application = application();
    let limits = "\n[limit.never]\nrate = \"1 per 30d\"\nwait = \"10s\"\n[limit.growing]\nrate = \"1 per 1d\"\ndebt = 10\n\
                  [limit.growing.escalate]\nafter = 1\nwait = \"1h\"\nfactor = 2\nmax = \"2h\"\n\
                  [refuse]\nheaders = \"always\"\ndelay = \"5s\"\n";
    let mut gate = Gate::start(&format!("mode = \"observe\"\n{}{limits}", application.file(FILE)));
    let mut client = gate.connect();
    for number in 0..20 {
        client.send(attempt("198.51.100.7", number, "alice", "wrong"));
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("retry-after")), (401, None));
        assert_eq!((answer.header("ratelimit"), answer.header("ratelimit-policy")), (None, None));
    }
    assert!(gate.metric("tollgate_decisions_total", "decision=\"observe\"") > 15.0);
    assert_eq!(gate.metric("tollgate_decisions_total", "decision=\"refuse\""), 0.0);
    drop(client);
    let messages = end(&mut gate);
    assert!(messages.contains("would refuse a client"), "{messages}");
    assert!(messages.contains("no limit refuses anything"), "{messages}");
}

#[test]
fn a_limit_that_is_off_stays_off_and_a_reload_enforces_again() {
    let application = Upstream::start();
    let file = application.file(support::ONE_AN_HOUR);
    let off = format!("{file}[limit.idle]\nmode = \"off\"\nrate = \"1 per 1h\"\n");
    let gate = Gate::start(&format!("mode = \"observe\"\n{off}"));
    for _ in 0..3 {
        assert_eq!(gate.ask(post("/login", "")).status, 200);
    }
    assert!(!gate.metrics().contains("limit=\"idle\""), "{}", gate.metrics());
    assert!(gate.reload(&off));
    assert_eq!(gate.ask(post("/login", "")).status, 429, "the bucket was emptied meanwhile");
}

#[test]
fn an_observing_gate_denies_nothing_while_its_store_is_away() {
    let application = Upstream::start();
    let store = "[store]\nurl = \"redis://127.0.0.1:1\"\non_error = \"deny\"\n\
                 secret = \"0123456789abcdef0123456789abcdef\"\n";
    let file = format!("{}{store}", application.file(support::ONE_AN_HOUR));
    let gate = Gate::start(&format!("mode = \"observe\"\n{file}"));
    for _ in 0..5 {
        assert_eq!(gate.ask(post("/login", "")).status, 200);
    }
    assert!(gate.metric("tollgate_store_fallbacks_total", "action=\"local\"") >= 5.0);
    assert_eq!(gate.metric("tollgate_store_fallbacks_total", "action=\"deny\""), 0.0);
    assert!(gate.reload(&file));
    assert_eq!(gate.ask(post("/login", "")).status, 503, "an enforcing one does");
}

#[test]
fn run_with_observe_refuses_nothing_whatever_the_file_says() {
    let (application, directory, port) = (Upstream::start(), new_directory(), free_port());
    let file = directory.join("gate.toml");
    let text = application.file(&format!("mode = \"enforce\"\n{}", support::ONE_AN_HOUR));
    fs::write(&file, format!("listen = \"http://127.0.0.1:{port}\"\n{text}")).unwrap();
    let mut gate = Command::new(binary())
        .args(["run", "--observe", "-c"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    let is_up = eventually(Duration::from_secs(10), is_up);
    let statuses: Vec<u16> = (0..if is_up { 3 } else { 0 })
        .map(|_| {
            let mut client = Client::connect(([127, 0, 0, 1], port).into());
            client.send(post("/login", ""));
            client.answer().status
        })
        .collect();
    gate.kill().unwrap();
    gate.wait().unwrap();
    let _ = fs::remove_dir_all(directory);
    assert_eq!(statuses, [200, 200, 200]);
}
