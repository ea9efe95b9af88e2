//! Envoy's external processing: a stream shows a request, perhaps its body, and the head of the answer.

use std::time::Duration;

use prost::Message;
use support::eventually;

use crate::calls::{Call, Caller, framed, run};
use crate::envoy::{
    Answered, BUFFERED, BUFFERED_PARTIAL, Head, Lines, Modes, NO_BODIES, PROCESS, Part, Piece, Processing,
    Service, header, request, response,
};

const FAILURES: &str = "[route.login]\nmatch = \"POST /login\"\n\
                        success = { status = 302, location = \"/home*\", set_cookie = \"session\" }\n\
                        [limit.address]\nrate = \"3 per 1h\"\ncount = \"failures\"\n";
/// A route that reads its body.
const ACCOUNT: &str = "[route.login]\nmatch = \"POST /login\"\nwhen = \"form:password\"\nuser = \"form:user\"\n\
                       success = { status = 302 }\n\
                       [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\ncount = \"failures\"\n";
const BODIES: &str = "bodies = true\n";
const RIGHT: &[(&str, &str)] =
    &[("location", "/home"), ("set-cookie", "lang=en"), ("set-cookie", "session=1; Path=/")];
const FORM: &[(&str, &str)] = &[("content-type", "application/x-www-form-urlencoded")];

impl Service {
    fn processing(tables: &str, endpoint: &str) -> Self {
        Self::start("ext-proc", tables, endpoint)
    }

    fn run<T>(&self, story: impl AsyncFnOnce(Caller) -> T) -> T {
        run(async { story(Caller::connect(self.address).await).await })
    }

    fn settled(&self, outcome: &str) -> f64 {
        self.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""))
    }

    /// How many sign-ins of this client pass until one is refused.
    fn lets_in(&self, client: &str) -> usize {
        self.run(async |caller| {
            let mut admitted = 0;
            while admitted < 20 && sign_in(&caller, client).await.1.verdict() == 200 {
                admitted += 1;
            }
            admitted
        })
    }
}

/// The call about a sign-in without a body, and its verdict.
async fn sign_in(caller: &Caller, client: &str) -> (Call, Answered) {
    let mut call = caller.open(PROCESS).await;
    let head = Head { is_end: true, ..request(client, "POST", "/login", &[]) };
    let answer = call.process(Part::RequestHeaders(head), Some(NO_BODIES)).await.unwrap();
    (call, answer)
}

/// The call about a sign-in with a body that Envoy holds back, and its verdict.
async fn sign_in_with(caller: &Caller, headers: &[(&str, &str)], body: &str) -> (Call, Answered) {
    let mut call = caller.open(PROCESS).await;
    let head = request("192.0.2.1", "POST", "/login", &[FORM, headers].concat());
    let begun = call.process(Part::RequestHeaders(head), Some(BUFFERED)).await.unwrap();
    let Answered::RequestHeaders(_) = &begun else { return (call, begun) };
    let piece = Piece { body: body.into(), is_end: true };
    let answer = call.process(Part::RequestBody(piece), None).await.unwrap();
    (call, answer)
}

async fn settle(mut call: Call, status: &str, headers: &[(&str, &str)]) -> Answered {
    let answer = call.process(response(status, headers), None).await.unwrap();
    assert_eq!(call.end().await, (0, Some("0".to_owned())));
    answer
}

#[test]
fn the_answer_of_the_application_settles_the_attempt() {
    let service = Service::processing(FAILURES, "");
    service.run(async |caller| {
        for number in 0..50 {
            let (call, answer) = sign_in(&caller, "192.0.2.1").await;
            let changes = answer.changes();
            assert_eq!((answer.verdict(), changes.set.len()), (200, 0), "{number}");
            assert!(changes.remove.iter().any(|name| name == "x-tollgate-receipt"), "a client's own");
            let changes = settle(call, "302", RIGHT).await.changes();
            assert!(changes.set.is_empty() && changes.remove.is_empty());
        }
        for _ in 0..3 {
            let (call, answer) = sign_in(&caller, "192.0.2.1").await;
            assert_eq!(answer.verdict(), 200);
            settle(call, "302", &RIGHT[..2]).await;
        }
        let (call, refused) = sign_in(&caller, "192.0.2.1").await;
        assert_eq!(refused.verdict(), 429);
        let set = refused.changes().set;
        let wait: u64 = header(&set, "retry-after").unwrap().parse().unwrap();
        assert!((1190..=1200).contains(&wait));
        assert!(header(&set, "ratelimit").unwrap().starts_with("\"address\";r=0;t="));
        let Answered::Immediate(immediate) = refused else { panic!("it is immediate") };
        assert!(!immediate.body.is_empty() && header(&set, "content-length").is_none());
        assert_eq!(call.end().await, (0, Some("0".to_owned())));
        assert_eq!(sign_in(&caller, "192.0.2.2").await.1.verdict(), 200, "another client");
    });
    let is_settled = || service.settled("failure") == 4.0;
    assert!(eventually(Duration::from_secs(10), is_settled), "{}", service.settled("failure"));
    assert_eq!(service.settled("success"), 50.0);
}

