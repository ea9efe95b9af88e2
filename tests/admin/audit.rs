//! The audit log of a running gate: a line for each change, none without its line, and a chain that shows what was done to it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use support::{Gate, Launch, Reply, Upstream, binary, eventually};

use crate::caller::{LOGIN, RIGHT, TOKEN, ask, ask_locally, call, tollgate};

const ADMIN: &str = "audit = \"audit.log\"\ntokens = [{ name = \"desk\", role = \"unlock\", token = \"desk-0123456789abcdef\" }]\n";
const DESK: &str = "Authorization: Bearer desk-0123456789abcdef\r\nX-Tollgate-Request: 1\r\n";

fn gate(upstream: &Upstream) -> Gate {
    let file = upstream.file(&LOGIN.replace("login\"", "login\"\nuser = \"query:u\""));
    let account = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1000h\"\n";
    launch(&format!("{file}{account}")).start()
}

fn launch(file: &str) -> Launch {
    Launch::new(file).with_admin(ADMIN).environment("TOLLGATE_ADMIN__TOKEN", TOKEN)
}

fn path(gate: &Gate) -> PathBuf {
    gate.directory.join("audit.log")
}

fn lines(gate: &Gate) -> Vec<Value> {
    let text = fs::read_to_string(path(gate)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Exit code and both outputs of `tollgate audit verify`.
fn verify(words: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(binary()).args(["audit", "verify"]).args(words).env_remove("TOLLGATE_CONFIG").output();
    let output = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

fn head(gate: &Gate) -> String {
    ask_locally(gate, "GET", "/api/v1/status", "").1["audit"]["head"].as_str().unwrap().to_owned()
}

#[test]
fn each_change_leaves_one_line_with_who_what_why_before_and_after() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    gate.drain("/login?u=alice", "");
    let reason = "X-Tollgate-Reason: ticket \"7\" \\ é\r\n";
    assert_eq!(desk(&gate, "DELETE", "/api/v1/buckets/user:alice", reason), 200);
    let prefix = "/api/v1/exemptions/203.0.113.0%2F24";
    assert_eq!(ask(&gate, "PUT", prefix, r#"{"for":"1h","why":"move"}"#).0, 200);
    assert_eq!(ask(&gate, "DELETE", prefix, "").0, 200);
    let observe = r#"{"mode":"observe"}"#;
    assert_eq!(ask_locally(&gate, "PUT", "/api/v1/limits/address/mode", observe).0, 200);

    let found = lines(&gate);
    assert_eq!(whats(&found), ["bucket.reset", "prefix.exempt", "prefix.exempt.end", "mode"]);
    let [reset, exempt, ended, mode] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&reset["who"], &reset["from"]), (&json!("desk"), &json!("127.0.0.1")));
    assert_eq!(reset["why"], "ticket \"7\" \\ é");
    assert_eq!((&reset["before"][0]["tokens"], &reset["after"][0]["tokens"]), (&json!(0), &json!(1)));
    let account = ask_locally(&gate, "GET", "/api/v1/buckets/user:alice", "").1["account"].clone();
    let account = format!("user:#{}", account.as_str().unwrap());
    assert_eq!(reset["target"], account, "as the decision log writes it");
    assert!(!fs::read_to_string(path(&gate)).unwrap().contains("alice"));
    assert_eq!((&exempt["who"], &exempt["why"]), (&json!("admin"), &json!("move")));
    assert_eq!((&exempt["before"], &ended["after"]), (&Value::Null, &Value::Null));
    let prefix = json!("203.0.113.0/24");
    assert_eq!((&exempt["after"]["prefix"], &ended["before"]["prefix"]), (&prefix, &prefix));
    assert!(mode["who"].as_str().unwrap().starts_with("uid ") && mode["pid"].is_u64(), "{mode}");
    let modes = (&mode["before"][0]["mode"], &mode["after"]["mode"]);
    assert_eq!(modes, (&json!("enforce"), &json!("observe")));
    assert!(found.iter().all(|line| line["gate"].is_string() && line["time"].is_string()));
}

#[test]
fn what_the_first_line_cannot_tell_is_told_by_a_second_one() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let (code, _, error) = tollgate(&gate, &["reload", "--why", "new list"]);
    assert_eq!(code, Some(0), "{error}");
    let ban = "/api/v1/bans/203.0.113.0%2F24";
    assert_eq!(ask(&gate, "DELETE", ban, "").0, 404);
    assert_eq!(desk(&gate, "DELETE", ban, ""), 403);
    assert_eq!(desk(&gate, "GET", "/api/v1/status", "X-Tollgate-Reason: look\r\n"), 200);

    let found = lines(&gate);
    let expected = ["reload", "reload", "prefix.ban.end", "prefix.ban.end"];
    assert_eq!(whats(&found), expected, "neither a look nor a refused caller has a line");
    let [asked, reload, ban, refused] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&asked["why"], &asked["after"]), (&json!("new list"), &Value::Null));
    assert_eq!((&reload["why"], &reload["before"]), (&json!("new list"), &reload["after"]));
    assert_eq!(reload["of"], reload["previous"], "it names the line that announced it");
    assert_eq!((&ban["failed"], refused["failed"].is_string()), (&Value::Null, true), "{refused}");

    let file = path(&gate);
    let (code, said) = verify(&[file.to_str().unwrap(), "--last", &head(&gate)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("4 lines are one chain") && said.contains(&head(&gate)), "{said}");
    let config = gate.directory.join("gate.toml");
    let (code, said) = verify(&["-c", config.to_str().unwrap()]);
    assert_eq!(code, Some(0), "the configuration names the file: {said}");
}

