//! Who may ask, in which forms, and what is not understood.

use std::net::Ipv4Addr;

use support::ONE_AN_HOUR;
use support::endpoint::{Edge, FORMS, Form, forwarded, itself, nginx};

#[test]
fn every_form_of_a_question_is_decided_as_the_request_that_it_is_about() {
    for form in FORMS {
        let edge = Edge::start(ONE_AN_HOUR, "");
        let ask = |method, target, client| edge.ask(form(method, target, client, ""));
        let (page, first) = (ask("GET", "/login", "192.0.2.1"), ask("POST", "/login?x=1", "192.0.2.1"));
        assert_eq!((page.status, page.header("x-tollgate-receipt")), (200, None));
        assert_eq!(first.status, 200);
        let receipt = first.header("x-tollgate-receipt").unwrap();
        assert!(receipt.len() == 32 && receipt.bytes().all(|byte| byte.is_ascii_hexdigit()), "{receipt}");
        let refused = ask("POST", "/%6Cogin", "192.0.2.1");
        assert_eq!(refused.status, 429);
        assert!((3500..=3600).contains(&refused.retry_after()));
        for name in ["ratelimit", "ratelimit-policy", "x-request-id", "cache-control", "content-type"] {
            assert!(refused.header(name).is_some(), "{name}");
        }
        assert_eq!(ask("POST", "/login", "192.0.2.2").status, 200, "another client");
        assert!(edge.upstream.requests().is_empty(), "nothing is forwarded");
    }
}

#[test]
fn a_refusal_has_the_status_that_the_proxy_needs_and_the_body_that_its_client_reads() {
    let edge = Edge::start(ONE_AN_HOUR, "refused_status = 403");
    edge.receipt(nginx("POST", "/login", "192.0.2.1", ""));
    let json = edge.ask(nginx("POST", "/login", "192.0.2.1", "Accept: application/json\r\n"));
    assert_eq!(
        (json.status, json.header("content-type")),
        (403, Some("application/problem+json; charset=utf-8"))
    );
    assert!(json.text().contains("\"status\":403") && json.text().contains("retry_after"), "{}", json.text());
    let html = edge.ask(nginx("POST", "/login", "192.0.2.1", "Accept: text/html\r\n"));
    assert!(html.text().contains("<html"), "{}", html.text());
}

/// C2: whoever may not ask learns nothing and takes nothing.
#[test]
fn only_those_who_are_trusted_may_ask_or_report() {
    let edge = Edge::start(ONE_AN_HOUR, "trust = [\"127.0.7.0/24\"]");
    let (known, stranger) = (Ipv4Addr::new(127, 0, 7, 1), Ipv4Addr::LOCALHOST);
    let question = forwarded("POST", "/login", "192.0.2.1", "");
    for _ in 0..3 {
        assert_eq!(edge.ask_from(stranger, &question).status, 403);
    }
    let admitted = edge.ask_from(known, &question);
    assert_eq!(admitted.status, 200, "the strangers took nothing");
    let receipt = admitted.header("x-tollgate-receipt").unwrap();
    let report = support::endpoint::report(&format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\"}}"));
    assert_eq!(edge.ask_from(stranger, &report).status, 403);
    assert_eq!(edge.ask_from(known, &report).status, 204);
}

#[test]
fn one_who_asks_says_who_the_client_is() {
    let edge = Edge::start(&format!("[client]\ntrust = [\"10.0.0.0/8\"]\n{ONE_AN_HOUR}"), "");
    let status = |client: &str| edge.ask(nginx("POST", "/login", client, "")).status;
    assert_eq!(status("192.0.2.1"), 200);
    for chain in ["6.6.6.6, 192.0.2.1", "192.0.2.1, 10.0.0.9", "nonsense, 192.0.2.1:4711"] {
        assert_eq!(status(chain), 429, "{chain}");
    }
    for nonsense in ["", "unknown", "192.0.2.1, x", "192.0.2.9,10.0.0.300"] {
        assert_eq!(status(nonsense), 400, "{nonsense}");
    }
}

