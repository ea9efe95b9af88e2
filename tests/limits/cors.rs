//! Pages of another origin: they read what the gate answers where the route allows it, and the application's CORS stays
//! its own.

use support::{Gate, Upstream, post, post_with};

const FILE: &str = "[route.login]\nmatch = \"POST /login\"\ncors = \"https://app.example\"\nuser = \"form:u\"\nbody = \"100B\"\n\
                    [route.api]\nmatch = \"POST /api\"\ncors = \"*\"\n[route.other]\nmatch = \"POST /other\"\n\
                    [limit.address]\nrate = \"1 per 1h\"\n[limit.account]\nkey = \"user\"\nrate = \"9 per 1h\"\n";
const ALLOW: &str = "access-control-allow-origin";

fn from(target: &str, origin: &str) -> String {
    post_with(target, &format!("Origin: {origin}\r\n"))
}

#[test]
fn a_page_of_a_listed_origin_reads_its_wait_and_no_other_page() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(FILE));
    let admitted = gate.ask(from("/login", "https://app.example"));
    assert_eq!((admitted.status, admitted.header(ALLOW)), (200, None), "the application says nothing");
    let refused = gate.ask(from("/login", "https://app.example"));
    assert_eq!((refused.status, refused.header(ALLOW)), (429, Some("https://app.example")));
    assert_eq!(refused.header("access-control-allow-credentials"), Some("true"));
    let exposed = refused.header("access-control-expose-headers").unwrap();
    assert_eq!(exposed, "Retry-After, RateLimit, RateLimit-Policy, X-Request-Id");
    for origin in ["https://evil.example", "null", "http://app.example"] {
        let refused = gate.ask(from("/login", origin));
        assert_eq!((refused.status, refused.header(ALLOW)), (429, None), "{origin}");
    }
    let anybody = gate.ask(from("/api", "null"));
    assert_eq!((anybody.status, anybody.header(ALLOW)), (429, Some("*")));
    assert_eq!(anybody.header("access-control-allow-credentials"), None);
    assert_eq!(gate.ask(from("/other", "https://app.example")).header(ALLOW), None);
}

#[test]
fn a_page_reads_other_answers_of_the_gate_and_pre_flights_go_on() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(FILE));
    let long = post("/login", &format!("u={}", "a".repeat(200)));
    let long = gate.ask(long.replacen("\r\n", "\r\nOrigin: https://app.example\r\n", 1));
    assert_eq!((long.status, long.header(ALLOW)), (413, Some("https://app.example")));
    let lines = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n";
    let pre_flight = post_with("/login", lines).replacen("POST ", "OPTIONS ", 1);
    assert_eq!(gate.ask(pre_flight).status, 200);
    assert_eq!(upstream.last().method, "OPTIONS");
}