/// The status for the desk, with these lines.
fn desk(gate: &Gate, method: &str, path: &str, lines: &str) -> u16 {
    call(gate, method, path, &format!("{DESK}{lines}"), "").status
}

fn whats(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["what"].as_str().unwrap()).collect()
}

/// Anybody who may write the file may change its end; whoever noted a hash sees it.
#[test]
fn what_is_done_to_a_line_is_found_at_the_next_one() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    for _ in 0..5 {
        assert_eq!(ask(&gate, "POST", "/api/v1/buckets/user:bob/credit", r#"{"tokens":1}"#).0, 200);
    }
    let head = head(&gate);
    let text = fs::read_to_string(path(&gate)).unwrap();
    let good: Vec<&str> = text.lines().collect();
    let altered = gate.directory.join("altered.log");
    let altered = altered.to_str().unwrap();
    let said = |lines: &[&str], words: &[&str]| {
        fs::write(altered, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        verify(&[&[altered], words].concat())
    };
    assert_eq!(said(&good, &[]).0, Some(0));
    let changed = good[1].replace("admin", "other");
    for (lines, at) in [
        (good[1..].to_vec(), 1),
        ([&good[..1], &good[2..]].concat(), 2),
        ([&good[..1], &[changed.as_str()], &good[2..]].concat(), 3),
        ([&good[..1], &[good[2], good[1]], &good[3..]].concat(), 2),
        ([&good[..2], &[good[1]], &good[2..]].concat(), 3),
        ([&good[..2], &["{}"], &good[2..]].concat(), 4),
        ([&good[..2], &[""], &good[2..]].concat(), 4),
    ] {
        let (code, words) = said(&lines, &[]);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.starts_with(&format!("{altered}:{at}: ")), "{at}: {words}");
    }
    let (code, words) = said(&good[..4], &[]);
    assert!(code == Some(0) && words.contains("only --last HASH or --fleet can tell"), "{words}");
    let (code, words) = said(&good[..4], &["--last", &head]);
    assert!(code == Some(1) && words.contains("was cut off"), "{words}");
    // The gate goes on after its own last line, whatever the file says.
    fs::write(path(&gate), good[..4].iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert_eq!(ask(&gate, "POST", "/api/v1/buckets/user:bob/credit", r#"{"tokens":1}"#).0, 200);
    let (code, words) = verify(&[path(&gate).to_str().unwrap()]);
    assert!(code == Some(1) && words.contains("audit.log:5: it follows"), "{words}");
    assert!(said_eventually(&gate, "the audit log was changed by others"));
}

#[test]
fn a_change_without_its_line_is_not_made() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    gate.drain("/login?u=alice", "");
    let locked = File::open(path(&gate)).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    let (status, problem) = ask(&gate, "DELETE", "/api/v1/buckets/user:alice", "");
    assert_eq!(status, 503, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("nothing is changed"), "{problem}");
    let (_, page) = ask(&gate, "GET", "/api/v1/buckets/user:alice", "");
    assert_eq!(page["buckets"][0]["tokens"], 0);
    assert!(said_eventually(&gate, "a change is refused: the audit log cannot be written"));
    drop(locked);
    assert_eq!(ask(&gate, "DELETE", "/api/v1/buckets/user:alice", "").0, 200);
    assert_eq!(lines(&gate).len(), 1);
}

/// Whether the gate's messages have these words within some seconds.
fn said_eventually(gate: &Gate, words: &str) -> bool {
    eventually(Duration::from_secs(10), || gate.messages().contains(words))
}

/// The line waits for the lock of the file, so there is time to leave.
#[test]
fn a_change_is_made_also_if_its_caller_leaves() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    gate.drain("/login?u=alice", "");
    let locked = File::open(path(&gate)).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    let mut caller = TcpStream::connect(gate.admin).unwrap();
    let bucket = "/api/v1/buckets/user:alice";
    write!(caller, "DELETE {bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\n{RIGHT}\r\n").unwrap();
    drop(caller);
    std::thread::sleep(Duration::from_millis(500));
    drop(locked);
    let tokens = || ask(&gate, "GET", bucket, "").1["buckets"][0]["tokens"].clone();
    assert!(eventually(Duration::from_secs(10), || tokens() == 1));
    assert_eq!(whats(&lines(&gate)), ["bucket.reset"]);
}

/// An address also names what it pays from under limits by account, which a ban without a limit spares.
#[test]
fn a_ban_of_an_address_is_recorded_with_the_limits_that_it_is_for() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    assert_eq!(ask(&gate, "PUT", "/api/v1/buckets/ip:127.3.4.8/ban", r#"{"for":"1h"}"#).0, 200);
    let found = lines(&gate);
    for side in ["before", "after"] {
        let buckets = found[0][side].as_array().unwrap();
        let limits: Vec<_> = buckets.iter().map(|bucket| bucket["limit"].as_str().unwrap()).collect();
        assert_eq!(limits, ["address"], "{side}");
    }
}

#[test]
fn a_list_that_changed_leaves_a_line_with_what_it_changed() {
    let upstream = Upstream::start();
    let tables = format!("{LOGIN}exempt = [\"office\"]\n[networks]\noffice = [\"@list.txt\"]\n");
    let gate = launch(&upstream.file(&tables)).beside("list.txt", "203.0.113.0/24\n").start();
    fs::write(gate.directory.join("list.txt"), "198.51.100.0/24\n203.0.113.0/24\n").unwrap();
    assert!(eventually(Duration::from_secs(20), || lines(&gate).len() == 1));
    let reload = lines(&gate).remove(0);
    assert_eq!((&reload["what"], &reload["who"]), (&json!("reload"), &json!("watch")));
    assert!(reload["after"]["changes"].as_str().unwrap().contains("`subnet`"), "{reload}");
}

#[test]
fn a_reason_is_one_short_line() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let status = |lines: &str, body: &str| {
        call(&gate, "PUT", "/api/v1/exemptions/203.0.113.1", &format!("{RIGHT}{lines}"), body).status
    };
    let long = "x".repeat(201);
    for reason in [&long, "a\tb", "a\u{202e}b", "a\u{2028}b", "a\u{85}b"] {
        assert_eq!(status(&format!("X-Tollgate-Reason: {reason}\r\n"), r#"{"for":"1h"}"#), 422, "{reason:?}");
        let body = json!({"for": "1h", "why": reason}).to_string();
        assert_eq!(status("", &body), 422, "{reason:?}");
    }
    assert_eq!(status("X-Tollgate-Reason: a\r\n", r#"{"for":"1h","why":"b"}"#), 422);
    assert_eq!(status("X-Tollgate-Reason: a\r\nX-Tollgate-Reason: b\r\n", r#"{"for":"1h"}"#), 422);
    assert_eq!(status("", r#"{"for":"1h","why":"a\nb"}"#), 422);
    let smuggled = format!("X-Tollgate-Reason: {}\r\n", r#"","who":"root","previous":"0"#);
    assert_eq!(status(&smuggled, r#"{"for":"1h"}"#), 200);
    let found = lines(&gate);
    assert_eq!(
        (found.len(), &found[0]["who"], &found[0]["why"]),
        (1, &json!("admin"), &json!(r#"","who":"root","previous":"0"#))
    );
}

#[test]
fn a_rotated_log_and_a_new_process_go_on_with_the_chain() {
    let upstream = Upstream::start();
    let mut gate = gate(&upstream);
    let change = |gate: &Gate| ask(gate, "POST", "/api/v1/buckets/user:bob/credit", r#"{"tokens":1}"#).0;
    assert_eq!(change(&gate), 200);
    let (file, old) = (path(&gate), gate.directory.join("audit.log.1"));
    fs::rename(&file, &old).unwrap();
    assert_eq!(change(&gate), 200, "the renamed file is in use until the gate hears of it");
    gate.signal("USR1");
    assert!(eventually(Duration::from_secs(10), || file.is_file() && lines(&gate).len() == 1));
    assert_eq!((change(&gate), &lines(&gate)[0]["what"]), (200, &json!("audit.rotate")));
    gate.signal("HUP");
    assert!(eventually(Duration::from_secs(10), || lines(&gate).len() == 3));
    assert_eq!((&lines(&gate)[2]["what"], &lines(&gate)[2]["who"]), (&json!("reload"), &json!("SIGHUP")));
    let (old, file) = (old.to_str().unwrap(), file.to_str().unwrap());
    let (code, said) = verify(&[old, file]);
    assert!(code == Some(0) && said.starts_with("5 lines are one chain"), "{said}");
    let (code, said) = verify(&[file]);
    assert!(code == Some(0) && said.contains("goes on after"), "{said}");
    assert_eq!(verify(&[file, old]).0, Some(1));

    // A crash in the middle of a line.
    gate.signal("KILL");
    assert!(gate.exit_status(Duration::from_secs(10)).is_some());
    OpenOptions::new().append(true).open(file).unwrap().write_all(br#"{"time":"2026"#).unwrap();
    let (code, said) = verify(&[file]);
    assert!(code == Some(1) && said.contains("audit.log:4: the line has no end"), "{said}");
    let next = launch(&upstream.file(LOGIN)).beside("audit.log", &fs::read_to_string(file).unwrap()).start();
    assert!(eventually(Duration::from_secs(10), || next.messages().contains("has no end")));
    assert_eq!(ask(&next, "POST", "/api/v1/drain", "").0, 202);
    let (code, said) = verify(&[path(&next).to_str().unwrap()]);
    assert!(
        code == Some(0)
            && said.starts_with("5 lines are one chain")
            && said.contains("1 line without an end"),
        "{said}"
    );
}

/// A gate that is only killed has no such line.
#[test]
fn a_signal_that_ends_the_gate_has_a_line() {
    let upstream = Upstream::start();
    for (signal, who) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let mut gate = gate(&upstream);
        gate.signal(signal);
        assert!(gate.exit_status(Duration::from_secs(10)).is_some());
        let found = lines(&gate);
        let [stop] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&stop["what"], &stop["who"]), (&json!("stop"), &json!(who)));
    }
}

/// The second one cuts off what is on its way.
#[test]
fn a_signal_while_the_gate_drains_has_a_line_too() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let upstream = Upstream::answering(move |_, _| Reply::text(half));
    let mut gate = gate(&upstream);
    let mut client = gate.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(eventually(Duration::from_secs(10), || upstream.requests().len() == 1));
    gate.signal("TERM");
    assert!(eventually(Duration::from_secs(10), || lines(&gate).len() == 1));
    gate.signal("INT");
    assert!(gate.exit_status(Duration::from_secs(10)).is_some());
    let found = lines(&gate);
    let who: Vec<_> = found.iter().map(|line| (&line["what"], &line["who"])).collect();
    assert_eq!(who, [(&json!("stop"), &json!("SIGTERM")), (&json!("stop"), &json!("SIGINT"))]);
}

/// A line names what the change found, also if another operator makes one at the same time.
#[test]
fn of_two_operators_at_one_owner_each_line_begins_where_the_one_before_it_ended() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    gate.drain("/login?u=alice", "");
    let page = "/api/v1/buckets/user:alice/ban";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    ask(&gate, "PUT", page, r#"{"for":"1h"}"#);
                    ask(&gate, "DELETE", page, "");
                }
            });
        }
    });
    let found = lines(&gate);
    let is_banned = |bucket: &Value| bucket[0]["banned_until"].is_string();
    let mut state = false;
    let mut made = 0;
    for (at, line) in found.iter().enumerate() {
        let is_failed = |line: &Value| line["failed"].is_string();
        assert_eq!(is_banned(&line["before"]), state, "line {at}: {line}");
        // What became of a change that was not made is told by the next line.
        if !is_failed(line) && !found.get(at + 1).is_some_and(is_failed) {
            state = is_banned(&line["after"]);
            made += 1;
        }
    }
    assert!(made >= 40, "{made} changes");
}
