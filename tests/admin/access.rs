//! Who may ask: every page, with and without the token, from pages of other sites, too long, and unknown.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::caller::{LOGIN, RIGHT, TOKEN, ask, ask_locally, attempts, call, gate, send, tollgate_with_token};
use support::authority::{Authority, BOTH, TABLE, encrypted};
use support::{Client, Gate, Launch, Upstream, binary, eventually, free_port, get_with, post_with};

/// Every page for operators but `drain`, which ends the gate: a request that is answered with this status.
const PAGES: &[(&str, &str, &str, u16)] = &[
    ("GET", "/", "", 200),
    ("GET", "/api/v1/history", "", 200),
    ("GET", "/api/v1/routes", "", 200),
    ("GET", "/api/v1/openapi.json", "", 200),
    ("GET", "/api/v1/clients?by=attempts", "", 200),
    ("GET", "/api/v1/rates", "", 200),
    ("GET", "/api/v1/status", "", 200),
    ("GET", "/api/v1/limits", "", 200),
    ("POST", "/api/v1/reload", "", 200),
    ("POST", "/api/v1/check", "listen = 1", 200),
    ("POST", "/api/v1/explain", r#"{"method":"POST","url":"/login"}"#, 200),
    ("GET", "/api/v1/exemptions", "", 200),
    ("PUT", "/api/v1/exemptions/203.0.113.0/24", r#"{"for":"1h"}"#, 200),
    ("DELETE", "/api/v1/exemptions/203.0.113.0%2F24", "", 200),
    ("GET", "/api/v1/bans", "", 200),
    ("GET", "/api/v1/forget", "", 200),
    ("POST", "/api/v1/forget", r#"{"who":["user:a"],"dry_run":true}"#, 202),
    ("PUT", "/api/v1/bans/203.0.113.0/24", r#"{"for":"1h"}"#, 200),
    ("DELETE", "/api/v1/bans/203.0.113.0%2F24", "", 200),
    ("PUT", "/api/v1/limits/address/mode", r#"{"mode":"observe","for":"1h"}"#, 200),
    ("PUT", "/api/v1/mode", r#"{"mode":"enforce"}"#, 200),
    ("GET", "/api/v1/events", "", 200),
    ("GET", "/api/v1/buckets/ip:127.0.0.1", "", 200),
    ("DELETE", "/api/v1/buckets/ip:127.0.0.1", "", 200),
    ("POST", "/api/v1/buckets/ip:127.0.0.1/credit", r#"{"tokens":1}"#, 200),
    ("PUT", "/api/v1/buckets/ip:127.0.0.1/rate", r#"{"limit":"address","rate":"9/min","for":"1h"}"#, 200),
    ("PUT", "/api/v1/buckets/ip:127.0.0.1/ban", r#"{"for":"1h"}"#, 200),
    ("DELETE", "/api/v1/buckets/ip:127.0.0.1/ban", "", 200),
    ("PUT", "/api/v1/buckets/ip:127.0.0.1/exemption", r#"{"for":"1h"}"#, 200),
];

/// K4: all but health and metrics needs the token.
#[test]
fn every_page_is_answered_with_the_right_token_and_no_other() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    for (method, path, body, status) in PAGES {
        let wrong = RIGHT.replace(TOKEN, "0123456789abcdef0124");
        assert_eq!(call(&gate, method, path, &wrong, body).status, 401, "{method} {path}");
        let without = "X-Tollgate-Request: 1\r\nContent-Type: application/json\r\n";
        let refused = call(&gate, method, path, without, body);
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert_eq!(first_status(&gate, method, path, body), *status, "{method} {path}");
    }
    assert!(gate.messages().contains("a caller of the admin API sent a wrong token"));
}

/// Browsers send what they asked for with Basic: the token is the password, and the name says nothing.
#[test]
fn the_token_may_come_as_the_password_of_basic() {
    use base64::Engine as _;
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let basic = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for (given, status) in [
        (format!("operator:{TOKEN}"), 200),
        (format!(":{TOKEN}"), 200),
        (format!("{TOKEN}:"), 401),
        (TOKEN.to_owned(), 401),
    ] {
        let line = format!("Authorization: Basic {}\r\n", basic(&given));
        let answer = call(&gate, "GET", "/", &line, "");
        assert_eq!(answer.status, status, "{given}");
    }
    let page =
        call(&gate, "GET", "/", &format!("Authorization: Basic {}\r\n", basic(&format!("a:{TOKEN}"))), "");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
}

/// The status over TCP with the right token, without waiting for the end of a stream.
fn first_status(gate: &Gate, method: &str, path: &str, body: &str) -> u16 {
    let mut client = Client::connect(gate.admin);
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{RIGHT}Content-Length: {length}\r\n");
    client.send(format!("{head}\r\n{body}"));
    String::from_utf8_lossy(&client.take(12).unwrap())[9..].parse().unwrap()
}

/// K2, L16: a foreign Host or Origin is refused before the token is looked at.
#[test]
fn pages_of_other_sites_and_foreign_names_are_refused_everywhere() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let open = ["/livez", "/readyz", "/metrics"].map(|path| ("GET", path, "", 200));
    for (method, path, body, _) in PAGES.iter().chain(&open) {
        for lines in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"]
        {
            let answer = call(&gate, method, path, &format!("{RIGHT}{lines}"), body);
            assert_eq!(answer.status, 403, "{method} {path} {lines}");
        }
        let request = format!("{method} {path} HTTP/1.1\r\nHost: evil.example\r\n{RIGHT}\r\n");
        assert_eq!(send(&gate, &request).status, 403, "{method} {path}");
    }
}

/// K1: the simple requests of a browser change nothing, not even with the token.
#[test]
fn what_a_form_of_a_browser_sends_is_refused() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for (method, path, body, _) in PAGES.iter().filter(|(method, ..)| *method != "GET") {
        assert_eq!(call(&gate, method, path, &bearer, body).status, 403, "{method} {path}");
        let plain = format!("{bearer}X-Tollgate-Request: 1\r\nContent-Type: text/plain\r\n");
        let status = call(&gate, method, path, &plain, "{}").status;
        assert_eq!(status, 415, "{method} {path}");
    }
    assert_eq!(gate.reloads(), (0, 0));
}

#[test]
fn what_is_too_long_or_unknown_is_refused() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    for (method, path, body, _) in PAGES {
        if !body.is_empty() {
            let long = format!("{RIGHT}Content-Length: 1048577\r\n");
            let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{long}\r\n");
            assert_eq!(send(&gate, &request).status, 413, "{method} {path}");
        }
        let head = format!("{method} {path}?{} HTTP/1.1\r\nHost: 127.0.0.1\r\n", "x".repeat(70_000));
        let mut client = Client::connect(gate.admin);
        client.send_what_goes(head.as_bytes());
        let status = client.try_answer().map_or(431, |answer| answer.status);
        assert!(matches!(status, 414 | 431), "{method} {path}: {status}");
        assert_eq!(ask(&gate, "PATCH", path, "").0, 405, "{path}");
        if body.starts_with('{') {
            let unknown = body.replacen('{', r#"{"typo":1,"#, 1);
            let (status, problem) = ask(&gate, method, path, &unknown);
            assert_eq!(status, 422, "{method} {path}");
            assert!(problem["detail"].as_str().unwrap().contains("`typo` means nothing here"), "{problem}");
            for broken in ["{", "[]", "null", "{\"for\":1}", "\u{1}", &"[".repeat(10_000)] {
                assert_eq!(ask(&gate, method, path, broken).0, 422, "{method} {path} {broken:.9}");
            }
        }
    }
    for path in ["/api/v1", "/api/v1/", "/api/v1/status/", "/api/v1/limits/a/b/mode", "/api/v2/status", "//"]
    {
        assert_eq!(ask(&gate, "GET", path, "").0, 404, "{path}");
    }
}

/// K3: without a token TCP offers health and metrics alone, and any address may be named for them.
#[test]
fn without_a_token_a_far_listener_offers_three_pages() {
    let upstream = Upstream::start();
    let port = free_port();
    let launch = Launch::new(&upstream.file(LOGIN)).operators_at(&format!("http://0.0.0.0:{port}"));
    let gate = launch.start();
    // The tests stay within this machine: another address of loopback stands for one of a network.
    let local = Ipv4Addr::new(127, 0, 0, 2);
    let far = |path: &str, lines: &str| {
        let mut client = Client::connect((local, port).into());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {local}:{port}\r\n{lines}\r\n"));
        client.answer().status
    };
    assert_eq!(["/livez", "/readyz", "/metrics"].map(|path| far(path, "")), [200; 3]);
    let (status, _) = ask(&gate, "GET", "/api/v1/status", "");
    assert_eq!((status, far("/api/v1/status", RIGHT)), (403, 403));
    assert_eq!(ask_locally(&gate, "GET", "/api/v1/status", "").0, 200, "a Unix socket needs none");
}

#[test]
fn a_token_is_taken_over_tls_by_a_name_of_the_certificate() {
    let authority = Authority::new();
    let pair = authority.issue(&["gate.test"]);
    let port = free_port();
    let upstream = Upstream::start();
    let launch = Launch::new(&format!("{}{TABLE}", upstream.file(LOGIN)));
    let launch = launch.with(&pair, "server").operators_at(&format!("https://127.0.0.1:{port}"));
    let _gate = launch.environment("TOLLGATE_ADMIN__TOKEN", TOKEN).start();
    let config = Arc::new(authority.client_config(BOTH));
    let status = |host: &str| {
        let mut client = Client::over_tls(encrypted(&config, ([127, 0, 0, 1], port).into(), "gate.test"));
        client.send(format!("GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\n{RIGHT}\r\n"));
        client.answer().status
    };
    assert_eq!([status("gate.test"), status("gate.test:9443"), status("evil.test")], [200, 200, 403]);
}

/// L16: guessing the token over TCP.
#[test]
fn guesses_are_slowed_down_and_told_when_to_come_again() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let guess = "Authorization: Bearer 0123456789abcdefXXXX\r\n";
    let statuses: Vec<u16> =
        (0..90).map(|_| call(&gate, "GET", "/api/v1/status", guess, "").status).collect();
    assert!(statuses[..60].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses[60..].contains(&429), "{statuses:?}");
    let mut last = None;
    assert!(eventually(Duration::from_secs(5), || {
        last = Some(call(&gate, "GET", "/api/v1/status", guess, ""));
        last.as_ref().unwrap().status == 429
    }));
    assert_eq!(last.unwrap().retry_after(), 1);
    assert_eq!(call(&gate, "GET", "/metrics", "", "").status, 200, "no token is asked for this");
    assert_eq!(ask_locally(&gate, "GET", "/api/v1/status", "").0, 200);
    let recovers = || ask(&gate, "GET", "/api/v1/status", "").0 == 200;
    assert!(eventually(Duration::from_secs(5), recovers));
}

#[test]
fn a_token_may_be_changed_by_a_reload() {
    let upstream = Upstream::start();
    let launch = Launch::new(&upstream.file(LOGIN)).beside("admin.token", &format!("{TOKEN}\n"));
    let gate = launch.environment("TOLLGATE_ADMIN__TOKEN", "${file:admin.token}").start();
    assert_eq!(ask(&gate, "GET", "/api/v1/status", "").0, 200);
    std::fs::write(gate.directory.join("admin.token"), "another-token-of-24-bytes").unwrap();
    assert_eq!(ask_locally(&gate, "POST", "/api/v1/reload", "").0, 200);
    assert_eq!(ask(&gate, "GET", "/api/v1/status", "").0, 401);
}

/// K5: callers that say nothing keep neither clients nor the readers of health out for long.
#[test]
fn slow_callers_starve_neither_clients_nor_each_other() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let mut slow: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(gate.admin).unwrap()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /api/v1/status HTTP/1.1\r\n").unwrap());
    let begun = Instant::now();
    for _ in 0..50 {
        assert_eq!(gate.ask(get_with("/", "")).status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "clients wait for no operator");
    assert_eq!(ask_locally(&gate, "GET", "/api/v1/status", "").0, 200, "each listener has its own permits");
    assert_eq!(call(&gate, "GET", "/livez", "", "").status, 200, "a slow caller has five seconds");
    assert!(begun.elapsed() < Duration::from_secs(12));
}

/// K5: a gate whose workers are busy still answers its operators.
#[test]
fn a_flood_of_clients_does_not_starve_operators() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let address = gate.address;
    let flood: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for _ in 0..500 {
                    client.send(post_with("/login", ""));
                    assert!(matches!(client.answer().status, 200 | 429));
                }
            })
        })
        .collect();
    let begun = Instant::now();
    (0..10).for_each(|_| assert_eq!(ask(&gate, "GET", "/api/v1/status", "").0, 200));
    assert!(begun.elapsed() < Duration::from_secs(5));
    flood.into_iter().for_each(|thread| thread.join().unwrap());
}

/// K7: no path and no Host leads from the listener of clients to the admin pages.
#[test]
fn clients_do_not_reach_the_admin_pages() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    for (method, path, ..) in PAGES.iter().chain(&[("GET", "/metrics", "", 200), ("GET", "/readyz", "", 200)])
    {
        for host in ["127.0.0.1", &gate.admin.to_string(), "localhost"] {
            let request =
                format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{RIGHT}Content-Length: 0\r\n\r\n");
            let answer = gate.ask(request);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.text(), "ok", "the application answered");
        }
    }
    assert_eq!(upstream.requests().len(), 3 * (PAGES.len() + 2));
    assert_eq!(gate.reloads(), (0, 0));
}

