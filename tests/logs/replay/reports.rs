//! Golden reports of a made log: text, JSON, page. `UPDATE=1` writes them.

use std::fmt::Write;
use std::path::Path;

use super::{Files, printed, replay, report};

/// Two limits by address, one by subnet, one that the log cannot judge.
const CONFIG: &str = r#"
upstream = "http://127.0.0.1:9"
listen = "http://127.0.0.1:0"

[route.login]
match = "POST /login"
user = "form:name"
success = [{ status = 302 }]
failure = [{ status = 200 }]

[limit.address]
rate = "10 per 5m"

[limit.failures]
rate = "1 per 1m burst 5"
count = "failures"

[limit.subnet]
rate = "60 per 5m"
ipv4 = 24

[limit.watched]
rate = "2 per 1m"
mode = "observe"

[limit.account]
key = "user"
rate = "1 per 3m burst 10"
"#;

/// An hour in the format of Apache: people who mistype now and then, one who does so often, pages, a guesser, and a
/// crowd of guessers of one subnet.
fn log() -> String {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut add = |second: u32, client: &str, request: &str, status: u16| {
        let time = format!(
            "22/Nov/2026:{:02}:{:02}:{:02} +0000",
            10 + second / 3_600,
            second / 60 % 60,
            second % 60
        );
        lines.push((
            second,
            format!("{client} - - [{time}] \"{request} HTTP/1.1\" {status} 512 \"-\" \"test\""),
        ));
    };
    for person in 0..200 {
        let client = format!("198.51.{}.{}", person / 50, person % 50);
        let second = person * 17;
        add(second, &client, "GET /login", 200);
        (0..person % 4).for_each(|mistake| add(second + 5 + mistake * 9, &client, "POST /login", 200));
        add(second + 45, &client, "POST /login", 302);
    }
    (0..14).for_each(|mistake| add(1_800 + mistake * 4, "203.0.113.7", "POST /login", 200));
    add(1_900, "203.0.113.7", "POST /login", 302);
    (0..600).for_each(|guess| add(600 + guess * 2, "192.0.2.66", "POST /login", 200));
    (0..1_000)
        .for_each(|guess| add(2_400 + guess / 4, &format!("192.0.3.{}", guess % 250), "POST //login", 200));
    lines.sort_by_key(|(second, _)| *second);
    let mut log = String::new();
    lines.iter().for_each(|(_, line)| writeln!(log, "{line}").unwrap());
    log.push_str("\u{1b}]0;evil\u{7} <script>\n");
    log
}

#[test]
fn the_report_says_who_is_refused_by_what_and_suggests_a_rate() {
    let files = files();
    let text = printed(&replay(&files.0, &["-c", "gate.toml", "access.log"]));
    assert_golden("text.txt", &text);
}

#[test]
fn the_report_as_json_has_the_same_numbers() {
    let files = files();
    let text = printed(&replay(&files.0, &["-c", "gate.toml", "--output", "json", "access.log"]));
    assert_golden("report.json", &text);
}

#[test]
fn two_policies_are_shown_side_by_side() {
    let files = files();
    let stricter = CONFIG.replace("10 per 5m", "3 per 5m").replace("60 per 5m", "600 per 5m");
    files.write("new.toml", stricter);
    let text = printed(&replay(&files.0, &["-c", "gate.toml", "--compare", "new.toml", "access.log"]));
    assert_golden("compared.txt", &text);
}

#[test]
fn the_page_stands_alone_and_escapes_what_clients_sent() {
    let files = files();
    files.write("new.toml", CONFIG.replace("10 per 5m", "3 per 5m"));
    let arguments = ["-c", "gate.toml", "--compare", "new.toml", "--html", "report.html", "access.log"];
    printed(&replay(&files.0, &arguments));
    let page = std::fs::read_to_string(files.0.join("report.html")).unwrap();
    assert!(page.contains("default-src 'none'") && page.contains("color-scheme: light dark"));
    for outside in ["http:", "https:", "//", "src=", "@import", "url(", "<script", "<link", "\u{1b}"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<svg").count(), 8, "a plot for each limit that is judged, twice");
    assert!(page.contains("192.0.2.66") && page.contains("Side by side"));
}

#[test]
fn a_route_that_a_body_may_choose_hides_no_person_who_was_refused() {
    let mail =
        "[route.mail]\nmatch = \"POST /login\"\nwhen = \"form:lost\"\notherwise = \"failure\"\n[route.login]";
    let files = files();
    files.write("mail.toml", CONFIG.replacen("[route.login]", mail, 1));
    let found = |file: &str| {
        let report = report(&files.0, &["-c", file, "access.log"]);
        let limits = report["policies"][0]["limits"].as_array().unwrap().clone();
        limits.iter().filter_map(|limit| limit["likely_false_positives"].as_u64()).sum::<u64>()
    };
    assert!(found("gate.toml") > 0);
    assert_eq!(found("mail.toml"), found("gate.toml"));
}

fn files() -> Files {
    let files = Files::new();
    files.write("gate.toml", CONFIG);
    files.write("access.log", log());
    files
}

fn assert_golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs/replay/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "run with UPDATE=1 and read what changes in {}", path.display());
}