/// The client sees no sign of it.
#[test]
fn an_application_behind_envoy_may_demand_a_challenge() {
    let many = FAILURES.replace("3 per 1h", "20 per 1h");
    let service = Service::processing(&format!("{many}[refuse]\nchallenge = \"work\"\n"), "");
    service.run(async |caller| {
        let (call, _) = sign_in(&caller, "192.0.2.1").await;
        let changes = settle(call, "200", &[("x-tollgate-challenge", "1")]).await.changes();
        assert!(changes.remove.iter().any(|name| name == "x-tollgate-challenge"));
        assert_eq!(sign_in(&caller, "192.0.2.1").await.1.verdict(), 429);
        assert_eq!(sign_in(&caller, "192.0.2.2").await.1.verdict(), 200, "another client");
    });
}

/// L7: an answer that never comes, is Envoy's own, or cannot be read.
#[test]
fn a_stream_without_an_answer_keeps_its_charge() {
    let service = Service::processing(&FAILURES.replace("3 per 1h", "5 per 1h"), "");
    service.run(async |caller| {
        drop(sign_in(&caller, "192.0.2.1").await);
        let (call, _) = sign_in(&caller, "192.0.2.1").await;
        assert_eq!(call.end().await, (0, Some("0".to_owned())));
        let heads: [&[(&str, &str)]; 3] = [
            &[(":status", "302"), ("location", "/home"), ("set-cookie", "session=1")],
            &[("x-envoy-upstream-service-time", "1"), ("location", "/home"), ("set-cookie", "session=1")],
            &[("x-envoy-upstream-service-time", "1"), (":status", "302"), ("a b", "c")],
        ];
        for head in heads {
            let (mut call, _) = sign_in(&caller, "192.0.2.1").await;
            let head = Head { headers: Some(crate::envoy::lines(head)), is_end: true };
            assert_eq!(call.process(Part::ResponseHeaders(head), None).await.unwrap().verdict(), 200);
        }
    });
    let is_settled = || service.settled("failure") == 5.0;
    assert!(eventually(Duration::from_secs(10), is_settled), "{}", service.settled("failure"));
    assert_eq!((service.lets_in("192.0.2.1"), service.settled("success")), (0, 0.0));
}

#[test]
fn an_answer_that_does_not_come_in_time_is_a_failure() {
    let service = Service::processing(FAILURES, "outcome_timeout = \"300ms\"\n");
    service.run(async |caller| {
        let (mut call, _) = sign_in(&caller, "192.0.2.1").await;
        assert_eq!(call.next().await, None);
        assert_eq!(call.end().await, (0, Some("0".to_owned())));
    });
    let is_settled = || service.settled("failure") == 1.0;
    assert!(eventually(Duration::from_secs(10), is_settled), "{}", service.settled("failure"));
}

