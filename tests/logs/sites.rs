//! `tollgate site report`: what came of the attempts at each site, by decision logs and access logs in JSON.

mod week;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use support::decisions::{self, FILE, objects};
use support::{Folder, Gate, Reply, Upstream, binary};
use tollgate::observe::timestamp::rfc3339;
use tollgate::time::{Clock, Span, Time};

const CONFIG: &str = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:9\"\n\
    [route.shop]\nmatch = \"POST /login\"\nhost = \"shop.example.org\"\nuser = \"form:user\"\n\
    [route.blog]\nmatch = \"POST /login\"\nhost = [\"blog.example.org\", \"www.blog.example.org\"]\nuser = \"form:user\"\n\
    [template.customers]\nmatch = \"POST /login\"\nhosts = [\"anna.example.org\", \"*.bert.example.org\"]\nuser = \"form:user\"\n\
    [limit.address]\nrate = \"10 per 5m\"\n\
    [limit.account]\nkey = \"user\"\nrate = \"5 per 10m\"\n\
    [log]\ndecisions = \"decisions.log\"\n";

/// One attempt, as the gate's logs have it.
#[derive(Clone, Copy)]
struct Logged<'a> {
    at: Time,
    route: &'a str,
    host: &'a str,
    client: &'a str,
    account: Option<u64>,
    is_owner: bool,
    refused_by: Option<&'a str>,
    would_refuse: Option<&'a str>,
    outcome: Option<&'a str>,
}

impl<'a> Logged<'a> {
    /// A failed attempt at a site, so many minutes ago.
    fn ago(minutes: u64, route: &'a str, client: &'a str) -> Self {
        Self {
            at: Clock::system().now().before(Span::from_secs(60 * minutes)),
            route,
            host: "",
            client,
            account: None,
            is_owner: false,
            refused_by: None,
            would_refuse: None,
            outcome: Some("failure"),
        }
    }

    fn refused(self, limit: &'a str) -> Self {
        Self { refused_by: Some(limit), outcome: None, ..self }
    }

    fn signed_in(self) -> Self {
        Self { outcome: Some("success"), ..self }
    }

    /// Its two lines of the decision log.
    fn decisions(&self, log: &mut String) {
        for limit in ["address", "account"] {
            let verdict = match limit {
                limit if self.refused_by == Some(limit) => "refuse",
                limit if self.would_refuse == Some(limit) => "observe",
                _ => "admit",
            };
            let time = rfc3339(self.at);
            let account =
                self.account.map_or_else(|| "null".to_owned(), |account| format!("\"{account:012x}\""));
            let outcome = self.outcome.map_or_else(|| "null".to_owned(), |outcome| format!("\"{outcome}\""));
            let settled = if self.outcome.is_some() { "84213.118" } else { "null" };
            let nanoseconds = self.at.as_nanos() % 1_000_000_000;
            writeln!(
                log,
                "{{\"time\":\"{time}\",\"request_id\":\"0192f0c1-7c1e-7a52-b3a5-{nanoseconds:012x}\",\"route\":\"{}\",\
                 \"limit\":\"{limit}\",\"verdict\":\"{verdict}\",\"client\":\"{}\",\"account\":{account},\"left\":4,\
                 \"wait\":0.000,\"outcome\":{outcome},\"device\":{},\"attack\":false,\"bait\":false,\"failures\":0,\
                 \"nanoseconds\":{nanoseconds},\"decided_us\":41.733,\"settled_us\":{settled}}}",
                self.route, self.client, self.is_owner
            )
            .unwrap();
        }
    }

    /// Its line of the access log.
    fn request(&self, log: &mut String) {
        let text = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), |text| format!("\"{text}\""));
        let (time, refused) = (rfc3339(self.at), text(self.refused_by));
        writeln!(
            log,
            "{{\"time\":\"{time}\",\"client\":\"{}\",\"method\":\"POST\",\"target\":\"/login\",\"protocol\":\"HTTP/1.1\",\
             \"host\":\"{}\",\"status\":200,\"bytes\":512,\"duration_ms\":84.213,\"added_us\":41.733,\"route\":\"{}\",\
             \"refused_by\":{refused},\"limit\":{refused},\"wait\":null,\"left\":4,\"outcome\":{},\"would_refuse\":{},\
             \"request_id\":\"0192f0c1\",\"complete\":true}}",
            self.client,
            self.host,
            self.route,
            text(self.outcome),
            text(self.would_refuse)
        )
        .unwrap();
    }
}

