//! Input that is nested deeper than any stack: a recursive reader would end the process.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use support::{Gate, Reply, Upstream, binary, check_file, get_with, new_directory};

const DEEP: usize = 30_000;

fn nested(open: &str, inside: &str, close: &str) -> String {
    format!("{}{inside}{}", open.repeat(DEEP), close.repeat(DEEP))
}

fn form(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// H16: bodies of requests.
#[test]
fn bodies_that_are_nested_without_end_are_answered_and_forgotten() {
    let upstream = Upstream::start();
    for (kind, field, bodies) in [
        (
            "application/json",
            "user = \"json:/a/a/name\"",
            vec![
                nested("[", "", "]"),
                nested("{\"a\":", "1", "}"),
                nested("[{\"b\":", "1", "}]"),
                "[".repeat(DEEP),
                "{\"a\":".repeat(DEEP),
                format!("{{\"b\":{},\"a\":{{\"a\":{{\"name\":\"x\"}}}}}}", nested("[", "", "]")),
            ],
        ),
        (
            "text/xml",
            "cost = \"count:methodName\"",
            vec![
                nested("<a>", "", "</a>"),
                "<a>".repeat(DEEP),
                nested("<array><data><value>", "", "</value></data></array>"),
                format!("<?xml version=\"1.0\"?>{}", nested("<methodCall>", "", "</methodCall>")),
            ],
        ),
        (
            "application/json",
            "cost = \"count:[]\"",
            vec![nested("[", "", "]"), "[".repeat(DEEP), nested("[{\"a\":", "1", "}]")],
        ),
        (
            "application/x-www-form-urlencoded",
            "user = \"form:name\"",
            vec![format!("name{}=x", "[a]".repeat(DEEP)), format!("a{}=%", "%5B".repeat(DEEP))],
        ),
        (
            "multipart/form-data; boundary=b",
            "user = \"form:name\"",
            vec![
                "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n".repeat(2_000),
                format!("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n", "\\\"".repeat(DEEP)),
            ],
        ),
    ] {
        let file = format!(
            "[route.login]\nmatch = \"POST /login\"\nbody = \"4MiB\"\n{field}\n\
             [limit.address]\nrate = \"1000/s\"\n[limit.account]\nkey = \"{}\"\nrate = \"1000/s\"\n",
            if field.starts_with("user") { "user" } else { "ip" }
        );
        let mut gate = Gate::start(&upstream.file(&file));
        for body in bodies {
            let status = gate.ask(form(kind, &body)).status;
            assert!(matches!(status, 200 | 400 | 413 | 429), "{field}: {status} for {:.40}", body);
        }
        assert!(gate.is_running() && !gate.messages().contains("overflow"), "{field}: {}", gate.messages());
    }
}

/// H16: heads of requests.
#[test]
fn heads_that_are_nested_without_end_are_answered_and_forgotten() {
    let upstream = Upstream::start();
    let file = "[route.login]\nmatch = [\"ANY /**/a/**/b/**/login\", \"POST /*/*/*/**\"]\n\
                [limit.address]\nrate = \"1 per 1h\"\n[client]\ntrust = [\"127.0.0.1\"]\nheader = \"Forwarded\"\n";
    let mut gate = Gate::start(&upstream.file(file));
    let half = 8_000;
    for lines in [
        format!("Accept: text/html{}\r\n", ";a=(".repeat(half)),
        format!("Accept: {}\r\n", "*/*;q=0.".repeat(3_000)),
        format!("Forwarded: for=\"{}\"\r\n", "[\\\"".repeat(half)),
        format!("Forwarded: {}\r\n", "for=1;by=(".repeat(2_500)),
        format!("Cookie: {}\r\n", "a=\"".repeat(half)),
        format!("Connection: {}\r\n", "close,".repeat(4_000)),
    ] {
        let status = gate.ask(get_with("/x", &lines)).status;
        assert!(matches!(status, 200 | 400 | 429 | 431), "{status} for {lines:.40}");
    }
    for path in ["/a/..", "/./", "/a/b/", "/%2e%2e", "/;a", "/%252e%252e/", "//", "/a/login"] {
        let status = gate.ask(get_with(&path.repeat(20_000 / path.len()), "")).status;
        assert!(matches!(status, 200 | 400 | 414 | 429), "{status} for {path}");
    }
    assert!(gate.is_running() && !gate.messages().contains("overflow"), "{}", gate.messages());
}

/// H16, H8: answers whose bodies rules look into, coded again and again.
#[test]
fn answers_that_are_nested_without_end_are_handed_on() {
    let mut codings = String::new();
    (0..2_000).for_each(|_| write!(codings, "gzip, ").unwrap());
    let answers = [
        (String::new(), nested("[", "", "]")),
        (String::new(), nested("{\"ok\":", "1", "}")),
        (format!("Content-Encoding: {codings}br\r\n"), "x".repeat(100)),
        ("Content-Encoding: gzip, gzip, gzip, gzip\r\n".to_owned(), "\x1f\u{8b}".repeat(100)),
    ];
    for (lines, body) in answers {
        let text = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let upstream = Upstream::answering(move |_, _| Reply::text(&text));
        let file = "[route.login]\nmatch = \"POST /login\"\nfailure = [{ json = \"/ok\", equals = \"false\" }]\n\
                    otherwise = \"success\"\n[limit.address]\nrate = \"9/s\"\ncount = \"failures\"\n";
        let mut gate = Gate::start(&upstream.file(file));
        assert_eq!(gate.ask(form("text/plain", "x")).status, 200, "{lines:.30}");
        assert!(gate.is_running() && !gate.messages().contains("overflow"), "{}", gate.messages());
    }
}

/// H8: what a client sends compressed is unpacked no further than the route reads.
#[test]
fn a_compressed_body_is_unpacked_as_far_as_its_route_reads() {
    let upstream = Upstream::start();
    let file = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:name\"\n\
                [limit.account]\nkey = \"user\"\nrate = \"9/s\"\n";
    let gate = Gate::start(&upstream.file(file));
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; UNPACKED]).unwrap();
    let bomb = bomb.finish().unwrap();
    for (target, wanted) in [("/login", 413), ("/upload", 200)] {
        let ask = |coding: &str, body: &[u8]| {
            let head = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 {coding}Content-Length: {}\r\n\r\n",
                body.len()
            );
            gate.ask([head.as_bytes(), body].concat()).status
        };
        // What any request needs for the first time, code above all, is there before it is measured.
        assert_eq!(ask("", "a=b&".repeat(bomb.len() / 4).as_bytes()), 200, "{target}");
        let before = gate.memory();
        let status = ask("Content-Encoding: gzip\r\n", &bomb);
        assert_eq!(status, wanted, "{target}");
        if status == 200 {
            assert!(upstream.last().body == bomb, "{target}: byte for byte");
        }
        let grown = gate.memory().saturating_sub(before);
        assert!(grown < UNPACKED as u64 / 1024 / 2, "{target}: {grown} KiB more");
    }
}

