//! A gate under mixed traffic writes its access log; replaying it decides every attempt as the gate did.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::report;
use support::{Client, Gate, Reply, Upstream};

/// Limits of every shape that an access log can judge, small enough to refuse within seconds. One worker decides, so
/// that the order of two attempts on one bucket is that of their times.
const LIMITS: &str = r#"
[proxy]
threads = 1

[log]
access = "{dir}/access.log"
style = "json"

[route.login]
match = "POST /login"
success = [{ status = 303 }]
failure = [{ status = 401 }]

limits = ["address", "failures", "all"]

[route.session]
match = "POST /api/*/session"
limits = ["subnet", "watched"]
success = [{ status = 303 }]
otherwise = "failure"

[route.periods]
match = "POST /periods"
limits = ["periods", "failures"]
failure = [{ status = 401 }]

[route.growing]
match = "POST /growing"
limits = ["growing", "all"]
failure = [{ status = 401 }]

[limit.address]
rate = "6 per 1s burst 3"
wait = "20ms"

[limit.subnet]
ipv4 = 24
rate = "5 per 1s burst 5"

[limit.failures]
rate = "3 per 1s burst 6"
count = "failures"

[limit.periods]
rate = "2 per 1s"
refill = "interval"

[limit.growing]
rate = "3 per 1s burst 3"
[limit.growing.escalate]
after = 3
wait = "1s"
factor = 2
max = "10s"

[limit.watched]
rate = "2 per 1s"
mode = "observe"

[limit.all]
key = "all"
rate = "60 per 1s burst 15"
"#;

/// By account besides, which only the decision log names.
const LIMIT_BY_ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"9 per 1s burst 9\"\n";

/// Attempts of all clients at a gate that then ends.
fn recorded(file: &str) -> Gate {
    let upstream = Upstream::answering(|request, number| {
        let is_good = request.windows(4).any(|four| four == b"good");
        let reply = Reply::Bytes(response(if is_good { "303 See Other" } else { "401 Unauthorized" }));
        // Slow answers are logged, and settle, after attempts that came later.
        if number % 5 == 4 { Reply::After(Duration::from_millis(30), Box::new(reply)) } else { reply }
    });
    let mut gate = Gate::start(&upstream.file(file).replace("{dir}", "."));
    let clients: Vec<_> = (0..6).map(|thread| client(&gate, thread)).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    gate.signal("TERM");
    assert!(
        gate.exit_status(Duration::from_secs(5)).is_some(),
        "the gate ends and writes the rest of its log"
    );
    gate
}

#[test]
fn a_recorded_log_is_decided_as_the_gate_decided_it() {
    let gate = recorded(LIMITS);
    let found = report(&gate.directory, &["-c", "gate.toml", "access.log"]);
    let (log, policy) = (&found["log"], &found["policies"][0]);
    let log_lines = fs::read_to_string(gate.directory.join("access.log")).unwrap();
    let refused = log_lines.lines().filter(|line| !line.contains("\"refused_by\":null")).count();
    let attempts = log_lines.lines().filter(|line| !line.contains("\"route\":null")).count();
    assert!(refused > 100 && attempts > refused + 100, "{refused} of {attempts}");
    assert_eq!((log["unreadable"].as_u64(), log["late"].as_u64()), (Some(0), Some(0)), "{log}");
    let differences = serde_json::json!({
        "compared": attempts, "refused_then": 0, "refused_now": 0, "other_limit": 0, "uncounted_then": 0,
    });
    assert_eq!(policy["gate"], differences, "{attempts} attempts");
    assert_eq!(policy["refused"], refused);
    let limits = policy["limits"].as_array().unwrap();
    let refusing: Vec<_> = limits
        .iter()
        .filter(|limit| limit["refused"] != 0)
        .map(|limit| limit["limit"].as_str().unwrap())
        .collect();
    assert!(refusing.len() >= 5 && refusing.contains(&"watched"), "{refusing:?}");

    // The same comparison finds a difference where there is one.
    let other = fs::read_to_string(gate.directory.join("gate.toml")).unwrap();
    let other = other.replace("3 per 1s burst 6", "2 per 1s burst 4");
    fs::write(gate.directory.join("other.toml"), other).unwrap();
    let found = report(&gate.directory, &["-c", "other.toml", "access.log"]);
    assert_ne!(found["policies"][0]["gate"], differences);
}