#[test]
fn a_body_is_asked_for_if_a_limit_needs_it() {
    let service = Service::processing(ACCOUNT, BODIES);
    service.run(async |caller| {
        let mut verdicts = Vec::new();
        for body in [
            "user=anna&password=a",
            "password=b&user=ANNA",
            "user=anna&search=x",
            "user=anna&password=c",
            "user=anna&password=d",
        ] {
            verdicts.push(sign_in_with(&caller, &[], body).await.1.verdict());
        }
        assert_eq!(verdicts, [200, 200, 200, 200, 429]);
        // Its head decides elsewhere, and the pieces of its body pass.
        let mut call = caller.open(PROCESS).await;
        let head = request("192.0.2.1", "POST", "/upload", FORM);
        assert_eq!(
            call.process(Part::RequestHeaders(head), Some(BUFFERED_PARTIAL)).await.unwrap().verdict(),
            200
        );
        let piece = Piece { body: vec![b'x'; 1_000_000], is_end: false };
        let passed = call.process(Part::RequestBody(piece.clone()), None).await.unwrap();
        assert!(matches!(passed, Answered::RequestBody(changes) if changes.common.is_none()));
        let trailers = call.process(Part::RequestTrailers(Lines::default()), None).await.unwrap();
        assert!(matches!(trailers, Answered::RequestTrailers(())));
        call.process(response("200", &[]), None).await.unwrap();
        let body = call.process(Part::ResponseBody(piece), None).await.unwrap();
        assert!(matches!(body, Answered::ResponseBody(_)));
        let trailers = call.process(Part::ResponseTrailers(Lines::default()), None).await.unwrap();
        assert!(matches!(trailers, Answered::ResponseTrailers(())));
        assert_eq!(call.end().await, (0, Some("0".to_owned())));
    });
}

/// M6: a body that Envoy cut, streams or does not show.
#[test]
fn a_body_that_is_not_seen_is_not_taken_for_none() {
    let service = Service::processing(&ACCOUNT.replace("key = \"user\"", "key = \"ip\""), BODIES);
    let begin = async |caller: &Caller, client: &str, method: &str, modes: Option<Modes>| {
        let mut call = caller.open(PROCESS).await;
        let head = request(client, method, "/login", FORM);
        let answer = call.process(Part::RequestHeaders(head), modes).await.unwrap();
        (call, answer.verdict())
    };
    service.run(async |caller| {
        let (mut call, _) = begin(&caller, "192.0.2.1", "POST", Some(BUFFERED_PARTIAL)).await;
        let cut = Piece { body: b"user=anna&pass".to_vec(), is_end: false };
        assert_eq!(call.process(Part::RequestBody(cut.clone()), None).await.unwrap().verdict(), 413);
        // The trailers that follow have the end of this one.
        let (mut call, _) = begin(&caller, "192.0.2.1", "POST", Some(BUFFERED)).await;
        assert_eq!(call.process(Part::RequestBody(cut), None).await.unwrap().verdict(), 200);
        let streamed = Modes { request_body: 1, response_body: 0 };
        for (last, modes) in [(2, Some(NO_BODIES)), (3, Some(streamed)), (4, None)] {
            for method in ["POST", "GET", "POST"] {
                let client = format!("192.0.2.{last}");
                assert_eq!(begin(&caller, &client, method, modes).await.1, 200, "{modes:?}");
            }
            assert_eq!(begin(&caller, &format!("192.0.2.{last}"), "GET", modes).await.1, 429, "{modes:?}");
        }
        // Envoy answers itself before the body came: nothing reached the application.
        let (mut call, _) = begin(&caller, "192.0.2.1", "POST", Some(BUFFERED)).await;
        let own = Head { headers: Some(crate::envoy::lines(&[(":status", "408")])), is_end: true };
        assert_eq!(call.process(Part::ResponseHeaders(own), None).await.unwrap().verdict(), 200);
        assert_eq!(call.end().await, (0, Some("0".to_owned())));
    });
}

/// M6: before trailers Envoy does not say whether it cut the body; the length in the head does.
#[test]
fn a_body_with_trailers_is_decided_on_if_its_length_shows_that_it_is_whole() {
    let service = Service::processing(ACCOUNT, BODIES);
    let body = "user=anna&password=a";
    let (right, more) = (body.len().to_string(), (body.len() + 1).to_string());
    let [right, more] = [&right, &more].map(|length| ("content-length", &**length));
    service.run(async |caller| {
        for (headers, verdict) in [
            (&[right][..], 200),
            (&[more], 413),
            (&[], 413),
            (&[right], 200),
            (&[right], 200),
            (&[right], 429),
        ] {
            let mut call = caller.open(PROCESS).await;
            let head = request("192.0.2.1", "POST", "/login", &[FORM, headers].concat());
            call.process(Part::RequestHeaders(head), Some(BUFFERED_PARTIAL)).await.unwrap();
            let piece = Piece { body: body.into(), is_end: false };
            let answer = call.process(Part::RequestBody(piece), None).await.unwrap();
            assert_eq!(answer.verdict(), verdict, "{headers:?}");
        }
    });
}

