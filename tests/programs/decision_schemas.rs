//! The decision log in OCSF and ECS: every kind of line of running gates, judged by the published schemas.
//!
//! They come by `scripts/fetch-schemas`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use support::decisions::{attempt, objects};
use support::{Gate, Launch, Reply, Upstream, free_port, installed, new_directory, root};

/// A limit for each verdict, and a route without an application.
const FILE: &str = r#"
client.trust = "127.0.0.1"

[route.login]
match = "POST /login"
user = "form:user"
success = [{ status = 302 }]
failure = [{ status = 401 }]
otherwise = "neutral"

[route.broken]
match = "POST /broken"
user = "form:user"

[limit.address]
rate = "6 per 1d burst 6"
exempt = ["192.0.2.0/24"]

[limit.watched]
rate = "2 per 1d"
mode = "observe"

[limit.account]
key = "user"
rate = "50 per 1d"
"#;

fn application() -> Upstream {
    Upstream::answering(|request, _| {
        let has = |words: &[u8]| request.windows(words.len()).any(|bytes| bytes == words);
        let status = match () {
            () if has(b"password=good") => "302 Found",
            () if has(b"password=odd") => "200 OK",
            () => "401 Unauthorized",
        };
        Reply::text(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))
    })
}

/// The log of a gate that had attempts of every kind, and has ended. Its directory goes with it.
fn gate(application: &Upstream, schema: &str, clients: &str) -> (Gate, PathBuf) {
    let broken = format!("[route.broken]\nupstream = \"http://127.0.0.1:{}\"\n", free_port());
    let file = application.file(&FILE.replace("[route.broken]\n", &broken));
    // A collector, so that requests have a trace; nobody is there.
    let rest = format!(
        "[log]\ndecisions = \"{{dir}}/decisions.log\"\nschema = \"{schema}\"\nclients = \"{clients}\"\n\
         [otel]\nendpoint = \"http://127.0.0.1:{}\"\nsample = 1.0\n",
        free_port()
    );
    let mut gate = Launch::new(&format!("{file}{rest}")).on_unix_socket_too().start();
    let send = |request: String| gate.ask(request).status;
    let statuses =
        ["wrong", "good", "odd"].map(|password| send(attempt("198.51.100.7", 1, "alice", password)));
    assert_eq!(statuses, [401, 302, 200]);
    assert_eq!(send(attempt("2001:db8::7", 2, "bob", "good")), 302);
    assert_eq!(send(attempt("192.0.2.7", 3, "carol", "wrong")), 401, "exempt");
    assert_eq!(send(attempt("198.51.100.8", 4, "dave", "wrong").replace("/login", "/broken")), 502);
    assert_eq!(
        send(attempt("198.51.100.8", 5, "", "wrong").replace("a5", "\"\\\u{202e}")),
        401,
        "no account"
    );
    for _ in 0..3 {
        send(attempt("198.51.100.7", 6, "alice", "wrong"));
    }
    assert_eq!(send(attempt("198.51.100.7", 7, "alice", "good")), 429);
    let mut unnamed = UnixStream::connect(gate.directory.join("gate.sock")).unwrap();
    let request = attempt("-", 8, "erin", "wrong").replace("X-Forwarded-For: -\r\n", "Connection: close\r\n");
    unnamed.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    unnamed.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(20)).is_some());
    let path = gate.directory.join("decisions.log");
    (gate, path)
}

fn judged(files: &[PathBuf]) -> Output {
    let schemas = root().join("target/tools/schemas");
    assert!(schemas.is_dir(), "this test needs {}, which scripts/fetch-schemas brings", schemas.display());
    let mut command = installed("python3", "python3");
    command.arg(root().join("tests/programs/decision_schemas.py")).arg(schemas.join("ecs.json")).args(files);
    command.env("PYTHONPATH", schemas).output().unwrap()
}

/// The distinct values at this place.
fn values(lines: &[Value], pointer: &str) -> BTreeSet<String> {
    lines.iter().map(|line| line.pointer(pointer).map_or("absent".to_owned(), Value::to_string)).collect()
}