/// What the compressed body would be.
const UNPACKED: usize = 16 << 20;

/// H16: the gate's own file, which a mistake may nest.
#[test]
fn files_that_are_nested_without_end_are_mistakes() {
    let opening = "[".repeat(DEEP);
    for text in [
        format!("upstream = {}", nested("[", "", "]")),
        format!("upstream = {opening}"),
        format!("upstream = {}", nested("{a=", "1", "}")),
        format!("[{}]\n", vec!["a"; DEEP].join(".")),
        format!("{} = 1\n", vec!["a"; DEEP].join(".")),
        format!("{opening}a{}\n", "]".repeat(DEEP)),
    ] {
        let said = check_file(&text);
        assert_eq!(said.status.code(), Some(78), "{:.40}: {}", text, String::from_utf8_lossy(&said.stderr));
    }
    let directory = new_directory();
    std::fs::write(directory.join("gate.toml"), "upstream = \"http://127.0.0.1:1\"\n").unwrap();
    let set = format!("limit.a.rate={}", nested("[", "", "]"));
    let said = Command::new(binary())
        .args(["check", "-c"])
        .arg(directory.join("gate.toml"))
        .args(["--set", &set])
        .output();
    assert_eq!(said.unwrap().status.code(), Some(78), "on the command line, too");
    let _ = std::fs::remove_dir_all(&directory);
}