/// C12: trailers in place of a body, whether Envoy shows them or not.
#[test]
fn a_request_that_ends_without_a_body_is_charged() {
    let address = "[limit.address]\nrate = \"3 per 1h\"\ncount = \"failures\"\n";
    let account = ACCOUNT.replace("when = \"form:password\"\n", "").replace("3 per 1h", "30 per 1h");
    let service = Service::processing(&format!("{account}{address}"), BODIES);
    let begin = async |caller: &Caller, client: &str| {
        let mut call = caller.open(PROCESS).await;
        let head = request(client, "POST", "/login", FORM);
        let begun = call.process(Part::RequestHeaders(head), Some(BUFFERED_PARTIAL)).await.unwrap();
        assert!(matches!(begun, Answered::RequestHeaders(_)), "{begun:?}");
        call
    };
    service.run(async |caller| {
        for (client, end) in
            [("192.0.2.1", Part::RequestTrailers(Lines::default())), ("192.0.2.2", response("200", &[]))]
        {
            let mut calls = Vec::new();
            for _ in 0..4 {
                calls.push(begin(&caller, client).await);
            }
            let mut verdicts = Vec::new();
            for call in &mut calls {
                verdicts.push(call.process(end.clone(), None).await.unwrap().verdict());
            }
            assert_eq!(verdicts, [200, 200, 200, 429], "{end:?}");
        }
        for _ in 0..5 {
            let mut call = begin(&caller, "192.0.2.3").await;
            let passed = call.process(Part::RequestTrailers(Lines::default()), None).await.unwrap();
            assert!(matches!(passed, Answered::RequestTrailers(())), "{passed:?}");
            settle(call, "302", RIGHT).await;
            let answered = begin(&caller, "192.0.2.3").await.process(response("302", RIGHT), None).await;
            assert!(matches!(answered, Some(Answered::ResponseHeaders(_))), "{answered:?}");
        }
    });
}

/// F1: the cookie of an owner is handed out with the answer, and goes no further than the gate.
#[test]
fn a_device_cookie_comes_with_a_success_and_keeps_a_budget() {
    let device = format!("{ACCOUNT}[device]\nsecret = \"${{file:{{dir}}/device.keys}}\"\n");
    let service = Service::processing(&device, BODIES);
    service.run(async |caller| {
        let (call, _) = sign_in_with(&caller, &[], "user=alice&password=right").await;
        let set = settle(call, "302", RIGHT).await.changes().set;
        let [added] = &set[..] else { panic!("one cookie: {set:?}") };
        let line = added.line.as_ref().unwrap();
        assert_eq!(
            (&line.name[..], added.append),
            (&b"set-cookie"[..], Some(true)),
            "beside the application's"
        );
        let cookie = String::from_utf8(line.raw.clone()).unwrap();
        let cookie = cookie.split(';').next().unwrap();
        assert!(cookie.starts_with("tollgate_device="), "{cookie}");
        while sign_in_with(&caller, &[], "user=alice&password=wrong").await.1.verdict() == 200 {}
        let with = [("cookie", &*format!("a=1; {cookie}"))];
        let (call, known) = sign_in_with(&caller, &with, "user=alice&password=wrong").await;
        assert_eq!((known.verdict(), header(&known.changes().set, "cookie")), (200, Some("a=1")));
        drop(call);
        let page = Head { is_end: true, ..request("192.0.2.1", "GET", "/", &with) };
        let mut call = caller.open(PROCESS).await;
        let answer = call.process(Part::RequestHeaders(page), Some(NO_BODIES)).await.unwrap();
        assert_eq!(header(&answer.changes().set, "cookie"), Some("a=1"));
    });
}

