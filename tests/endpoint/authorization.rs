//! Envoy's external authorization: what its questions are charged to, and what it is answered.

use std::net::Ipv4Addr;
use std::time::Duration;

use prost::Message;
use support::{Client, get_with, post_with};

use crate::calls::{Caller, framed, run};
use crate::envoy::{CHECK, Check, Checked, Line, Pipe, Service, check, header, lines};

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"3 per 1h\"\n";
/// A route that reads its body.
const FORM: &str = "[route.login]\nmatch = \"POST /login\"\nwhen = \"form:password\"\nuser = \"form:user\"\n\
                    [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\n";
const BODIES: &str = "bodies = true\n";

impl Service {
    fn authorizing(tables: &str, endpoint: &str) -> Self {
        Self::start("ext-authz", tables, endpoint)
    }

    /// Asks these questions on one connection.
    fn check(&self, questions: &[Check]) -> Vec<Checked> {
        run(async {
            let mut caller = Caller::connect(self.address).await;
            let mut answers = Vec::new();
            for question in questions {
                answers.push(caller.check(question).await);
            }
            answers
        })
    }

    fn check_once(&self, question: Check) -> Checked {
        self.check(&[question]).remove(0)
    }

    /// How often this may be asked until it is refused.
    fn admits(&self, question: &Check) -> usize {
        let answers = self.check(&vec![question.clone(); 5]);
        let admitted = answers.iter().take_while(|answer| answer.verdict() == 200).count();
        assert!(answers[admitted..].iter().all(|answer| answer.verdict() == 429), "{answers:?}");
        admitted
    }
}

fn sign_in(client: &str) -> Check {
    check(client, "POST", "/login", &[], "")
}

fn form(client: &str, body: &str) -> Check {
    check(client, "POST", "/login", &[("content-type", "application/x-www-form-urlencoded")], body)
}

#[test]
fn a_question_is_decided_as_the_request_that_it_is_about() {
    let service = Service::authorizing(LOGIN, BODIES);
    for path in ["/login", "/%6cogin?x=1", "//login/"] {
        let answer = service.check_once(check("192.0.2.1", "POST", path, &[], ""));
        let ok = answer.ok.as_ref().unwrap();
        assert_eq!(answer.verdict(), 200, "{path}");
        assert_eq!(header(&ok.headers, "x-tollgate-receipt").map(str::len), Some(32));
        assert!(ok.response_headers.is_empty());
        // What Envoy removes, it removes after it has set the others.
        let removed =
            ["x-tollgate-refused", "x-tollgate-failures", "exposed-credential-check", "x-tollgate-challenge"];
        assert_eq!(ok.remove, removed);
    }
    let json = [("accept", "application/json")];
    let refused = service.check_once(check("192.0.2.1", "POST", "/login", &json, ""));
    assert_eq!(refused.verdict(), 429);
    let denied = refused.denied.unwrap();
    let wait: u64 = header(&denied.headers, "retry-after").unwrap().parse().unwrap();
    assert!((1190..=1200).contains(&wait));
    assert!(header(&denied.headers, "ratelimit").unwrap().starts_with("\"address\";r=0;t="));
    assert_eq!(header(&denied.headers, "content-type"), Some("application/problem+json; charset=utf-8"));
    assert_eq!(header(&denied.headers, "content-length"), None, "Envoy writes it");
    assert!(denied.body.contains(&format!("\"retry_after\":{wait}")), "{}", denied.body);
    let page = service.check_once(check("192.0.2.1", "POST", "/login", &[("accept", "text/html")], ""));
    assert!(page.denied.unwrap().body.contains("<title>"));
    let free = service.check(&[
        check("192.0.2.1", "GET", "/login", &[], ""),
        check("192.0.2.1", "POST", "/other", &[], ""),
        sign_in("192.0.2.2"),
    ]);
    assert_eq!(free.iter().map(Checked::verdict).collect::<Vec<_>>(), [200, 200, 200]);
    assert_eq!(header(&free[0].ok.as_ref().unwrap().headers, "x-tollgate-receipt"), None);
    assert!(free[0].ok.as_ref().unwrap().remove.contains(&"x-tollgate-receipt".to_owned()));
    // The same bucket as on the listener.
    assert_eq!(service.gate.ask(post_with("/login", "")).status, 200);
    assert_eq!(service.admits(&sign_in("127.0.0.1")), 2);
    assert_eq!(service.upstream.requests().len(), 1);
}

#[test]
fn limits_are_shown_to_clients_where_the_file_says_so() {
    let service =
        Service::authorizing(&format!("{LOGIN}[refuse]\nheaders = \"always\"\n"), "refused_status = 403\n");
    let answers = service.check(&vec![sign_in("192.0.2.1"); 4]);
    let shown = &answers[0].ok.as_ref().unwrap().response_headers;
    assert!(header(shown, "ratelimit").unwrap().starts_with("\"address\";r=2;t="), "{shown:?}");
    assert_eq!(answers[3].verdict(), 403);
}