#[test]
fn a_decision_log_is_decided_as_the_gate_decided_it_with_accounts_by_their_hashes() {
    let named = LIMITS.replace("style = \"json\"\n", "decisions = \"{dir}/decisions.log\"\n");
    let named = named.replace(
        "failure = [{ status = 401 }]\n\nlimits = [",
        "failure = [{ status = 401 }]\nuser = \"form:name\"\n\nlimits = [",
    );
    let named = named.replace("limits = [\"address\", ", "limits = [\"account\", \"address\", ");
    let gate = recorded(&format!("{named}{LIMIT_BY_ACCOUNT}"));
    let log = fs::read_to_string(gate.directory.join("decisions.log")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_account = |line: &&serde_json::Value| line["limit"] == "account" && line["verdict"] == "refuse";
    assert!(lines.iter().filter(of_account).count() > 20, "accounts are refused");
    let attempts: BTreeSet<String> =
        lines.iter().map(|line| format!("{} {}", line["time"], line["request_id"])).collect();
    assert!(!log.contains("anna"), "names are in no log");

    let found = report(&gate.directory, &["-c", "gate.toml", "decisions.log"]);
    let (log, policy) = (&found["log"], &found["policies"][0]);
    assert_eq!((&log["formats"][0], log["unreadable"].as_u64()), (&"decisions of tollgate".into(), Some(0)));
    let differences = serde_json::json!({
        "compared": attempts.len(), "refused_then": 0, "refused_now": 0, "other_limit": 0, "uncounted_then": 0,
    });
    assert_eq!(policy["gate"], differences);
    let account =
        policy["limits"].as_array().unwrap().iter().find(|limit| limit["limit"] == "account").unwrap();
    assert_eq!(
        (&account["not_judged"], account["refused"].as_u64() > Some(20)),
        (&serde_json::Value::Null, true)
    );
}

/// Sends attempts from its own addresses and from one that it shares with its neighbour: for three seconds, and on a
/// busy machine until enough were refused.
fn client(gate: &Gate, thread: u8) -> std::thread::JoinHandle<()> {
    let addresses = [[127, 0, 1 + thread / 2, 10 + thread], [127, 0, 1 + thread / 2, 1], [127, 0, 9, thread]];
    let address = gate.address;
    std::thread::spawn(move || {
        let mut clients = addresses.map(|source| Client::connect_from(Ipv4Addr::from(source), address));
        let start = Instant::now();
        let mut refused = 0;
        for round in 0..2_000_u32 {
            let elapsed = start.elapsed();
            if elapsed > Duration::from_secs(20) || (elapsed > Duration::from_secs(3) && refused > 60) {
                break;
            }
            let client = &mut clients[usize::from(round % 7 < 3) + usize::from(round % 11 == 0)];
            client.send(request(round));
            refused += u32::from(client.answer().status == 429);
            // Bursts with pauses, so that buckets refill in between.
            if round % 20 == 0 {
                std::thread::sleep(Duration::from_millis(u64::from(40 * (round % 60) / 20 + 20)));
            }
        }
    })
}

fn request(round: u32) -> String {
    let (target, body) = match round % 10 {
        0 => ("/page", ""),
        1 | 2 => ("/api/v1/session", "name=anna&password=bad"),
        3 => ("/growing", "name=anna&password=bad"),
        4 if round % 20 == 4 => ("/periods", "name=anna&password=good"),
        9 => ("/periods", "name=anna&password=bad"),
        4 | 5 => ("/login", "name=anna&password=good"),
        _ => ("/login?next=%2F", "name=anna&password=bad"),
    };
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    format!("{method} {target} HTTP/1.1\r\nHost: app.test\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn response(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}
