//! `tollgate evidence`: its figures are those of an oracle, and what is taken out of a log is found.

mod oracle;
mod simulated;

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::decisions::{self, FILE, objects};
use support::{Launch, Reply, Said, Upstream, binary};
use tollgate::observe::audit::gate_lines::BEGUN;
use tollgate::observe::audit::{AuditEntry, AuditLog};
use tollgate::observe::timestamp::rfc3339;
use tollgate::time::{Clock, Span, Time};

use self::oracle::Oracle;
use self::simulated::SimulatedDays;

fn evidence(days: &SimulatedDays, words: &[&str]) -> (Said, Value) {
    let said = days.folder.run(&[&["evidence", "--format", "json"], words].concat());
    let report = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err));
    (said, report)
}

/// State and figure of a control.
fn control<'r>(report: &'r Value, number: &str) -> (&'r str, &'r str) {
    let all = report["controls"].as_array().unwrap();
    let control = all.iter().find(|control| control["number"] == number).unwrap();
    (control["state"].as_str().unwrap(), control["figure"].as_str().unwrap())
}

fn limit<'r>(report: &'r Value, name: &str) -> &'r Value {
    report["limits"].as_array().unwrap().iter().find(|limit| limit["limit"] == name).unwrap()
}

fn time(text: &Value) -> Time {
    let stamp: jiff::Timestamp = text.as_str().unwrap().parse().unwrap();
    Time::from_nanos(u64::try_from(stamp.as_nanosecond()).unwrap())
}