#[test]
fn fields_of_a_body_are_read_however_it_is_sent() {
    let service = Service::authorizing(FORM, BODIES);
    let answers = service.check(&[
        form("192.0.2.1", "user=anna&password=a"),
        form("192.0.2.2", "user=ANNA&password=b"),
        {
            let mut text = form("192.0.2.3", "");
            text.http().body = b"password=c&user=anna".to_vec();
            text
        },
        form("192.0.2.4", "user=anna&password=d"),
        form("192.0.2.4", "user=bert&password=d"),
        form("192.0.2.4", "user=anna&search=d"),
        form("192.0.2.4", ""),
    ]);
    assert_eq!(answers.iter().map(Checked::verdict).collect::<Vec<_>>(), [200, 200, 200, 429, 200, 200, 200]);
    let long = form("192.0.2.5", &format!("user=carl&password={}", "x".repeat(100_000)));
    assert_eq!(service.check_once(long).verdict(), 413, "longer than `route.body`");
    let other = check("192.0.2.5", "POST", "/upload", &[], &"x".repeat(1_000_000));
    assert_eq!(service.check_once(other).verdict(), 200, "no route reads it");
}

/// M6: a body that Envoy did not send, or cut, or an upgrade that has one.
#[test]
fn a_body_that_is_not_seen_is_not_taken_for_none() {
    let service = Service::authorizing(FORM, BODIES);
    let mut cut = form("192.0.2.1", "user=anna&pass");
    let said = cut.header_lines().last_mut().unwrap();
    said.raw = b"true".to_vec();
    assert_eq!(service.check_once(cut).verdict(), 413);
    let mut cut_in_silence = form("192.0.2.1", "user=other&pad=x");
    cut_in_silence.http().raw_body.pop();
    assert_eq!(service.check_once(cut_in_silence).verdict(), 413);
    let mut elsewhere = check("192.0.2.1", "POST", "/upload", &[], "user=anna&pass");
    elsewhere.header_lines().last_mut().unwrap().raw = b"true".to_vec();
    assert_eq!(service.check_once(elsewhere).verdict(), 200);
    let counts = |headers: &[(&str, &str)], method: &str, endpoint: &str| {
        let tables = FORM.replace("key = \"user\"", "key = \"ip\"");
        let service = Service::authorizing(&tables, endpoint);
        service.admits(&check("192.0.2.1", method, "/login", headers, "")) == 3
    };
    for (headers, method) in [
        (&[("connection", "upgrade"), ("upgrade", "websocket")][..], "POST"),
        (&[("content-length", "30")], "GET"),
        (&[("x-envoy-auth-partial-body", "true")], "GET"),
        (&[("transfer-encoding", "chunked")], "POST"),
    ] {
        assert!(counts(headers, method, BODIES), "{headers:?}");
    }
    // A client's own word is no word of its proxy.
    let lie = [("x-original-body", "0")];
    assert!(counts(&lie, "POST", "") && counts(&lie, "GET", ""));
    assert!(!counts(&[], "GET", BODIES) && !counts(&[("content-length", "0")], "POST", BODIES));
}

/// C12: only who is in `client.trust` names another client than itself.
#[test]
fn the_client_is_the_one_that_envoy_saw() {
    let service = Service::authorizing(&format!("{LOGIN}[client]\ntrust = [\"10.0.0.0/8\"]\n"), "");
    let said = |source: &str, header: &str| {
        let mut question = sign_in(source);
        question.header_lines().retain(|line| line.name != b"x-forwarded-for");
        question.header_lines().extend(lines(&[("x-forwarded-for", header)]).lines);
        question
    };
    assert_eq!(service.admits(&said("192.0.2.1", "6.6.6.6")), 3);
    assert_eq!(service.admits(&said("192.0.2.1", "6.6.6.7")), 0);
    assert_eq!(service.admits(&said("10.0.0.5", "6.6.6.6, 192.0.2.1, 10.0.0.9")), 0);
    assert_eq!(service.admits(&said("10.0.0.5", "192.0.2.1, 6.6.6.6")), 3);
    let mut local = sign_in("192.0.2.1");
    let address = local.attributes.as_mut().unwrap().source.as_mut().unwrap().address.as_mut().unwrap();
    (address.socket, address.pipe) = (None, Some(Pipe { path: "@/x".to_owned() }));
    assert_eq!(service.admits(&local), 3, "all that come over its Unix socket are one");
}