#[test]
fn what_is_missing_or_said_twice_is_refused_and_costs_nothing() {
    let edge = Edge::start(ONE_AN_HOUR, "");
    let from_nginx = nginx("POST", "/login", "192.0.2.1", "");
    let from_caddy = forwarded("POST", "/login", "192.0.2.1", "");
    let without = |question: &str, name: &str| {
        let lines = question.split("\r\n").filter(|line| !line.starts_with(name));
        lines.collect::<Vec<_>>().join("\r\n")
    };
    let with = |question: &str, line: &str| question.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"));
    for question in [
        without(&from_nginx, "X-Original-Method"),
        without(&from_nginx, "X-Original-URI"),
        without(&from_nginx, "X-Forwarded-For"),
        without(&from_nginx, "Host"),
        without(&from_caddy, "X-Forwarded-Method"),
        without(&from_caddy, "X-Forwarded-Uri"),
        without(&from_caddy, "X-Forwarded-Host"),
        without(&from_caddy, "X-Forwarded-Proto"),
        without(&from_caddy, "X-Forwarded-For"),
        without(&itself("POST", "/login", "192.0.2.1", ""), "X-Forwarded-For"),
        // The words of another form, as a client could add them.
        with(&from_nginx, "X-Forwarded-Uri: /harmless"),
        with(&from_nginx, "X-Forwarded-Method: GET"),
        with(&from_caddy, "X-Original-URI: /harmless"),
        with(&from_caddy, "X-Original-Method: GET"),
        with(&from_nginx, "X-Forwarded-Host: other.test"),
        // Twice, in two lines or in one.
        with(&from_nginx, "X-Original-URI: /harmless"),
        with(&from_nginx, "X-Original-Method: GET"),
        with(&from_caddy, "X-Forwarded-Host: other.test"),
        with(&from_caddy, "X-Forwarded-Proto: http"),
        with(&from_caddy, "X-Forwarded-Uri: /login"),
        forwarded("GET, POST", "/login", "192.0.2.1", ""),
        forwarded("POST", "/harmless, /login", "192.0.2.1", ""),
        from_caddy.replace("X-Forwarded-Host: app.test", "X-Forwarded-Host: other.test,app.test"),
        from_caddy.replace("X-Forwarded-Proto: https", "X-Forwarded-Proto: http, https"),
        // No path.
        nginx("POST", "http://app.test/login", "192.0.2.1", ""),
        nginx("POST", "/harmless#/login", "192.0.2.1", ""),
        nginx("POST", "login", "192.0.2.1", ""),
        nginx("POST", "*", "192.0.2.1", ""),
        nginx("POST", "/log\u{e4}n", "192.0.2.1", ""),
        nginx("POST", "/a b", "192.0.2.1", ""),
        nginx("P ST", "/login", "192.0.2.1", ""),
    ] {
        let answer = edge.ask(&question);
        assert_eq!(answer.status, 400, "{question}");
        assert_eq!(answer.header("x-tollgate-receipt"), None);
    }
    assert_eq!(edge.ask(nginx("CONNECT", "/login", "192.0.2.1", "")).status, 405);
    assert_eq!(edge.ask(from_nginx).status, 200, "nothing was taken");
}

/// A body that the proxy keeps back may hold what makes a request an attempt.
#[test]
fn a_body_that_is_not_shown_counts_as_one_that_cannot_be_read() {
    let tables = ONE_AN_HOUR.replace("[limit", "when = \"form:password\"\n[limit");
    let edge = Edge::start(&tables, "");
    let status = |method, client, lines: &str| edge.ask(nginx(method, "/login", client, lines)).status;
    assert_eq!(status("POST", "192.0.2.1", ""), 200);
    assert_eq!(status("POST", "192.0.2.1", ""), 429);
    for _ in 0..3 {
        assert_eq!(status("POST", "192.0.2.2", "X-Original-Body: 0\r\n"), 200, "no attempt");
        assert_eq!(status("GET", "192.0.2.2", "X-Original-Body: 0\r\n"), 200, "no attempt");
    }
    assert_eq!(status("GET", "192.0.2.2", "X-Original-Body: 27\r\n"), 200);
    assert_eq!(status("GET", "192.0.2.2", "X-Original-Body: chunked\r\n"), 429);
}

/// M6: over HTTP/2 a body needs no header, so a proxy that only looks at headers says nothing of it.
#[test]
fn a_page_of_which_nobody_says_that_it_has_no_body_counts_where_bodies_are_read() {
    let conditional = ONE_AN_HOUR.replace("[limit", "when = \"form:password\"\n[limit");
    let by_account = ONE_AN_HOUR.replace("[limit", "user = \"form:user\"\n[limit");
    for tables in [&conditional, &by_account] {
        let edge = Edge::start(tables, "");
        let mut client = 0;
        for form in FORMS {
            for (method, lines) in [("GET", ""), ("OPTIONS", PREFLIGHT)] {
                for unsaid in ["", "X-Original-Body: \r\n"] {
                    client += 1;
                    let client = format!("192.0.2.{client}");
                    let ask = |said: &str| {
                        edge.ask(form(method, "/login", &client, &format!("{lines}{said}"))).status
                    };
                    let free = [(); 3].map(|()| ask("X-Original-Body: 0\r\n"));
                    let counted = [ask(unsaid), ask(unsaid)];
                    assert_eq!((free, counted), ([200; 3], [200, 429]), "{method} {unsaid:?}");
                }
            }
        }
    }
    let edge = Edge::start(ONE_AN_HOUR, "");
    for _ in 0..3 {
        assert_eq!(edge.ask(forwarded("GET", "/login", "192.0.2.1", "")).status, 200, "nothing is read");
    }
}

