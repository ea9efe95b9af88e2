//! What leaves the process: logs, pages and headers hold nothing of a client as it came, and nothing of ours.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::time::Duration;

use support::{
    Gate, ONE_AN_HOUR, Reply, Upstream, assert_clean, eventually, free_port, get_with, new_directory, post,
    post_with,
};

/// J1: what a client sends cannot forge a line of the log or command a terminal.
#[test]
fn one_request_is_one_line_of_plain_text_in_the_log() {
    for style in ["combined", "json"] {
        let upstream = Upstream::start();
        let log = "[log]\naccess = \"{dir}/access.log\"\nstyle = \"STYLE\"\n".replace("STYLE", style);
        let gate = Gate::start(&upstream.file(&log));
        let hostile = [
            get_with("/a%0d%0aforged", ""),
            get_with("/a\u{1b}[31mred", ""),
            get_with("/a\"b\\c", ""),
            get_with("/%1b%5b31m", ""),
            get_with("/bidi", "User-Agent: \u{202e}\u{2066}txt.exe\r\n"),
            get_with("/csi", "User-Agent: \u{9b}31m\u{85}\u{2028}x\r\n"),
            get_with("/quote", "User-Agent: a\" \"b\\\r\nReferer: \" 200 0 \"\r\n"),
            get_with("/tab", "User-Agent: a\tb\r\n"),
            get_with("/esc", "User-Agent: \u{1b}]0;owned\u{7}\r\n"),
            "GET /host HTTP/1.1\r\nHost: a\"b\r\n\r\n".into(),
            "G\u{1b}T / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
        ];
        for request in &hostile {
            let _ = gate.try_ask(request);
        }
        assert_eq!(gate.ask(get_with("/last", "")).status, 200);
        let read = || fs::read(gate.directory.join("access.log")).unwrap_or_default();
        // Each worker writes its own lines, so the last request's may stand before others.
        let complete = || {
            let text = String::from_utf8_lossy(&read()).into_owned();
            text.contains("/last") && text.lines().count() >= 6
        };
        assert!(eventually(Duration::from_secs(5), complete), "the log is written");
        let bytes = read();
        assert!(
            bytes.iter().all(|byte| *byte == b'\n' || (0x20..0x7F).contains(byte)),
            "{}",
            bytes.escape_ascii()
        );
        let text = String::from_utf8(bytes).unwrap();
        let lines = text.lines().count();
        assert!((6..=hostile.len() + 1).contains(&lines), "{lines} lines: {text}");
        for line in text.lines() {
            assert!(line.starts_with(if style == "json" { "{" } else { "127.0.0.1 - " }), "{line}");
            let unescaped =
                line.replace("\\\\", "").replace("\\\"", "").replace("\\x22", "").matches('"').count();
            assert!(style == "json" || unescaped == 6, "{unescaped} quotes: {line}");
        }
    }
}

/// J1: the same for what the gate says itself.
#[test]
fn the_gates_own_messages_hold_no_byte_of_a_client_as_it_came() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file("[log]\nlevel = \"trace\"\n"));
    for request in [
        get_with("/a\u{1b}[31m", ""),
        get_with("/", "X: \u{7}\r\n"),
        get_with("/", "User-Agent: \u{202e}x\r\n"),
    ] {
        let _ = gate.try_ask(request);
    }
    let said = gate.messages();
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", said.escape_debug());
}

/// J2: templates of the gate's own answers.
#[test]
fn nothing_that_a_client_sends_splits_or_marks_up_an_answer() {
    let upstream = Upstream::start();
    let directory = new_directory();
    let page = directory.join("refused.html");
    fs::write(&page, "<p>{{retry_after}} {{limit}} [{{request_id}}]</p>").unwrap();
    let gate =
        Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}[refuse]\nhtml = \"{}\"\n", page.display())));
    gate.drain("/login", "");
    let ids = [
        "<script>alert(1)</script>",
        "a\"onload=\"x",
        "\\\"",
        "{{limit}}",
        &"x".repeat(5000),
        "%0d%0aSet-Cookie:a",
    ];
    for id in ids {
        let ask = |accept: &str| {
            gate.ask(post_with("/login", &format!("Accept: {accept}\r\nX-Request-Id: {id}\r\n")))
        };
        let answer = ask("text/html");
        assert_eq!((answer.status, answer.header("set-cookie")), (429, None));
        let text = answer.text();
        assert!(!text.contains("<script") && !text.contains("onload=\"") && text.len() < 4000, "{text}");
        assert!(answer.header("x-request-id").is_some_and(|id| (1..300).contains(&id.len())), "{answer:?}");
        let json: serde_json::Value = serde_json::from_slice(&ask("application/json").body).expect("JSON");
        assert_eq!(json["status"], 429);
    }
    let _ = fs::remove_dir_all(directory);
}