/// B1, C12: a request of which something is missing, said twice or impossible.
#[test]
fn what_is_missing_or_ambiguous_is_refused_and_takes_nothing() {
    let service = Service::authorizing(LOGIN, "");
    for (number, question) in strange_questions().into_iter().enumerate() {
        let answer = service.check_once(question);
        assert_eq!(answer.verdict(), 400, "{number}");
        assert!(
            answer
                .denied
                .unwrap()
                .headers
                .iter()
                .all(|set| set.line.as_ref().unwrap().name != b"retry-after")
        );
    }
    let malformed = ["/login%zz", "login", "http://other.test/login", "/harmless#/login", "/a b"];
    for path in malformed {
        let mut question = check("192.0.2.1", "POST", path, &[], "");
        assert_eq!(service.check_once(question.clone()).verdict(), 400, "{path}");
        question.header_lines().clear();
        assert_eq!(service.check_once(question).verdict(), 400, "{path}");
    }
    assert_eq!(service.check_once(check("192.0.2.1", "CONNECT", "/login", &[], "")).verdict(), 405);
    assert_eq!(service.admits(&sign_in("192.0.2.1")), 3, "nothing was taken");
    let mut question = sign_in("192.0.2.1");
    question.http().headers = vec![];
    assert_eq!(service.admits(&question), 0);
}

/// A sign-in of which something is missing, said twice or impossible.
fn strange_questions() -> Vec<Check> {
    let with = |change: &dyn Fn(&mut Check)| {
        let mut question = sign_in("192.0.2.1");
        change(&mut question);
        question
    };
    let line = |name: &str, value: &str| lines(&[(name, value)]).lines.remove(0);
    let add = |name: &'static str, value: &'static str| {
        with(&|question| question.header_lines().push(line(name, value)))
    };
    let source = |address: &'static str| {
        with(&|question| {
            let source = question.attributes.as_mut().unwrap().source.as_mut().unwrap();
            source.address.as_mut().unwrap().socket.as_mut().unwrap().address = address.to_owned();
        })
    };
    vec![
        Check::default(),
        with(&|question| question.attributes.as_mut().unwrap().source = None),
        with(&|question| question.attributes.as_mut().unwrap().source.as_mut().unwrap().address = None),
        with(&|question| question.attributes.as_mut().unwrap().request = None),
        source(""),
        source("unknown"),
        source("192.0.2.300"),
        with(&|question| question.http().method.clear()),
        with(&|question| question.http().method = "GET".to_owned()),
        with(&|question| question.http().path.clear()),
        with(&|question| question.http().path = b"/harmless".to_vec()),
        with(&|question| question.http().host = "other.test".to_owned()),
        with(&|question| question.http().scheme = "ftp".to_owned()),
        with(&|question| question.http().scheme = "https".to_owned()),
        add("host", "other.test"),
        add("host", "app.test"),
        add(":path", "/harmless"),
        add(":unknown", "x"),
        add("x y", "x"),
        add("x", "a\r\nb"),
        with(&|question| question.header_lines()[5].value = b"6.6.6.6".to_vec()),
        with(&|question| question.http().headers = vec![line("x", "y")]),
        with(&|question| (question.http().body, question.http().raw_body) = (b"a".to_vec(), b"b".to_vec())),
        with(&|question| {
            question
                .header_lines()
                .extend(["false", "false"].map(|said| line("x-envoy-auth-partial-body", said)));
        }),
    ]
}

#[test]
fn headers_are_read_in_both_forms() {
    let service = Service::authorizing(
        "[route.login]\nmatch = \"POST /login\"\nuser = \"header:x-user\"\n[limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\n",
        "",
    );
    let mut question = check("192.0.2.1", "POST", "/login", &[("x-user", "anna")], "");
    assert_eq!(service.admits(&question), 3);
    let text = |line: Line| Line { name: line.name, value: line.raw, raw: vec![] };
    question.http().headers =
        question.http().header_map.take().unwrap().lines.into_iter().map(text).collect();
    assert_eq!(service.admits(&question), 0);
    question.http().headers.last_mut().unwrap().value = b"bert".to_vec();
    assert_eq!(service.admits(&question), 3);
}

#[test]
fn outcomes_are_reported_at_the_same_endpoint() {
    let failures = format!("{LOGIN}count = \"failures\"\n");
    let service = Service::authorizing(&failures, "");
    let receipt = |client: &str| {
        let answer = service.check_once(sign_in(client));
        header(&answer.ok.unwrap().headers, "x-tollgate-receipt").unwrap().to_owned()
    };
    let report = |receipt: &str| {
        let body = format!("{{\"receipt\":\"{receipt}\",\"outcome\":\"success\"}}");
        let mut client = Client::connect(service.address);
        client.send(support::endpoint::report(&body));
        client.answer().status
    };
    for _ in 0..10 {
        let receipt = receipt("192.0.2.1");
        assert_eq!((report(&receipt), report(&receipt)), (204, 410));
    }
    assert_eq!(service.admits(&sign_in("192.0.2.1")), 3);
}

