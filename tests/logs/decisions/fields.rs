//! The fields of the logs of a running gate.

use serde_json::Value;

use support::decisions::{FILE, attempt, objects};
use support::{Gate, Reply, Upstream, get_with};

fn application() -> Upstream {
    Upstream::answering(|_, _| Reply::text("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
}

#[test]
fn the_json_access_log_says_what_refused_for_how_long_and_what_came_of_the_attempt() {
    let application = application();
    let limits = "[limit.watched]\nrate = \"2 per 1d\"\nmode = \"observe\"\n[log]\nstyle = \"json\"\n\
                  access = \"{dir}/access.log\"\ndecisions = \"{dir}/decisions.log\"\n";
    let gate = Gate::start(&format!("{}{limits}", application.file(FILE)));
    let mut client = gate.connect();
    for number in 0..6 {
        client.send(attempt("198.51.100.7", number, "alice", "wrong"));
        client.answer();
    }
    client.send(get_with("/", ""));
    client.answer();
    let lines = objects(&gate.directory.join("access.log"), 7);
    let of = |at: usize, keys: [&str; 6]| keys.map(|key| lines[at][key].clone());
    let keys = ["refused_by", "limit", "left", "outcome", "would_refuse", "route"];
    let text = |text: &str| Value::from(text);
    let (null, failure, login) = (Value::Null, text("failure"), text("login"));
    assert_eq!(
        of(0, keys),
        [null.clone(), null.clone(), 1.into(), failure.clone(), null.clone(), login.clone()]
    );
    assert_eq!(of(2, keys), [null.clone(), null.clone(), 0.into(), failure, text("watched"), login.clone()]);
    let refused = of(5, keys);
    assert_eq!(refused[..3], [text("address"), text("address"), 0.into()]);
    assert_eq!(refused[3..], [null.clone(), text("watched"), login]);
    let wait = lines[5]["wait"].as_f64().unwrap();
    assert!((17_000.0..=17_280.0).contains(&wait), "a token comes each 4.8 hours: {wait}");
    assert_eq!(lines[0]["wait"], null);
    assert_eq!(of(6, keys), [const { Value::Null }; 6]);
    let decisions = objects(&gate.directory.join("decisions.log"), 17);
    let (admitted, refused) = decisions.split_at(15);
    assert_eq!(refused.len(), 2, "the request for / is no attempt");
    let account = decisions[0]["account"].as_str().unwrap();
    assert!(account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_hexdigit()), "{account}");
    assert!(admitted.iter().all(|line| line["account"] == account && line["outcome"] == "failure"));
    // Refused before its body was read.
    assert!(refused.iter().all(|line| line["account"] == null && line["outcome"] == null));
    assert!(decisions.iter().all(|line| line["client"] == "198.51.100.7" && line["device"] == false));
}

#[test]
fn a_combined_line_names_a_refusing_limit_behind_everything_else() {
    let application = application();
    let limits = "[log]\naccess = \"{dir}/access.log\"\n";
    let gate = Gate::start(&format!("{}{limits}", application.file(FILE)));
    let mut client = gate.connect();
    for number in 0..6 {
        client.send(attempt("198.51.100.7", number, "alice", "wrong"));
        client.answer();
    }
    let path = gate.directory.join("access.log");
    let text = || std::fs::read_to_string(&path).unwrap_or_default();
    assert!(support::eventually(std::time::Duration::from_secs(5), || text().lines().count() == 6));
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with(" 401 0 \"-\" \"-\""), "{}", lines[0]);
    assert!(lines[5].ends_with(" \"-\" \"-\" refused_by=\"address\""), "{}", lines[5]);
}

#[test]
fn a_client_is_written_as_log_clients_says() {
    for (clients, shown) in [("prefix", "198.51.100.0"), ("hash", "")] {
        let application = application();
        let limits = format!(
            "[client]\nipv4 = 24\n[log]\nclients = \"{clients}\"\ndecisions = \"{{dir}}/decisions.log\"\n"
        );
        let file = application.file(&FILE.replace("client.trust = \"127.0.0.1\"\n", ""));
        let limits = limits.replace("ipv4 = 24\n", "ipv4 = 24\ntrust = \"127.0.0.1\"\n");
        let gate = Gate::start(&format!("{file}{limits}"));
        let mut client = gate.connect();
        client.send(attempt("198.51.100.7", 0, "alice", "wrong"));
        client.answer();
        let lines = objects(&gate.directory.join("decisions.log"), 2);
        let written = lines[0]["client"].as_str().unwrap();
        assert!(
            if shown.is_empty() { written.len() == 16 } else { written == shown },
            "{clients}: {written}"
        );
    }
}