/// A directory with the configuration and a decision log of these attempts.
fn with_decisions(attempts: &[Logged<'_>]) -> Folder {
    let (folder, mut log) = (Folder::new(), String::new());
    attempts.iter().for_each(|attempt| attempt.decisions(&mut log));
    fs::write(folder.0.join("config.toml"), CONFIG).unwrap();
    fs::write(folder.0.join("decisions.log"), log).unwrap();
    folder
}

fn json(folder: &Folder, words: &[&str]) -> Value {
    let said = folder.run(&[&["site", "report", "--format", "json"], words].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

/// The figures of a site in this order.
fn figures(report: &Value, site: &str, host: &str) -> Vec<Value> {
    let sites = report["sites"].as_array().unwrap();
    let is_it =
        |line: &&Value| line["site"] == site && line["hosts"].as_array().unwrap().contains(&host.into());
    let line = sites.iter().find(is_it).unwrap_or_else(|| panic!("{site} {host} is not in {report:#}"));
    let keys = [
        "attempts",
        "refused",
        "signed_in",
        "failed",
        "owners_helped",
        "would_refuse",
        "likely_false_positives",
    ];
    keys.iter().map(|key| line[key].clone()).collect()
}

fn later(logged: Logged<'_>, seconds: u64) -> Logged<'_> {
    Logged { at: logged.at.after(Span::from_secs(seconds)), ..logged }
}

fn several() -> Vec<Logged<'static>> {
    let (anna, bert) = (Some(0xA11A), Some(0xBE27));
    let guess = Logged::ago(60, "shop", "198.51.100.7");
    vec![
        guess,
        later(guess, 1).refused("address"),
        later(guess, 2).refused("address"),
        Logged { account: anna, ..Logged::ago(50, "shop", "198.51.100.8") }.refused("account"),
        // The owner of the attacked account, and one whose account nobody tried.
        Logged { account: anna, is_owner: true, ..Logged::ago(20, "shop", "203.0.113.9") }.signed_in(),
        Logged { account: bert, is_owner: true, ..Logged::ago(19, "shop", "203.0.113.10") }.signed_in(),
        // The same name at another site.
        Logged { account: anna, is_owner: true, ..Logged::ago(18, "blog", "203.0.113.9") }.signed_in(),
        // A person who mistyped, was refused, and signed in.
        Logged::ago(15, "blog", "203.0.113.11").refused("address"),
        Logged::ago(10, "blog", "203.0.113.11").signed_in(),
        Logged { would_refuse: Some("account"), ..Logged::ago(5, "blog", "203.0.113.12") },
        Logged::ago(4, "closed", "203.0.113.13"),
        Logged::ago(8 * 24 * 60, "shop", "198.51.100.7").refused("address"),
    ]
}

#[test]
fn a_report_counts_attempts_and_not_lines_and_knows_which_owners_were_helped() {
    let folder = with_decisions(&several());
    let report = json(&folder, &[]);
    assert_eq!(figures(&report, "shop", "shop.example.org"), [6, 3, 2, 1, 1, 0, 0].map(Value::from));
    assert_eq!(figures(&report, "blog", "www.blog.example.org"), [4, 1, 2, 1, 0, 1, 1].map(Value::from));
    let shop = &report["sites"][0];
    assert_eq!(shop["worst"][0], serde_json::json!({"client": "198.51.100.7", "refused": 2}));
    assert_eq!(shop["limits"][0], serde_json::json!({"limit": "address", "refused": 2}));
    assert_eq!(shop["limits"][1], serde_json::json!({"limit": "account", "refused": 1}));
    assert_eq!(
        (&report["log"]["unknown_attempts"], &report["log"]["unknown_routes"][0]),
        (&1.into(), &"closed".into())
    );
    // An hour after the last stranger, nobody was helped; and what is older than `--since` does not count.
    let late = json(&folder, &["--since", "30m"]);
    assert_eq!(figures(&late, "shop", "shop.example.org"), [2, 0, 2, 0, 0, 0, 0].map(Value::from));
    let all = json(&folder, &["--since", "30d"]);
    assert_eq!(figures(&all, "shop", "shop.example.org")[..2], [7, 4].map(Value::from));
}

#[test]
fn the_text_has_the_most_refused_site_first_and_says_how_many_had_no_attempt() {
    let said = with_decisions(&several()).run(&["site", "report"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("attempts  10 at 2 sites, 4 refused, 4 signed in\n"), "{}", said.out);
    assert!(said.out.contains("owners    1 sign-in while strangers were refused\n"), "{}", said.out);
    assert!(said.out.contains("people    1 refused client then signed in\n"), "{}", said.out);
    assert!(said.out.contains("quiet     2 sites without an attempt\n"), "{}", said.out);
    let line = |site: &str| said.out.lines().position(|line| line.starts_with(site)).unwrap();
    assert!(line("SITE ") < line("shop ") && line("shop ") < line("blog "), "{}", said.out);
    assert!(said.out.contains("198.51.100.7 (2)"), "{}", said.out);
}

#[test]
fn an_access_log_tells_the_hosts_of_a_template_apart_and_does_not_know_owners() {
    let (folder, mut log) = (with_decisions(&[]), String::new());
    let attempt = |host, client| Logged { host, ..Logged::ago(5, "customers", client) };
    for logged in [
        attempt("anna.example.org", "198.51.100.7").refused("address"),
        attempt("ANNA.example.org:443", "198.51.100.7"),
        attempt("www.bert.example.org", "203.0.113.9").signed_in(),
        attempt("invented.example.org", "203.0.113.9"),
    ] {
        logged.request(&mut log);
    }
    // A page, which is no attempt.
    log.push_str(&log.lines().next().unwrap().replace("\"route\":\"customers\"", "\"route\":null"));
    fs::write(folder.0.join("access.log"), log).unwrap();
    let report = json(&folder, &["--log", "access.log"]);
    let figures = |host| figures(&report, "customers", host)[..5].to_vec();
    assert_eq!(figures("anna.example.org"), [2.into(), 1.into(), 0.into(), 1.into(), Value::Null]);
    assert_eq!(figures("*.bert.example.org"), [1.into(), 0.into(), 1.into(), 0.into(), Value::Null]);
    let rest = report["sites"].as_array().unwrap().iter().find(|site| site["hosts"] == serde_json::json!([]));
    assert_eq!(rest.unwrap()["attempts"], 1, "a host that only a client invented has no line");
    let said = folder.run(&["site", "report", "--log", "access.log"]);
    assert!(said.out.contains("the access log does not know owners"), "{}", said.out);
    // The same by default, where the configuration writes that log.
    let with_access =
        CONFIG.replace("decisions = \"decisions.log\"", "access = \"access.log\"\nstyle = \"json\"");
    fs::write(folder.0.join("config.toml"), with_access).unwrap();
    assert_eq!(
        self::figures(&json(&folder, &[]), "customers", "anna.example.org")[..2],
        [2, 1].map(Value::from)
    );
}

#[test]
fn a_decision_log_counts_a_template_as_one_site_and_says_so() {
    let folder = with_decisions(&[Logged::ago(5, "customers", "198.51.100.7")]);
    let said = folder.run(&["site", "report"]);
    assert!(
        said.out.contains("the decision log has no hosts, so all of a template are one site"),
        "{}",
        said.out
    );
    assert!(said.out.contains("attempts  1 at 1 site, "), "{}", said.out);
}

#[test]
fn a_report_on_one_site_says_nothing_about_the_others() {
    let folder = with_decisions(&several());
    for format in ["text", "json", "html"] {
        for name in ["blog", "www.blog.example.org"] {
            let said = folder.run(&["site", "report", name, "--format", format]);
            assert_eq!(said.code, Some(0), "{}", said.err);
            assert!(said.out.contains("203.0.113.11"), "{format}: {}", said.out);
            for other in ["shop", "closed", "198.51.100.7", "anna"] {
                assert!(!said.out.contains(other), "{other} is in {format}: {}", said.out);
            }
        }
    }
    let said = folder.run(&["site", "report", "blgo"]);
    assert!(said.code == Some(1) && said.err.contains("did you mean `blog`?"), "{}", said.err);
}

/// J3: a page that shows what clients sent takes none of it for markup.
#[test]
fn the_page_is_complete_and_takes_no_text_for_markup() {
    let folder = with_decisions(&[Logged::ago(5, "<script>alert(1)</script>", "198.51.100.7"), several()[1]]);
    let said = folder.run(&["site", "report", "--format", "html"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("<!doctype html>") && said.out.ends_with("</html>\n"), "{}", said.out);
    assert!(
        said.out.contains("Content-Security-Policy") && said.out.contains("<title>Sign-in attempts</title>")
    );
    assert!(!said.out.contains("<script") && said.out.contains("&lt;script&gt;"), "{}", said.out);
    assert!(said.out.contains("<svg") && said.out.contains("198.51.100.7"), "{}", said.out);
}

#[test]
fn rotated_logs_are_read_and_those_of_another_time_or_name_are_not() {
    let folder = with_decisions(&[Logged::ago(5, "shop", "198.51.100.1")]);
    let log = |minutes| {
        let mut log = String::new();
        Logged::ago(minutes, "shop", "198.51.100.2").decisions(&mut log);
        log
    };
    fs::write(folder.0.join("decisions.log.1"), log(24 * 60)).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(log(48 * 60).as_bytes()).unwrap();
    fs::write(folder.0.join("decisions.log-20261120.gz"), gzip.finish().unwrap()).unwrap();
    for name in ["decisions.log.old", "decisions.logs", "other.decisions.log"] {
        fs::write(folder.0.join(name), log(5)).unwrap();
    }
    let old = fs::File::create(folder.0.join("decisions.log.9")).unwrap();
    (&old).write_all(b"not read, so it is no mistake\n").unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(30 * 86_400)).unwrap();
    let report = json(&folder, &[]);
    assert_eq!(figures(&report, "shop", "shop.example.org")[0], 3);
    assert_eq!(report["log"]["lines"], 6);
}

#[test]
fn hashed_clients_are_counted_and_not_named() {
    let attempt = Logged::ago(5, "shop", "0f1e2d3c4b5a6978");
    let report = json(&with_decisions(&[attempt, later(attempt, 1).refused("address")]), &[]);
    assert_eq!(figures(&report, "shop", "shop.example.org")[..2], [2, 1].map(Value::from));
    assert_eq!(report["sites"][0]["worst"], serde_json::json!([]));
}

#[test]
fn logs_that_cannot_tell_are_refused_with_what_would() {
    let folder = with_decisions(&several());
    let mut access = String::new();
    several()[0].request(&mut access);
    fs::write(folder.0.join("access.log"), access).unwrap();
    let line = "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"POST /login HTTP/1.1\" 200 5 \"-\" \"-\"\n";
    fs::write(folder.0.join("combined.log"), line).unwrap();
    for (words, expected) in [
        (&["--log", "combined.log"][..], "1 of 1 lines cannot be read, the first in line 1 of combined.log"),
        (&["--log", "access.log", "--log", "decisions.log"], "the logs are of two kinds"),
        (&["--log", "missing.log"], "cannot read missing.log"),
    ] {
        let said = folder.run(&[&["site", "report"], words].concat());
        assert_eq!((said.code, &*said.out), (Some(1), ""));
        assert!(said.err.contains(expected), "{words:?}: {}", said.err);
    }
    assert_eq!(folder.run(&["site", "report", "--since", "soon"]).code, Some(2));
    fs::remove_file(folder.0.join("decisions.log")).unwrap();
    let said = folder.run(&["site", "report"]);
    assert!(said.code == Some(1) && said.err.contains("has the gate run?"), "{}", said.err);
    fs::write(folder.0.join("config.toml"), CONFIG.replace("decisions = \"decisions.log\"", "")).unwrap();
    let said = folder.run(&["site", "report"]);
    assert!(said.code == Some(1) && said.err.contains("set decisions = \"decisions.log\""), "{}", said.err);
}

#[test]
fn a_running_gates_own_logs_are_read_in_every_schema() {
    ["tollgate", "ocsf", "ecs"].into_iter().for_each(a_running_gates_own_logs_are_read);
}

fn a_running_gates_own_logs_are_read(schema: &str) {
    let application = Upstream::answering(|request, _| {
        let is_right = request.ends_with(b"right");
        Reply::text(if is_right {
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        })
    });
    let log = "[log]\naccess = \"{dir}/access.log\"\nstyle = \"json\"\ndecisions = \"{dir}/decisions.log\"\n";
    let log = format!("{log}schema = \"{schema}\"\n");
    let gate = Gate::start(&format!("{}{log}", application.file(FILE)));
    let mut client = gate.connect();
    for (number, password) in
        ["right", "wrong", "wrong", "wrong", "wrong", "wrong", "wrong"].iter().enumerate()
    {
        client.send(decisions::attempt("198.51.100.7", number, "alice", password));
        client.answer();
    }
    objects(&gate.directory.join("access.log"), 7);
    objects(&gate.directory.join("decisions.log"), 12);
    for words in [&[][..], &["--log", "access.log"]] {
        let mut command = Command::new(binary());
        command
            .current_dir(&gate.directory)
            .args(["-c", "gate.toml", "site", "report", "--format", "json"])
            .args(words);
        let said = command.output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let report: Value = serde_json::from_slice(&said.stdout).unwrap();
        let site = &report["sites"][0];
        let counts = ["attempts", "refused", "signed_in", "failed"].map(|key| site[key].as_u64().unwrap());
        assert_eq!((site["site"].as_str().unwrap(), counts), ("login", [7, 2, 1, 4]), "{report:#}");
        assert_eq!(site["worst"][0]["client"], "198.51.100.7");
    }
    // `replay` decides the attempts of the same log as the gate did, with accounts by their hashes.
    let mut command = Command::new(binary());
    command.current_dir(&gate.directory);
    let said =
        command.args(["replay", "--output", "json", "-c", "gate.toml", "decisions.log"]).output().unwrap();
    let report: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(report["log"]["formats"][0], "decisions of tollgate", "{schema}: {report:#}");
    let same = serde_json::json!({
        "compared": 7, "refused_then": 0, "refused_now": 0, "other_limit": 0, "uncounted_then": 0,
    });
    assert_eq!(report["policies"][0]["gate"], same, "{schema}: {report:#}");
}