/// `POST` and the beginning of HTTP/2 have their first byte in common.
#[test]
fn a_report_may_come_in_pieces() {
    let service = Service::authorizing(LOGIN, "");
    let mut client = Client::connect(service.address);
    let report = support::endpoint::report("{}");
    let (first, rest) = report.split_at(1);
    client.send(first);
    std::thread::sleep(Duration::from_millis(100));
    client.send(rest);
    assert_eq!(client.answer().status, 400, "it is read, and has no receipt");
}

/// Envoy gives up what its clients give up, which is no abuse.
#[test]
fn calls_that_are_given_up_end_no_connection() {
    let service = Service::authorizing(LOGIN, "");
    run(async {
        let mut caller = Caller::connect(service.address).await;
        for number in 0..40 {
            let mut unanswered = Vec::new();
            for _ in 0..5 {
                let mut call = caller.open(CHECK).await;
                call.send_bytes(vec![0]);
                unanswered.push(call);
            }
            let answer = caller.check(&check("192.0.2.1", "GET", "/", &[], "")).await;
            assert_eq!(answer.verdict(), 200, "{number}");
            drop(unanswered);
        }
    });
}

/// C2: Envoy passes on what its own client sends as `Client-Cert`.
#[test]
fn a_certificate_is_read_if_the_client_of_envoy_is_trusted() {
    let trust = "client.trust = \"127.0.0.1\"\nclient.certificate = \"client-cert\"\n";
    let service = Service::authorizing(&format!("{trust}{LOGIN}"), "");
    for (client, expected) in [("192.0.2.1", 200), ("127.0.0.1", 400)] {
        let question = check(client, "POST", "/login", &[("client-cert", "nonsense")], "");
        assert_eq!(service.check_once(question).verdict(), expected, "{client}");
    }
}

/// C12: to a proxy that asks by HTTP, a status of gRPC would be a yes.
#[test]
fn a_question_of_http_is_refused() {
    let service = Service::authorizing(LOGIN, "");
    for question in [get_with("/login", ""), post_with("/login", "X-Forwarded-For: 192.0.2.1\r\n")] {
        let mut client = Client::connect(service.address);
        client.send(question);
        assert_eq!(client.answer().status, 400);
    }
    let asked = framed(&sign_in("192.0.2.1").encode_to_vec());
    run(async {
        let mut caller = Caller::connect(service.address).await;
        for (path, kind, body, expected) in [
            (CHECK, "application/json", asked.clone(), (400, None)),
            (
                "/envoy.service.auth.v2.Authorization/Check",
                "application/grpc",
                asked.clone(),
                (200, Some("12")),
            ),
            (crate::calls::METHOD, "application/grpc", asked.clone(), (200, Some("12"))),
            (CHECK, "application/grpc", framed(b"\xff\xff"), (200, Some("3"))),
            (CHECK, "application/grpc", asked[..20].to_vec(), (200, Some("13"))),
            (CHECK, "application/grpc+proto", asked.clone(), (200, Some("0"))),
        ] {
            let called = caller.call(path, kind, body).await;
            assert_eq!((called.http, called.status.as_deref()), expected, "{path} {kind}");
        }
    });
}

/// C2: whoever may not ask takes nothing.
#[test]
fn only_those_who_are_trusted_may_ask() {
    let service = Service::authorizing(LOGIN, "trust = [\"127.0.7.0/24\"]\n");
    let asked = framed(&sign_in("192.0.2.1").encode_to_vec());
    let called =
        run(async { Caller::connect(service.address).await.call(CHECK, "application/grpc", asked).await });
    assert_eq!((called.http, called.status), (403, None));
    let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 7, 1), service.address);
    client.send(support::endpoint::report("{}"));
    assert_eq!(client.answer().status, 400, "one who may");
}

/// F1: the cookie of an owner goes no further than the gate.
#[test]
fn a_device_cookie_does_not_reach_the_application() {
    let device =
        format!("{FORM}count = \"failures\"\n[device]\nsecret = \"${{file:{{dir}}/device.keys}}\"\n");
    let service = Service::authorizing(&device, BODIES);
    let cookies = |lines: &[(&str, &str)]| {
        let answer = service.check_once(check("192.0.2.1", "GET", "/", lines, ""));
        let ok = answer.ok.unwrap();
        (header(&ok.headers, "cookie").map(str::to_owned), ok.remove.contains(&"cookie".to_owned()))
    };
    assert_eq!(cookies(&[("cookie", "a=1; tollgate_device=xyz; b=2")]), (Some("a=1; b=2".to_owned()), false));
    assert_eq!(cookies(&[("cookie", "tollgate_device=xyz")]), (None, true));
    assert_eq!(cookies(&[("cookie", "a=1")]), (None, false));
}