/// J3: the page of a refusal.
#[test]
fn the_page_of_a_refusal_runs_no_script_of_anybody() {
    let upstream = Upstream::start();
    let gate = Gate::start(
        &upstream.file("[route.all]\nmatch = \"POST /**\"\n[limit.address]\nrate = \"1 per 1h\"\n"),
    );
    gate.drain("/login", "");
    for target in [
        "/login?next=<script>alert(1)</script>",
        "/\"><img/src=x>",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/'onmouseover=alert(1)",
    ] {
        let lines = "Accept: text/html\r\nReferer: http://a/<script>\r\nUser-Agent: <script>\r\n";
        let answer = gate.ask(post_with(target, lines));
        if answer.status == 400 {
            continue;
        }
        assert_eq!(answer.status, 429, "{target}");
        let text = answer.text();
        assert!(!text.contains("alert(1)") && !text.contains("<img") && !text.contains("<script"), "{text}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").expect("a policy for the page");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

/// J4: no answer of the gate itself may be kept and given to another client.
#[test]
fn no_answer_of_the_gates_own_is_cached() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    for accept in ["text/html", "application/json", "text/plain", "*/*"] {
        let answer = gate.ask(post_with("/login", &format!("Accept: {accept}\r\n")));
        assert_eq!((answer.status, answer.header("cache-control")), (429, Some("no-store")), "{accept}");
        assert!(answer.header("vary").is_some_and(|vary| vary.to_lowercase().contains("accept")));
        assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
    }
    let gate = Gate::start(&format!("upstream = \"http://127.0.0.1:{}\"\n", free_port()));
    assert_eq!(gate.ask(get_with("/", "")).header("cache-control"), Some("no-store"));
    let malformed = gate.ask("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((malformed.status, malformed.header("cache-control")), (400, Some("no-store")));
}

/// J5: whether limits are told is the file's choice.
#[test]
fn limits_are_told_as_the_file_says() {
    let upstream = Upstream::start();
    for (headers, with_refusals, with_others) in [
        ("", true, false),
        ("[refuse]\nheaders = \"never\"\n", false, false),
        ("[refuse]\nheaders = \"always\"\n", true, true),
    ] {
        let gate = Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{headers}")));
        let answers = [gate.ask(post("/login", "")), gate.ask(post("/login", ""))];
        let told = answers.each_ref().map(|answer| {
            let both = [answer.header("ratelimit"), answer.header("ratelimit-policy")];
            assert_eq!(both[0].is_some(), both[1].is_some());
            both[0].is_some()
        });
        assert_eq!(told, [with_others, with_refusals], "{headers:?}");
        if with_refusals {
            let (limit, policy) =
                (answers[1].header("ratelimit").unwrap(), answers[1].header("ratelimit-policy"));
            assert!(limit.starts_with("\"address\";r=0;t="), "{limit}");
            assert_eq!(policy, Some("\"address\";q=1;w=3600"));
        }
    }
}

/// J6: what the upstream hears about the client comes from the gate alone.
#[test]
fn forged_identity_is_replaced_by_ours() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(""));
    let forged = "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\n\
                  X-Forwarded-Proto: https\r\nForwarded: for=9.9.9.9\r\nx-real-ip: 9.9.9.9\r\n";
    assert_eq!(gate.ask(get_with("/", forged)).status, 200);
    let request = upstream.last();
    assert_eq!(request.only("x-forwarded-for"), "127.0.0.1");
    assert_eq!(request.only("x-forwarded-proto"), "http");
    assert_eq!(request.only("x-forwarded-host"), "app.test");
    assert!(request.headers.iter().all(|(_, value)| !value.contains("9.9.9.9") && !value.contains("evil")));
}

/// J7: no answer of the gate says what it is made of.
#[test]
fn no_answer_names_the_server_its_version_or_what_is_behind_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ONE_AN_HOUR));
    gate.drain("/login", "");
    let port = upstream.address.port().to_string();
    let secrets = [port.as_str(), "/tmp", env!("CARGO_MANIFEST_DIR"), ".rs", "src/"];
    assert_clean(&gate.ask(post("/login", "")), &secrets);
    for request in [
        "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        get_with("/", &format!("X: {}\r\n", "x".repeat(100_000))),
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(),
    ] {
        if let Some(answer) = gate.try_ask(request) {
            assert_clean(&answer, &secrets);
        }
    }
    let upstreams_own = Upstream::answering(|_, _| {
        Reply::text("HTTP/1.1 200 OK\r\nServer: app/1\r\nContent-Length: 0\r\n\r\n")
    });
    let gate = Gate::start(&upstreams_own.file(""));
    assert_eq!(
        gate.ask(get_with("/", "")).header("server"),
        Some("app/1"),
        "what the upstream says is its own"
    );
}