fn set<const N: usize>(values: [&str; N]) -> BTreeSet<String> {
    values.map(str::to_owned).into()
}

#[test]
fn every_line_is_an_event_of_its_schema() {
    let application = application();
    let mut files = Vec::new();
    let mut gates = Vec::new();
    for schema in ["ocsf", "ecs"] {
        for clients in ["full", "prefix", "hash"] {
            let (gate, path) = gate(&application, schema, clients);
            files.push(path);
            gates.push(gate);
        }
    }
    let output = judged(&files);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Vec<Value>> = files.iter().map(|file| objects(file, 30)).collect();
    let count: usize = lines.iter().map(Vec::len).sum();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), count.to_string());

    for (own, lines) in [("/unmapped", &lines[0]), ("/tollgate", &lines[3])] {
        let verdicts = set(["\"admit\"", "\"exempt\"", "\"observe\"", "\"refuse\""]);
        assert_eq!(values(lines, &format!("{own}/verdict")), verdicts);
        let outcomes = set(["\"error\"", "\"failure\"", "\"neutral\"", "\"success\"", "null"]);
        assert_eq!(values(lines, &format!("{own}/outcome")), outcomes);
    }
    let (ocsf, ecs) = (&lines[0], &lines[3]);
    assert_eq!(values(ocsf, "/disposition_id"), set(["1", "15", "2"]));
    assert_eq!(values(ocsf, "/status_id"), set(["0", "1", "2"]));
    assert_eq!(values(ecs, "/event/outcome"), set(["\"failure\"", "\"success\"", "\"unknown\""]));
    assert!(
        values(ocsf, "/src_endpoint/ip").contains("absent") && values(ocsf, "/user/uid").contains("absent")
    );
    assert!(!values(ecs, "/trace/id").contains("absent"));
    for (lines, id) in [(ocsf, "/metadata/uid"), (ecs, "/event/id")] {
        assert_eq!(values(lines, id).len(), lines.len(), "every event has an id of its own");
    }
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        assert!(!["alice", "wrong", "good"].iter().any(|secret| text.contains(secret)), "{text}");
    }
}

#[test]
fn the_judge_finds_what_is_wrong() {
    let application = application();
    let texts = ["ocsf", "ecs"].map(|schema| {
        let (_gate, log) = gate(&application, schema, "full");
        fs::read_to_string(log).unwrap()
    });
    let [ocsf, ecs] = &texts;
    let cases = [
        (ocsf, "\"category_uid\":3,", "", "'category_uid' is a required property"),
        (ocsf, "\"disposition_id\":1,", "\"disposition_id\":77,", "77 is not one of"),
        (ocsf, "\"time\":", "\"invented\":1,\"time\":", "'invented' was unexpected"),
        (ocsf, "\"service\":{\"name\":\"login\"},", "", "is not valid under any of the given schemas"),
        (ecs, "\"kind\":\"event\"", "\"kind\":\"attempt\"", "event.kind cannot be 'attempt'"),
        (ecs, "\"hash\":", "\"digest\":", "user.digest is not in the schema"),
        (ecs, ",\"intrusion_detection\"", "", "event.type has more than"),
    ];
    let wrong = cases.map(|(text, from, to, _)| {
        let line =
            text.lines().find(|line| line.contains(from)).unwrap_or_else(|| panic!("no {from} in {text}"));
        line.replacen(from, to, 1) + "\n"
    });
    let folder = new_directory();
    let path = folder.join("wrong.log");
    fs::write(&path, wrong.concat()).unwrap();
    let output = judged(std::slice::from_ref(&path));
    let said = String::from_utf8_lossy(&output.stderr);
    let found: Vec<&str> = said.lines().collect();
    assert_eq!((output.status.success(), found.len()), (false, cases.len()), "{said}");
    for (found, (.., mistake)) in found.iter().zip(cases) {
        assert!(found.contains(mistake), "{mistake}: {found}");
    }
    fs::remove_dir_all(folder).unwrap();
}