/// K6: no address, account or path is in a metric, whatever operators do.
#[test]
fn metrics_name_what_the_file_names_and_nothing_else() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    attempts(&gate, [127, 9, 8, 7], 3);
    ask(&gate, "PUT", "/api/v1/exemptions/127.9.8.0/24", r#"{"for":"1h","why":"the office"}"#);
    attempts(&gate, [127, 9, 8, 7], 1);
    let page = gate.metrics();
    for private in ["127.9", "office", "/login", TOKEN] {
        assert!(!page.contains(private), "{private} in {page}");
    }
    assert!(page.contains("decision=\"exempt\"} 1"), "{page}");
}

/// K4: what an operator over TCP does is in the log, with the address.
#[test]
fn operators_over_tcp_are_named_in_the_log() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    ask(&gate, "POST", "/api/v1/reload", "");
    ask(&gate, "DELETE", "/api/v1/buckets/ip:127.0.0.1", "");
    ask(&gate, "PUT", "/api/v1/exemptions/203.0.113.0/24", r#"{"for":"1h","why":"audit"}"#);
    ask(&gate, "PUT", "/api/v1/limits/address/mode", r#"{"mode":"observe"}"#);
    ask(&gate, "POST", "/api/v1/drain", "");
    let words = [
        "an operator started a reload",
        "an operator reset buckets",
        "an operator exempted clients from all limits",
        "an operator changed the mode of limits",
        "an operator started a drain",
    ];
    for word in words {
        assert!(eventually(Duration::from_secs(5), || gate.messages().contains(word)), "{word}");
        let messages = gate.messages();
        let line = messages.lines().find(|line| line.contains(word)).unwrap();
        assert!(line.contains("127.0.0.1"), "{line}");
        assert_eq!(line.contains("203.0.113.0/24"), word.contains("exempted"), "{line}");
    }
}

/// Opens the dashboard from this address.
fn open_dashboard(gate: &Gate, from: Ipv4Addr) {
    let mut client = Client::connect_from(from, gate.admin);
    client.send(format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{RIGHT}\r\n").as_bytes());
    assert_eq!(client.answer().status, 200);
}

/// The statuses of three attempts, of which the limit by address refuses the third.
const COUNTED: [u16; 3] = [200, 200, 429];

#[test]
fn who_opened_the_dashboard_is_not_shut_out_by_address() {
    let upstream = Upstream::start();
    let account = "[limit.account]\nkey = \"user\"\nrate = \"4 per 1000h\"\n";
    let gate =
        gate(&upstream, &format!("{}{account}", LOGIN.replace("login\"", "login\"\nuser = \"query:u\"")));
    let [operator, other] = [[127, 9, 8, 7], [127, 9, 8, 6]];
    open_dashboard(&gate, Ipv4Addr::from(operator));
    assert_eq!(attempts(&gate, operator, 3), [200; 3]);
    assert_eq!(attempts(&gate, other, 3), COUNTED, "it is one address that is exempt");
    let mut client = gate.connect_from(Ipv4Addr::from(operator));
    let of_alice = |_| {
        client.send(post_with("/login?u=alice", ""));
        client.answer().status
    };
    assert_eq!((0..5).map(of_alice).collect::<Vec<_>>(), [200, 200, 200, 200, 429], "accounts stay guarded");
    let (_, page) = ask(&gate, "GET", "/api/v1/exemptions", "");
    assert_eq!(
        (&page["exemptions"][0]["by"], &page["exemptions"][0]["all"]),
        (&"admin at 127.9.8.7".into(), &false.into())
    );
    open_dashboard(&gate, Ipv4Addr::from(operator));
    let said = gate.messages().matches("opened the dashboard").count();
    assert_eq!(said, 1, "it is said once, and not with each look");
    open_dashboard(&gate, Ipv4Addr::LOCALHOST);
    assert_eq!(attempts(&gate, [127, 0, 0, 1], 3), COUNTED, "all callers of a tunnel have this address");
}

#[test]
fn nobody_is_exempt_by_a_look_where_that_is_turned_off() {
    let upstream = Upstream::start();
    let launch = Launch::new(&upstream.file(LOGIN)).environment("TOLLGATE_ADMIN__TOKEN", TOKEN);
    let gate = launch.environment("TOLLGATE_ADMIN__EXEMPT", "off").start();
    open_dashboard(&gate, Ipv4Addr::new(127, 9, 8, 7));
    assert_eq!(attempts(&gate, [127, 9, 8, 7], 3), COUNTED);
}

/// What `doctor` says of the address of this SSH connection.
fn doctor_of(gate: &Gate, ssh: &str) -> String {
    let mut command = Command::new(binary());
    command.args(["doctor", "-c"]).arg(gate.admin_socket().with_file_name("gate.toml"));
    let output = command.env("SSH_CONNECTION", format!("{ssh} 50000 192.0.2.1 22")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines = said.lines().skip_while(|line| !line.contains(&format!("your address {ssh}: ")));
    lines.take(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn doctor_says_whether_the_gate_refuses_who_asks() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    attempts(&gate, [127, 9, 8, 7], 3);
    for (address, words, fix) in [
        ("127.9.8.6", "no limit refuses it now", ""),
        ("127.9.8.7", "limit `address` refuses it now", "fix: tollgate buckets exempt 127.9.8.7 --for 1h"),
    ] {
        let said = doctor_of(&gate, address);
        assert!(said.contains(words) && said.contains(fix), "{said}");
    }
    ask(&gate, "PUT", "/api/v1/bans/127.9.8.0%2F24", r#"{"for":"1h"}"#);
    let said = doctor_of(&gate, "127.9.8.6");
    assert!(said.contains("127.9.8.0/24 is banned until "), "{said}");
    assert!(said.contains("fix: tollgate buckets ban 127.9.8.0/24 --end"), "{said}");
}

#[test]
fn commands_ask_over_tcp_with_the_token_of_the_environment_or_the_file() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let address = format!("http://{}", gate.admin);
    for words in
        [&["status"][..], &["buckets", "list"], &["top", "--once"], &["mode", "observe", "--for", "1m"]]
    {
        let words = [words, &["--admin", &address]].concat();
        let (code, _, error) = tollgate_with_token(&words, TOKEN);
        assert_eq!((code, &*error), (Some(0), ""), "{words:?}");
    }
    let words = ["status", "--admin", &address];
    let (code, _, error) = tollgate_with_token(&words, "a wrong token of this length");
    assert_eq!((code, error.contains("the token is not that of admin.token")), (Some(1), true), "{error}");
    let (code, _, error) = tollgate_with_token(&["status", "--admin", "http://192.0.2.1:9"], TOKEN);
    assert_eq!((code, error.contains("unencrypted")), (Some(1), true), "{error}");
    let (code, _, error) = tollgate_with_token(&["status", "--admin", "192.0.2.1:9"], TOKEN);
    assert_eq!((code, error.contains("unix:PATH, http://HOST:PORT")), (Some(2), true), "{error}");

    // A file whose only listener for operators is this one.
    let folder = support::Folder::new();
    let file = format!(
        "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n{LOGIN}\n[admin]\nlisten = \"{address}\"\ntoken = \"{TOKEN}\"\n"
    );
    std::fs::write(folder.0.join("config.toml"), file).unwrap();
    let said = folder.run(&["status"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
}