#[test]
fn where_bodies_are_sent_an_empty_question_is_about_no_body() {
    let tables = ONE_AN_HOUR.replace("[limit", "when = \"form:password\"\n[limit");
    let edge = Edge::start(&tables, "bodies = true");
    let thrice = |form: Form, client| [(); 3].map(|()| edge.ask(form("GET", "/login", client, "")).status);
    assert_eq!(thrice(forwarded, "192.0.2.1"), [200; 3]);
    assert_eq!(thrice(itself, "192.0.2.2"), [200; 3]);
    assert_eq!(thrice(nginx, "192.0.2.3"), [200, 429, 429], "auth_request sends none");
}

/// M6: Envoy keeps back the body of an upgrade, and says `X-Original-Body: 0` with every question.
#[test]
fn an_upgrade_counts_where_bodies_are_read_if_the_question_is_the_request_itself() {
    let tables = ONE_AN_HOUR.replace("[limit", "when = \"form:password\"\n[limit");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nX-Original-Body: 0\r\n";
    for endpoint in ["", "bodies = true"] {
        let edge = Edge::start(&tables, endpoint);
        let twice = |form: Form, method, client, lines: &str| {
            [(); 2].map(|()| edge.ask(form(method, "/login", client, lines)).status)
        };
        for (method, client) in [("GET", "192.0.2.1"), ("POST", "192.0.2.2")] {
            assert_eq!(twice(itself, method, client, "X-Original-Body: 0\r\n"), [200; 2], "{method}");
            assert_eq!(twice(forwarded, method, client, upgrade), [200; 2], "{method}: its proxy looked");
            assert_eq!(twice(itself, method, client, upgrade), [200, 429], "{method} {endpoint}");
        }
    }
}

#[test]
fn a_body_that_is_shown_is_read() {
    let tables = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"";
    let edge = Edge::start(tables, "bodies = true");
    let ask = |user: &str, client: &str, lines: &str| {
        let body = format!("user={user}&password=x");
        let length = format!(
            "{lines}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}",
            body.len()
        );
        edge.ask(itself("POST", "/login", client, "").replace("Content-Length: 0", &length) + &body).status
    };
    assert_eq!(ask("anna", "192.0.2.1", ""), 200);
    assert_eq!(ask("anna", "192.0.2.2", ""), 429);
    assert_eq!(ask("bert", "192.0.2.2", ""), 200);
    // Envoy cut it: the account may be behind the cut.
    assert_eq!(ask("carl", "192.0.2.3", "X-Envoy-Auth-Partial-Body: true\r\n"), 413);
}

#[test]
fn a_pre_flight_is_never_counted_and_any_other_options_is() {
    let edge = Edge::start(ONE_AN_HOUR, "");
    for _ in 0..3 {
        assert_eq!(edge.ask(forwarded("OPTIONS", "/login", "192.0.2.1", PREFLIGHT)).status, 200);
    }
    let with_password = format!("{PREFLIGHT}Authorization: Basic YTpi\r\n");
    let basic = ONE_AN_HOUR.replace("[limit", "user = \"basic\"\n[limit");
    let edge = Edge::start(&basic, "");
    assert_eq!(edge.ask(forwarded("OPTIONS", "/login", "192.0.2.1", &with_password)).status, 200);
    assert_eq!(edge.ask(forwarded("OPTIONS", "/login", "192.0.2.1", &with_password)).status, 429);
}

#[test]
fn a_question_about_a_head_request_is_answered_in_full() {
    let edge = Edge::start(&ONE_AN_HOUR.replace("POST /login", "ANY /login"), "");
    edge.receipt(forwarded("HEAD", "/login", "192.0.2.1", ""));
    let refused = edge.ask(forwarded("HEAD", "/login", "192.0.2.1", ""));
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-length"), Some(&*refused.body.len().to_string()));
    assert!(!refused.body.is_empty());
}

#[test]
fn a_path_called_outcome_is_no_report_when_a_proxy_asks_about_it() {
    let edge = Edge::start(&ONE_AN_HOUR.replace("/login", "/outcome"), "");
    assert_eq!(edge.ask(itself("POST", "/outcome", "192.0.2.1", "")).status, 200);
    assert_eq!(edge.ask(itself("POST", "/outcome", "192.0.2.1", "")).status, 429);
}

#[test]
fn decisions_at_an_endpoint_are_counted_and_logged_as_others() {
    let edge = Edge::start(ONE_AN_HOUR, "");
    for _ in 0..3 {
        edge.ask(forwarded("POST", "/login", "192.0.2.1", ""));
    }
    let decided =
        |decision: &str| edge.gate.metric("tollgate_decisions_total", &format!("decision=\"{decision}\""));
    assert_eq!((decided("admit"), decided("refuse")), (1.0, 2.0));
    assert_eq!(edge.gate.metric("tollgate_requests_total", "code=\"429\""), 2.0);
}

const PREFLIGHT: &str = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n";