#[test]
fn the_evidence_of_ninety_days_is_what_an_oracle_counts() {
    let days = SimulatedDays::run(91, 44);
    let (said, report) = evidence(&days, &["--since", "90d"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_eq!(report["schema"], "tollgate.evidence/1");
    let oracle = Oracle::new(&days, time(&report["since"]));
    let decisions = &report["decisions"];
    assert_eq!(decisions["attempts"], oracle.attempts());
    assert!(decisions["attempts"]["refused"].as_u64() > Some(3000), "{}", decisions["attempts"]);
    let number = |number: usize| json!(number);
    let [most_of_an_account, most_in_a_row] = oracle.most_of_an_account();
    for (name, greatest, most, window) in
        [("address", oracle.most_of_an_address(), 20, 300.0), ("account", most_of_an_account, 20, 1800.0)]
    {
        let limit = limit(decisions, name);
        let (admitted, refused) = oracle.verdicts(name);
        assert_eq!((&limit["admitted"], &limit["refused"]), (&number(admitted), &number(refused)), "{name}");
        let promise = &limit["promise"];
        assert_eq!((&promise["greatest"], &promise["most"]), (&number(greatest), &json!(most)), "{name}");
        assert_eq!((&promise["window"], &promise["broken_at"]), (&json!(window), &Value::Null), "{name}");
        assert!(greatest >= 10, "{name}: {greatest}");
    }
    let accounts = &decisions["accounts"];
    assert_eq!(accounts["attacked"], number(oracle.attacked()));
    assert_eq!(accounts["longest_row"], number(oracle.longest_row()));
    assert_eq!(accounts["most_in_half_an_hour"], number(most_in_a_row));

    let compared = &decisions["compared"];
    assert_eq!(
        (&compared["missing"], &compared["untold"], &compared["expired"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(compared["written"], compared["found"]);
    what_the_audit_log_tells(&days, &oracle, &report);
    for (number, state) in [
        ("6.1.1", "met"),
        ("6.3.1", "met"),
        ("16.3.1", "met"),
        ("8.3.4", "met"),
        ("10.2.1.2", "met"),
        ("10.2.1.4", "met"),
        ("10.2.1.6", "not shown"),
        ("10.3.4", "met"),
        ("3.2.2", "met"),
    ] {
        assert_eq!(control(&report, number).0, state, "{number}: {}", control(&report, number).1);
    }
    the_page_has_the_same(&days, &report);
}

fn what_the_audit_log_tells(days: &SimulatedDays, oracle: &Oracle<'_>, report: &Value) {
    let changes = report["changes"].as_array().unwrap();
    assert_eq!(changes.len(), oracle.changes());
    let is_told = |change: &Value| {
        let known = |&(at, who, what, _): &(Time, &str, &str, u64)| {
            change["time"] == rfc3339(at) && change["who"] == who && change["what"] == what
        };
        days.changes.iter().any(known) && change["why"] == "ticket <7>" && change["before"][0]["tokens"] == 0
    };
    assert!(changes.iter().all(is_told), "{changes:#?}");
    let gaps: Vec<Value> = days
        .gaps
        .iter()
        .map(|&(from, until, announced)| {
            json!({ "from": rfc3339(from), "until": rfc3339(until), "announced": announced })
        })
        .collect();
    assert_eq!(report["audit"]["gaps"], json!(gaps));
    let exceptions = |kind: &str| {
        report["exceptions"].as_array().unwrap().iter().filter(|found| found["kind"] == kind).count()
    };
    let exempt = days.changes.iter().filter(|change| change.2 == "prefix.exempt").count();
    assert_eq!((exceptions("exemption"), exceptions("gap")), (exempt, days.gaps.len()));
    assert_eq!((exceptions("store"), exceptions("log")), (days.outages, 0), "{:#}", report["exceptions"]);
    assert!(days.outages > 0 && exempt > 5 && days.gaps.len() > 4);
}

fn the_page_has_the_same(days: &SimulatedDays, report: &Value) {
    let said = days.folder.run(&["evidence"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let page = &said.out;
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">") && page.contains("<h1>"), "{page}");
    assert!(!page.contains("<script") && !page.contains("ticket <7>") && page.contains("ticket &lt;7&gt;"));
    for head in ["<h2>Controls", "<h2>Changes", "<h2>Exceptions", "scope=col", "scope=row"] {
        assert!(page.contains(head), "{head}");
    }
    for control in report["controls"].as_array().unwrap() {
        assert!(page.contains(control["asks"].as_str().unwrap()), "{control}");
    }
}

/// The lines of a file without one of them, and that one.
fn without(text: &str, number: usize) -> (String, String) {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let removed = lines.remove(number).to_owned();
    (lines.concat(), removed)
}

#[test]
fn a_line_that_is_removed_from_either_log_is_found_and_one_without_a_person_is_none() {
    let days = SimulatedDays::run(3, 7);
    let words = ["--since", "3d"];
    let (decisions, audit) = (days.path("decisions.log"), days.path("audit.log"));
    let (log, chain) = (fs::read_to_string(&decisions).unwrap(), fs::read_to_string(&audit).unwrap());
    let (said, _) = evidence(&days, &words);
    assert_eq!((said.code, &*said.err), (Some(0), ""));

    let (rest, removed) = without(&log, log.lines().count() / 2);
    fs::write(&decisions, rest).unwrap();
    let (said, report) = evidence(&days, &words);
    let removed: Value = serde_json::from_str(&removed).unwrap();
    let hour = &removed["time"].as_str().unwrap()[..13];
    assert_eq!(
        (said.code, &report["decisions"]["compared"]["missing"]),
        (Some(1), &json!(1)),
        "{}",
        said.err
    );
    assert_eq!(report["decisions"]["compared"]["hours"][0]["hour"], hour);
    assert!(said.err.contains(&format!("broken: {hour}: the gate wrote ")), "{}", said.err);
    for number in ["10.3.4", "16.3.1", "10.2.1.4"] {
        assert_eq!(control(&report, number).0, "not met", "{number}");
    }
    assert_eq!(control(&report, "6.3.1").0, "not shown");

    // What `tollgate forget` leaves of a line: neither client nor account.
    let forgotten = log.replace("\"203.0.113.9\"", "\"-\"");
    assert_ne!(forgotten, log);
    fs::write(&decisions, forgotten).unwrap();
    let (said, report) = evidence(&days, &words);
    assert_eq!(
        (said.code, &report["decisions"]["compared"]["missing"]),
        (Some(0), &json!(0)),
        "{}",
        said.err
    );
    assert_eq!(control(&report, "6.3.1").0, "not shown");

    fs::write(&decisions, &log).unwrap();
    fs::write(&audit, without(&chain, 1).0).unwrap();
    let (said, report) = evidence(&days, &words);
    assert!(said.code == Some(1) && said.err.contains("audit.log:2: it follows"), "{}", said.err);
    assert_eq!(control(&report, "10.2.1.2").0, "not met");
    assert_eq!((&report["audit"]["chain"], control(&report, "10.3.4").0), (&json!("broken"), "not met"));
}

#[test]
fn without_the_audit_log_nothing_is_met_by_the_decision_log() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("audit.log");
    for is_there in [true, false] {
        match is_there {
            true => fs::write(&path, "").unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        let (said, report) = evidence(&days, &["--since", "3d"]);
        assert_eq!((said.code, &report["audit"]["chain"]), (Some(1), &json!("absent")), "{is_there}");
        assert!(said.err.contains("broken: the audit log is missing or empty"), "{}", said.err);
        for number in ["6.3.1", "16.3.1", "8.3.4", "10.2.1.2", "10.3.4", "3.2.2"] {
            assert_eq!(control(&report, number).0, "not shown", "{number}");
        }
    }
}

#[test]
fn where_no_outcome_is_known_no_failure_is_bounded() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("decisions.log");
    let log = fs::read_to_string(&path).unwrap();
    let silent = ["success", "failure"]
        .iter()
        .fold(log, |log, outcome| log.replace(&format!("\"outcome\":\"{outcome}\""), "\"outcome\":null"));
    fs::write(&path, silent).unwrap();
    let (said, report) = evidence(&days, &["--since", "3d"]);
    assert_eq!((said.code, &report["decisions"]["attempts"]["failed"]), (Some(0), &json!(0)), "{}", said.err);
    for number in ["8.3.4", "3.2.2"] {
        let (state, figure) = control(&report, number);
        assert!(state == "not shown" && figure.starts_with("no outcome was recognized at login"), "{figure}");
    }
}

#[test]
fn what_an_operator_exempted_breaks_no_promise() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("decisions.log");
    let log = fs::read_to_string(&path).unwrap();
    let (forged, at) = with_a_crowd(&log);
    fs::write(&path, forged).unwrap();
    let end = at.after(Span::from_secs(3600));
    let exempt = AuditEntry {
        who: "desk".to_owned(),
        what: "bucket.exempt",
        target: Some("ip:192.0.2.200".to_owned()),
        after: json!([{ "limit": "address", "tokens": 10, "burst": 10, "exempt_until": rfc3339(end) }]),
        ..AuditEntry::default()
    };
    let audit = AuditLog::open(days.path("audit.log"), "gate-1".to_owned()).unwrap();
    audit.append(&exempt, at.before(Span::from_secs(60))).unwrap();
    let (said, report) = evidence(&days, &["--since", "3d"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let promise = &limit(&report["decisions"], "address")["promise"];
    assert_eq!((&promise["left_out"], &promise["broken_at"]), (&json!(25), &Value::Null));
    assert_eq!(
        control(&report, "6.3.1"),
        ("not shown", "2 of 2 limits can be compared; 25 attempts could not")
    );
    let exceptions = report["exceptions"].as_array().unwrap();
    let until = exceptions.iter().find(|found| found["who"] == "desk").map(|found| &found["until"]);
    assert_eq!(until, Some(&json!(rfc3339(end))));
}

/// What `forget` takes out of the logs could have been over any promise.
#[test]
fn where_a_person_was_forgotten_no_account_is_shown_to_be_bounded() {
    let days = SimulatedDays::run(2, 5);
    let (_, before) = evidence(&days, &["--since", "3d"]);
    let audit = AuditLog::open(days.path("audit.log"), "gate-1".to_owned()).unwrap();
    let forget = AuditEntry { who: "desk".to_owned(), what: "forget", ..AuditEntry::default() };
    audit.append(&forget, Clock::system().now()).unwrap();
    let (said, after) = evidence(&days, &["--since", "3d"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for number in ["6.3.1", "8.3.4", "3.2.2"] {
        assert_eq!((control(&before, number).0, control(&after, number).0), ("met", "not shown"), "{number}");
    }
}

#[test]
fn a_restart_soon_after_a_crash_is_an_end_that_nobody_announced() {
    let days = SimulatedDays::run(2, 5);
    let (_, before) = evidence(&days, &["--since", "3d"]);
    assert_eq!(
        control(&before, "10.2.1.6"),
        ("met", "1 start, 0 times without a gate, 0 of them not announced; 0 ends without a line of it")
    );
    let audit = AuditLog::open(days.path("audit.log"), "gate-1".to_owned()).unwrap();
    let begin = AuditEntry::of_gate(BEGUN, 2, json!({ "config": "0011", "version": "1" }));
    audit.append(&begin, Clock::system().now()).unwrap();
    let (said, after) = evidence(&days, &["--since", "3d"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(
        control(&after, "10.2.1.6"),
        ("not shown", "2 starts, 1 time without a gate, 1 of them not announced; 1 end without a line of it")
    );
    let ends = after["audit"]["unannounced_ends"].as_array().unwrap();
    assert_eq!((ends.len(), &ends[0]["gate"]), (1, &json!("gate-1")));
    assert_eq!(ends[0]["heard"], after["audit"]["gaps"][0]["from"]);
    let exceptions = after["exceptions"].as_array().unwrap();
    assert!(exceptions.iter().any(|found| found["kind"] == "end" && found["until"] == ends[0]["followed"]));
}

#[test]
fn a_limit_that_only_observed_for_a_time_is_not_shown_to_be_kept() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("decisions.log");
    let log = fs::read_to_string(&path).unwrap();
    fs::write(&path, log.replacen("\"verdict\":\"admit\"", "\"verdict\":\"observe\"", 1)).unwrap();
    let (_, report) = evidence(&days, &["--since", "3d"]);
    let shown = control(&report, "6.3.1");
    assert_eq!(shown, ("not shown", "2 of 2 limits can be compared; 1 attempts could not"));
}

#[test]
fn a_limit_by_addresses_that_the_log_hides_is_not_shown_to_be_kept() {
    let days = SimulatedDays::run(2, 5);
    for (clients, prefix, is_shown) in
        [("full", "32", true), ("prefix", "32", true), ("prefix", "24", false), ("hash", "32", false)]
    {
        let words = ["--set", &format!("log.clients={clients}"), "--set", &format!("client.ipv4={prefix}")];
        let words = [&words[..], &["--set", "limit.address.ipv4=32", "--since", "3d"]].concat();
        let (_, report) = evidence(&days, &words);
        let (state, figure) = control(&report, "6.3.1");
        assert_eq!(state == "met", is_shown, "{clients} {prefix}: {figure}");
    }
}

#[test]
fn rows_of_failures_that_a_start_begins_anew_are_not_shown_to_be_bounded() {
    let days = SimulatedDays::run(13, 5);
    let states = |words: &[&str]| {
        let (_, report) = evidence(&days, &[words, &["--since", "13d"]].concat());
        ["8.3.4", "3.2.2"].map(|number| control(&report, number).0.to_owned())
    };
    assert_eq!(states(&[]), ["met", "met"]);
    let file = days.path("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("snapshot = \"buckets\"\n", "")).unwrap();
    assert_eq!(states(&[]), ["not shown", "not shown"]);
}

#[test]
fn the_end_of_an_own_rate_ends_it_for_its_limit_and_no_other() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("decisions.log");
    let (forged, at) = with_a_crowd(&fs::read_to_string(&path).unwrap());
    fs::write(&path, forged).unwrap();
    let audit = AuditLog::open(days.path("audit.log"), "gate-1".to_owned()).unwrap();
    let change = |what, limit: &str, seconds, own: Value| {
        let bucket = |own| json!([{ "limit": limit, "tokens": 10, "burst": 10, "own": own }]);
        let entry = AuditEntry {
            who: "desk".to_owned(),
            what,
            target: Some("ip:192.0.2.200".to_owned()),
            before: bucket(Value::Null),
            after: bucket(own),
            ..AuditEntry::default()
        };
        audit.append(&entry, at.before(Span::from_secs(seconds))).unwrap();
    };
    let own = json!({ "until": rfc3339(at.after(Span::from_secs(3600))) });
    let left_out = || {
        let (_, report) = evidence(&days, &["--since", "3d"]);
        let promise = &limit(&report["decisions"], "address")["promise"];
        (promise["left_out"].clone(), promise["broken_at"].is_null())
    };
    change("bucket.rate", "address", 90, own.clone());
    change("bucket.rate", "subnet", 80, own);
    change("bucket.rate.end", "subnet", 70, Value::Null);
    assert_eq!(left_out(), (json!(25), true));
    change("bucket.rate.end", "address", 60, Value::Null);
    assert_eq!(left_out(), (json!(0), false));
}

/// A log with 25 more attempts of one client, all signed in at the time of its last line, and that time.
fn with_a_crowd(log: &str) -> (String, Time) {
    let last = log.lines().rfind(|line| line.contains("\"limit\":\"address\"")).unwrap();
    let mut line: Value = serde_json::from_str(last).unwrap();
    (line["client"], line["verdict"]) = (json!("192.0.2.200"), json!("admit"));
    line["outcome"] = json!("success");
    let mut forged = log.to_owned();
    for nanoseconds in 0..25 {
        line["nanoseconds"] = json!(line["nanoseconds"].as_u64().unwrap() / 1000 * 1000 + nanoseconds);
        forged.push_str(&format!("{line}\n"));
    }
    (forged, time(&line["time"]))
}

#[test]
fn a_line_over_the_promise_is_named() {
    let days = SimulatedDays::run(2, 5);
    let path = days.path("decisions.log");
    let log = fs::read_to_string(&path).unwrap();
    fs::write(&path, with_a_crowd(&log).0).unwrap();
    let (said, report) = evidence(&days, &["--since", "3d"]);
    let promise = &limit(&report["decisions"], "address")["promise"];
    // Twenty are promised: the twenty-first breaks it.
    assert_eq!(promise["broken_at"]["line"], json!(log.lines().count() + 21), "{promise}");
    let (state, figure) = control(&report, "6.3.1");
    assert!(state == "not met" && figure.contains(&format!("line {}", log.lines().count() + 21)), "{figure}");
    assert_eq!(
        (said.code, &report["decisions"]["compared"]["untold"]),
        (Some(1), &json!(25)),
        "{}",
        said.err
    );
    let (_, figure) = control(&report, "16.3.1");
    assert!(figure.contains("; of 25 no gate told; ") && !figure.contains("as many as"), "{figure}");
}

#[test]
fn a_running_gate_tells_the_audit_log_of_its_lines_in_every_schema() {
    ["tollgate", "ocsf", "ecs"].into_iter().for_each(a_running_gate_tells_of_its_lines);
}

fn a_running_gate_tells_of_its_lines(schema: &str) {
    let application =
        Upstream::answering(|_, _| Reply::text("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"));
    let log = format!("[log]\ndecisions = \"{{dir}}/decisions.log\"\nschema = \"{schema}\"\n");
    let launch = Launch::new(&format!("{}{log}", application.file(FILE)));
    let mut gate = launch.with_admin("audit = \"audit.log\"\n").start();
    let mut client = gate.connect();
    for number in 0..8 {
        client.send(decisions::attempt("203.0.113.7", number, "anna", "wrong"));
        assert_eq!(client.answer().status, if number < 5 { 401 } else { 429 });
    }
    objects(&gate.directory.join("decisions.log"), 8);
    drop(client);
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(20)).is_some());
    let audit = fs::read_to_string(gate.directory.join("audit.log")).unwrap();
    let said = |line: &str| serde_json::from_str::<Value>(line).unwrap()["what"].as_str().unwrap().to_owned();
    assert_eq!(audit.lines().map(said).collect::<Vec<_>>(), ["gate.begin", "stop", "gate.end"]);

    let words = ["evidence", "--format", "json", "--since", "1d", "-c", "gate.toml"];
    let output = Command::new(binary()).args(words).current_dir(&gate.directory).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let decisions = &found["decisions"];
    let lines = fs::read_to_string(gate.directory.join("decisions.log")).unwrap().lines().count();
    assert_eq!((&decisions["lines"], &decisions["compared"]["written"]), (&json!(lines), &json!(lines)));
    let (state, figure) = control(&found, "16.3.1");
    assert!(
        state == "met" && figure.ends_with(", as many as the gate wrote; 3 refused, 5 failed"),
        "{schema}: {figure}"
    );
    assert_eq!((&decisions["attempts"]["failed"], &decisions["attempts"]["refused"]), (&json!(5), &json!(3)));
    assert_eq!(limit(decisions, "address")["promise"]["greatest"], 5, "{schema}");
}