#[test]
fn what_is_missing_or_ambiguous_is_refused() {
    let service = Service::processing(FAILURES, "");
    service.run(async |caller| {
        for (name, value) in [
            (":path", "/harmless"),
            (":method", "GET"),
            (":authority", "other.test"),
            (":scheme", "ftp"),
            ("host", "app.test"),
            (":unknown", "x"),
            ("a b", "c"),
        ] {
            let mut call = caller.open(PROCESS).await;
            let head = request("192.0.2.1", "POST", "/login", &[(name, value)]);
            let answer = call.process(Part::RequestHeaders(head), Some(NO_BODIES)).await.unwrap();
            assert_eq!(answer.verdict(), 400, "{name}");
        }
        for missing in 0..5 {
            let mut head = request("192.0.2.1", "POST", "/login", &[]);
            head.headers.as_mut().unwrap().lines.remove(missing);
            let answer =
                caller.open(PROCESS).await.process(Part::RequestHeaders(head), Some(NO_BODIES)).await;
            assert_eq!(answer.unwrap().verdict(), 400, "{missing}");
        }
    });
    assert_eq!(service.lets_in("192.0.2.1"), 3, "nothing was taken");
}

/// Until the decision, a fault is an error, with which Envoy forwards nothing.
#[test]
fn what_is_out_of_order_is_a_status_of_grpc() {
    let service = Service::processing(ACCOUNT, BODIES);
    let head = || Part::RequestHeaders(request("192.0.2.1", "POST", "/login", FORM));
    let piece = || Part::RequestBody(Piece { body: b"x".to_vec(), is_end: true });
    let sent = |part: Option<Part>, modes| Processing { part, observes: false, modes }.encode_to_vec();
    let modes = |request_body, response_body| Some(Modes { request_body, response_body });
    let stories: [(Vec<Vec<u8>>, usize, &str); 11] = [
        (vec![], 0, "0"),
        (vec![sent(None, None)], 0, "3"),
        (vec![b"\xff\xff\xff".to_vec()], 0, "3"),
        (vec![sent(Some(piece()), None)], 0, "3"),
        (vec![sent(Some(response("302", &[])), None)], 0, "3"),
        (vec![sent(Some(head()), Some(BUFFERED)), sent(Some(head()), None)], 1, "3"),
        (vec![sent(Some(head()), Some(NO_BODIES)), sent(Some(head()), None)], 1, "3"),
        (vec![sent(Some(head()), modes(4, 0))], 0, "12"),
        (vec![sent(Some(head()), modes(0, 5))], 0, "12"),
        (vec![sent(Some(head()), modes(77, 0))], 0, "12"),
        (vec![Processing { part: Some(head()), observes: true, modes: None }.encode_to_vec()], 0, "12"),
    ];
    service.run(async |caller| {
        for (number, (messages, answers, status)) in stories.into_iter().enumerate() {
            let mut call = caller.open(PROCESS).await;
            messages.iter().for_each(|message| call.send(message));
            assert_eq!(call.end().await, (answers, Some(status.to_owned())), "{number}");
        }
        for (bytes, status) in [
            (b"\0\0\0\0".to_vec(), "13"),
            (b"\0\0\0\0\x05ab".to_vec(), "13"),
            (b"\x01\0\0\0\x01a".to_vec(), "12"),
            (b"\x07\0\0\0\x01a".to_vec(), "13"),
            (b"\0\xff\xff\xff\xffa".to_vec(), "8"),
        ] {
            let mut call = caller.open(PROCESS).await;
            call.send_bytes(bytes.clone());
            assert_eq!(call.end().await, (0, Some(status.to_owned())), "{bytes:?}");
        }
        // However a message is cut.
        let mut call = caller.open(PROCESS).await;
        for byte in framed(&sent(Some(head()), Some(BUFFERED))) {
            call.send_bytes(vec![byte]);
        }
        assert!(matches!(call.next().await, Some(message) if !message.is_empty()));
    });
    assert_eq!(service.settled("failure"), 1.0, "one was not held back, and passed");
    // A stream that fails is a request; the one of a head that was decided on is another.
    let counted = service.gate.metric("tollgate_requests_total", "");
    assert!(counted >= 15.0, "{counted}");
}

/// Envoy resets the stream of each request, which is no abuse.
#[test]
fn streams_that_are_reset_end_no_connection() {
    let service = Service::processing(FAILURES, "");
    service.run(async |caller| {
        for number in 0..500 {
            let mut call = caller.open(PROCESS).await;
            let head = Head { is_end: true, ..request("192.0.2.1", "GET", "/", &[]) };
            let answer = call.process(Part::RequestHeaders(head), Some(NO_BODIES)).await;
            assert_eq!(answer.map(|answer| answer.verdict()), Some(200), "{number}");
        }
    });
}
