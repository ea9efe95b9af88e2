//! Envoy's rate limit service: what its descriptors are charged to, and what it is answered.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use crate::calls::{
    Caller, Descriptor, METHOD, OK, OVER_LIMIT, Question, Response, descriptor, framed, question, run,
};
use support::dice::Dice;
use support::{Gate, Launch, Upstream, binary, eventually, free_port};

struct Service {
    gate: Gate,
    address: SocketAddr,
    upstream: Upstream,
}

impl Service {
    fn start(tables: &str, endpoint: &str) -> Self {
        let upstream = Upstream::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let kind = format!("[endpoint.rls]\nkind = \"envoy-rls\"\nlisten = \"http://{address}\"\n{endpoint}");
        let gate = Launch::new(&upstream.file(&format!("{tables}\n{kind}\n"))).start();
        Self { gate, address, upstream }
    }

    /// Asks these questions on one connection.
    fn ask(&self, questions: &[Question]) -> Vec<Response> {
        run(async {
            let mut caller = Caller::connect(self.address).await;
            let mut answers = Vec::new();
            for question in questions {
                answers.push(caller.ask(question).await);
            }
            answers
        })
    }

    fn ask_once(&self, question: Question) -> Response {
        self.ask(&[question]).remove(0)
    }
}

/// What Envoy says of a sign-in by its actions `remote_address` and `request_headers`.
fn sign_in(client: &str, path: &str) -> Descriptor {
    descriptor(&[("remote_address", client), ("method", "POST"), ("path", path), ("host", "app.test")])
}

fn codes(answer: &Response) -> (i32, Vec<i32>) {
    (answer.overall_code, answer.statuses.iter().map(|status| status.code).collect())
}

const LOGIN: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\n\
                     [limit.address]\nrate = \"3 per 1h\"\n";

#[test]
fn a_descriptor_is_decided_as_the_request_that_it_is_about() {
    let service = Service::start(LOGIN, "");
    let ask = |client: &str, path: &str| service.ask_once(question("edge", &[sign_in(client, path)]));
    for (left, path) in [(2, "/login"), (1, "/%6cogin?x=1"), (0, "//login/")] {
        let answer = ask("192.0.2.1", path);
        assert_eq!(codes(&answer), (OK, vec![OK]));
        let status = &answer.statuses[0];
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (3, 3, "address"));
        assert_eq!(status.limit_remaining, left);
        assert!((1195..=1200).contains(&status.duration_until_reset.unwrap().seconds));
        assert!(answer.response_headers_to_add.is_empty());
    }
    let refused = ask("192.0.2.1", "/login");
    assert_eq!(codes(&refused), (OVER_LIMIT, vec![OVER_LIMIT]));
    assert_eq!(refused.statuses[0].limit_remaining, 0);
    let seconds: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1190..=1200).contains(&seconds));
    assert_eq!(refused.statuses[0].duration_until_reset.unwrap().seconds, seconds);
    assert_eq!(refused.header("ratelimit-policy"), Some("\"address\";q=3;w=3600"));
    assert!(refused.header("ratelimit").unwrap().starts_with("\"address\";r=0;t="));
    assert_eq!(ask("192.0.2.2", "/login").overall_code, OK, "another client");
    // The same bucket as on the listener.
    let form = "POST /login HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(service.gate.ask(form).status, 200);
    assert_eq!(ask("127.0.0.1", "/login").statuses[0].limit_remaining, 1);
    assert_eq!(service.upstream.requests().len(), 1);
}

#[test]
fn what_no_route_counts_is_ok_and_not_counted() {
    let service = Service::start(LOGIN, "");
    for entries in [
        &[("remote_address", "192.0.2.1"), ("method", "POST"), ("path", "/other")][..],
        &[("remote_address", "192.0.2.1"), ("method", "GET"), ("path", "/login"), ("x-original-body", "0")],
        // A pattern with a path fits no descriptor without one.
        &[("remote_address", "192.0.2.1"), ("generic_key", "login")],
    ] {
        let answer = service.ask_once(question("edge", &[descriptor(entries)]));
        assert_eq!(codes(&answer), (OK, vec![OK]), "{entries:?}");
        assert_eq!(answer.statuses[0].current_limit, None);
    }
    let first = service.ask_once(question("edge", &[sign_in("192.0.2.1", "/login")]));
    assert_eq!(first.statuses[0].limit_remaining, 2);
}

#[test]
fn if_one_descriptor_is_over_the_others_take_nothing() {
    let service = Service::start(LOGIN, "");
    let both = question("edge", &[sign_in("192.0.2.1", "/login"), sign_in("192.0.2.2", "/login")]);
    let other = question("edge", &[sign_in("192.0.2.2", "/login")]);
    let answers = service.ask(&[other.clone(), other.clone(), both.clone(), both, other]);
    assert_eq!(codes(&answers[2]), (OK, vec![OK, OK]));
    assert_eq!(codes(&answers[3]), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    assert_eq!(answers[4].overall_code, OVER_LIMIT);
    let first = service.ask_once(question("edge", &[sign_in("192.0.2.1", "/login")]));
    assert_eq!(first.statuses[0].limit_remaining, 1, "one of the two was given back");
}

#[test]
fn hits_are_the_cost_and_none_is_a_look() {
    let service = Service::start(&LOGIN.replace("3 per 1h", "10 per 1h"), "");
    let of = |hits: u32, own: Option<u64>| {
        let descriptor = Descriptor { hits_addend: own, ..sign_in("192.0.2.1", "/login") };
        Question { hits_addend: hits, ..question("edge", &[descriptor]) }
    };
    let asked = [
        (0, None),
        (4, None),
        (7, Some(0)),
        (9, Some(2)),
        (0, Some(4)),
        (3, None),
        (0, Some(0)),
        (0, Some(u64::MAX)),
    ];
    let answers = service.ask(&asked.map(|(hits, own)| of(hits, own)));
    let found: Vec<_> =
        answers.iter().map(|answer| (answer.overall_code, answer.statuses[0].limit_remaining)).collect();
    let expected =
        [(OK, 9), (OK, 5), (OK, 5), (OK, 3), (OVER_LIMIT, 0), (OK, 0), (OVER_LIMIT, 0), (OVER_LIMIT, 0)];
    assert_eq!(found, expected);
    assert!(answers[4].header("retry-after").is_some());
    assert_eq!(answers[7].header("retry-after"), None, "a cost above the bucket: no time lifts it");
}

#[test]
fn a_look_sees_that_the_clients_prefix_is_banned() {
    let service = Service::start(LOGIN, "");
    let look = || {
        let descriptor = Descriptor { hits_addend: Some(0), ..sign_in("192.0.2.1", "/login") };
        service.ask_once(question("edge", &[descriptor])).overall_code
    };
    assert_eq!(look(), OK);
    for all in [&[][..], &["--all"]] {
        let words = ["buckets", "ban", "192.0.2.0/24", "--for", "1h", "--socket"];
        let mut command = Command::new(binary());
        command.args(words).arg(service.gate.admin_socket()).args(all);
        assert!(command.output().unwrap().status.success());
        assert_eq!(look(), OVER_LIMIT, "{all:?}");
    }
}

#[test]
fn a_route_may_require_a_domain_an_entry_a_user_and_a_header() {
    let service = Service::start(
        "[route.vip]\nmatch = \"rls:edge/vip\"\nlimits = \"vip\"\n\
         [route.key]\nmatch = \"rls:edge/tier=free\"\nlimits = \"key\"\n\
         [route.user]\nmatch = \"rls:accounts\"\nuser = \"form:user\"\nlimits = \"account\"\n\
         [limit.vip]\nkey = \"all\"\nrate = \"9 per 1h\"\n\
         [limit.key]\nkey = \"header:x-api-key\"\nrate = \"5 per 1h\"\n\
         [limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n",
        "",
    );
    let ask = |domain: &str, entries: &[(&str, &str)]| {
        let answer = service.ask_once(question(domain, &[descriptor(entries)]));
        (answer.overall_code, answer.statuses[0].limit_remaining)
    };
    assert_eq!(ask("edge", &[("generic_key", "vip")]), (OK, 8));
    assert_eq!(ask("other", &[("generic_key", "vip")]), (OK, 0));
    assert_eq!(ask("edge", &[("generic_key", "VIP")]), (OK, 0));
    assert_eq!(ask("edge", &[("tier", "free"), ("header:x-api-key", "one")]), (OK, 4));
    assert_eq!(ask("edge", &[("tier", "free"), ("x-api-key", "one")]), (OK, 3));
    assert_eq!(ask("edge", &[("tier", "free"), ("x-api-key", "two")]), (OK, 4));
    assert_eq!(ask("edge", &[("tier", "paid"), ("x-api-key", "one")]), (OK, 0));
    // A limit by account shows no numbers: Envoy could pass them on.
    assert_eq!(ask("accounts", &[("user", "anna")]), (OK, 0));
    let refused = service.ask_once(question("accounts", &[descriptor(&[("user", " ANNA ")])]));
    assert_eq!((refused.overall_code, refused.statuses[0].current_limit.as_ref()), (OVER_LIMIT, None));
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), (Some("3600"), None));
    assert_eq!(ask("accounts", &[("user", "bert")]), (OK, 0));
}

/// B1, C12: Envoy passes on what its client sent, and takes an error of the service for a yes.
#[test]
fn what_a_client_can_cause_is_no_error_but_over_the_limit() {
    let service = Service::start(LOGIN, "");
    let (client, method) = (("remote_address", "192.0.2.1"), ("method", "POST"));
    let mut strange = vec![
        descriptor(&[client, method, ("path", "/log\u{e4}n")]),
        descriptor(&[client, method, ("path", "/login%zz")]),
        descriptor(&[client, method, ("path", "/a b")]),
        descriptor(&[client, method, ("path", "login")]),
        descriptor(&[client, method, ("path", "http://other.test/login")]),
        descriptor(&[client, method, ("path", "/harmless#/login")]),
        descriptor(&[client, method, ("path", &format!("/{}", "a".repeat(9000)))]),
        descriptor(&[client, ("method", "P ST"), ("path", "/login")]),
        descriptor(&[client, ("method", "CONNECT"), ("path", "/login")]),
        descriptor(&[("remote_address", "unknown"), method, ("path", "/login")]),
        descriptor(&[("remote_address", "192.0.2.300"), method, ("path", "/login")]),
        descriptor(&[client, client, method, ("path", "/login")]),
        descriptor(&[client, method, ("path", "/harmless"), ("path", "/login")]),
        descriptor(&[client, method, ("path", "/login"), ("host", "a,b")]),
        descriptor(&[client, method, ("path", "/login"), ("host", "a"), ("host", "b")]),
        descriptor(&[client, method, ("path", "/login"), ("header:x", "a\r\nb")]),
        descriptor(&[client, method, ("path", "/login"), ("", "x")]),
    ];
    let mut bytes = descriptor(&[client, method, ("path", "/")]);
    bytes.entries[2].value = b"/log\xffn".to_vec();
    strange.push(bytes);
    for strange in strange {
        let answer = service.ask_once(question("edge", std::slice::from_ref(&strange)));
        assert_eq!(codes(&answer), (OVER_LIMIT, vec![OVER_LIMIT]), "{strange:?}");
        assert_eq!(answer.header("retry-after"), None);
    }
    let long = descriptor(&[client, method, ("path", "/login"), ("header:x", &"a".repeat(2000))]);
    let answer = service.ask_once(question("edge", &vec![long; 40]));
    assert_eq!(codes(&answer), (OVER_LIMIT, vec![]), "longer than 64 KiB");
    let first = service.ask_once(question("edge", &[sign_in("192.0.2.1", "/login")]));
    assert_eq!(first.statuses[0].limit_remaining, 2, "nothing was taken");
}

#[test]
fn what_only_the_asker_can_cause_is_a_status_of_grpc() {
    let service = Service::start(LOGIN, "");
    let good = question("edge", &[sign_in("192.0.2.1", "/login")]);
    let negative = Descriptor { is_negative_hits: true, ..sign_in("192.0.2.1", "/login") };
    let invalid = [
        question("", &good.descriptors),
        question("edge", &[]),
        question("edge", &vec![good.descriptors[0].clone(); 65]),
        question("edge", &[negative]),
    ];
    let good = framed(&good.encode_to_vec());
    let compressed = [&[1], &good[1..]].concat();
    let call = "application/grpc";
    let mut asked = vec![
        (METHOD, call, vec![], "13"),
        (METHOD, call, good[..4].to_vec(), "13"),
        (METHOD, call, good[..good.len() - 1].to_vec(), "13"),
        (METHOD, call, [&good[..], &good[..]].concat(), "13"),
        (METHOD, call, [&[9], &good[1..]].concat(), "13"),
        (METHOD, call, compressed, "12"),
        (METHOD, call, framed(b"\xff\xff\xff"), "3"),
        (METHOD, "application/json", good.clone(), "12"),
        ("/grpc.health.v1.Health/Check", call, framed(b""), "12"),
        ("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", call, good.clone(), "12"),
    ];
    asked.extend(invalid.iter().map(|question| (METHOD, call, framed(&question.encode_to_vec()), "3")));
    run(async {
        let mut caller = Caller::connect(service.address).await;
        for (path, kind, body, status) in asked {
            let called = caller.call(path, kind, body.clone()).await;
            assert_eq!(
                (called.http, called.status.as_deref()),
                (200, Some(status)),
                "{path} {kind} {body:?}"
            );
        }
        let called = caller.call(METHOD, "application/grpc+proto", good).await;
        assert_eq!(called.status.as_deref(), Some("0"));
    });
}

/// B1: bytes that are no question.
#[test]
fn random_bytes_always_get_an_answer() {
    let (service, seed) = (Service::start(LOGIN, ""), 2020);
    let mut dice = Dice::new(seed);
    let good =
        question("edge", &[sign_in("192.0.2.1", "/login"), sign_in("192.0.2.2", "/x")]).encode_to_vec();
    run(async {
        let mut caller = Caller::connect(service.address).await;
        for number in 0..2000 {
            let mut bytes = if dice.within(0..2) == 0 {
                (0..dice.within(0..60)).map(|_| u8::try_from(dice.within(0..256)).unwrap()).collect()
            } else {
                good.clone()
            };
            for _ in 0..dice.within(0..4) {
                let at = usize::try_from(dice.within(0..100)).unwrap();
                let byte = u8::try_from(dice.within(0..256)).unwrap();
                bytes.get_mut(at).into_iter().for_each(|place| *place = byte);
            }
            let body = if dice.within(0..4) == 0 { bytes } else { framed(&bytes) };
            let called = caller.call(METHOD, "application/grpc", body).await;
            assert_eq!(called.http, 200, "seed {seed}, number {number}");
            let status = called.status.as_deref();
            assert!(
                matches!(status, Some("0" | "3" | "12" | "13")),
                "seed {seed}, number {number}: {status:?}"
            );
        }
    });
    assert!(!service.gate.messages().contains("panic"));
}

/// M6: no descriptor shows a body, so `x-original-body` has to say that there is none.
#[test]
fn a_page_of_which_nobody_says_that_it_has_no_body_counts_where_bodies_are_read() {
    let service = Service::start(LOGIN, "");
    let page = |client, body: &[(&str, &str)]| {
        let request =
            [("remote_address", client), ("method", "GET"), ("path", "/login"), ("host", "app.test")];
        let entries = [&request, body].concat();
        let asked = question("edge", &[descriptor(&entries)]);
        service.ask(&vec![asked; 4]).iter().map(|answer| answer.overall_code).collect::<Vec<_>>()
    };
    let (free, counted) = ([OK; 4], [OK, OK, OK, OVER_LIMIT]);
    assert_eq!(page("192.0.2.1", &[("x-original-body", "0")]), free);
    assert_eq!(page("192.0.2.2", &[]), counted);
    for (client, body) in [("192.0.2.4", ""), ("192.0.2.5", "16"), ("192.0.2.6", "present")] {
        assert_eq!(page(client, &[("x-original-body", body)]), counted, "{body}");
    }
    let twice = [("x-original-body", "0"), ("header:x-original-body", "0")];
    assert_eq!(page("192.0.2.3", &twice), counted);
}

/// C2: whoever may not ask takes nothing.
#[test]
fn only_those_who_are_trusted_may_ask() {
    let service = Service::start(LOGIN, "trust = [\"127.0.7.0/24\"]");
    let asked = framed(&question("edge", &[sign_in("192.0.2.1", "/login")]).encode_to_vec());
    let called =
        run(async { Caller::connect(service.address).await.call(METHOD, "application/grpc", asked).await });
    assert_eq!((called.http, called.status), (403, None));
}

/// What Envoy's own service answers to a question that it has counted `before` times: a window of the clock
/// (`src/limiter/base_limiter.go`, `src/utils/utilities.go`).
fn by_reference(
    before: u32,
    (per_unit, unit, name): (u32, i32, &str),
    now: u64,
) -> (i32, u32, i32, String, u32, u64) {
    let seconds = [0, 1, 60, 3600, 86_400][usize::try_from(unit).unwrap()];
    let after = before + 1;
    let code = if after > per_unit { OVER_LIMIT } else { OK };
    (code, per_unit, unit, name.to_owned(), per_unit.saturating_sub(after), seconds - now % seconds)
}

/// A domain, descriptors, what the reference has for each (a count, its unit, our name of the limit), and how often they are
/// asked.
type Example<'e> = (&'e str, &'e [Descriptor], &'e [(u32, i32, &'e str)], u32);

fn compare_with_reference(service: &Service, examples: &[Example<'_>]) {
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // All of it within one minute of the clock.
    assert!(eventually(Duration::from_secs(6), || seconds() % 60 < 55));
    for &(domain, descriptors, expected, times) in examples {
        for before in 0..times {
            let since = seconds();
            let answer = service.ask_once(question(domain, descriptors));
            let until = seconds();
            let found = answer.statuses.iter().map(|status| {
                let limit = status.current_limit.clone().unwrap();
                let reset = status.duration_until_reset.unwrap().seconds;
                let reset = u64::try_from(reset).unwrap();
                (status.code, limit.requests_per_unit, limit.unit, limit.name, status.limit_remaining, reset)
            });
            let found: Vec<_> = found.collect();
            let by = |now| expected.iter().map(|&limit| by_reference(before, limit, now)).collect::<Vec<_>>();
            assert!(
                (since..=until).any(|now| by(now) == found),
                "{domain} {before}: {found:?} {:?}",
                by(until)
            );
            let is_over = found.iter().any(|status| status.0 == OVER_LIMIT);
            assert_eq!(answer.overall_code, if is_over { OVER_LIMIT } else { OK });
        }
    }
}

/// A limit that counts in the windows of the reference.
fn clocked(name: &str, key: &str, rate: &str) -> String {
    format!("[limit.{name}]\nkey = \"{key}\"\nrate = \"{rate}\"\nrefill = \"interval\"\nanchor = \"clock\"\n")
}

/// The examples of envoyproxy/ratelimit, in its README.
#[test]
fn the_examples_of_envoys_own_service_are_answered_as_it_does() {
    let routes = "[route.users]\nmatch = \"rls:mongo_cps/database=users\"\nlimits = \"users\"\n\
                  [route.marketing]\nmatch = \"rls:messaging/message_type=marketing\"\nlimits = \"marketing\"\n\
                  [route.number]\nmatch = \"rls:messaging\"\nlimits = \"number\"\n\
                  [route.edge]\nmatch = \"rls:edge_proxy_per_ip\"\nlimits = \"ip\"\n\
                  [route.azure]\nmatch = \"rls:internal\"\nwhen = \"header:azure\"\nlimits = \"azure\"\n";
    let limits = [
        clocked("users", "all", "500/s"),
        clocked("marketing", "header:to_number", "5 per 1d"),
        clocked("number", "header:to_number", "100 per 1d"),
        clocked("ip", "ip", "10/s"),
        clocked("azure", "header:azure", "100/min"),
    ];
    let service = Service::start(&format!("{routes}{}", limits.concat()), "");
    let number = ("to_number", "2061111111");
    let marketing = [descriptor(&[("message_type", "marketing"), number]), descriptor(&[number])];
    let examples: [Example<'_>; 4] = [
        ("mongo_cps", &[descriptor(&[("database", "users")])], &[(500, 1, "users")], 1),
        ("messaging", &marketing, &[(5, 4, "marketing"), (100, 4, "number")], 6),
        ("edge_proxy_per_ip", &[descriptor(&[("remote_address", "50.0.0.1")])], &[(10, 1, "ip")], 1),
        ("internal", &[descriptor(&[("azure", "tenant")])], &[(100, 2, "azure")], 3),
    ];
    compare_with_reference(&service, &examples);
    // What no limit of the file is for: `GetLimit` finds none, so there are no numbers.
    let nothing = service.ask_once(question("mongo_cps", &[descriptor(&[("database", "other")])]));
    assert_eq!((codes(&nothing), &nothing.statuses[0].current_limit), ((OK, vec![OK]), &None));
    assert_eq!((nothing.statuses[0].limit_remaining, nothing.statuses[0].duration_until_reset), (0, None));
}

/// Its `examples/ratelimit/config/example.yaml`, but for what is `unlimited` or has the rate 0.
#[test]
fn the_example_file_of_envoys_own_service_is_answered_as_it_does() {
    let routes = "[route.mock]\nmatch = \"rls:rl/destination_cluster=mock\"\nlimits = \"mock\"\n\
                  [route.shady]\nmatch = \"rls:rl/baz=shady\"\nlimits = \"shady\"\n\
                  [route.baz]\nmatch = \"rls:rl/baz=zip\"\nlimits = \"baz\"\n\
                  [route.bar]\nmatch = \"rls:rl/bar=tender\"\nlimits = \"bar\"\n\
                  [route.foo]\nmatch = \"rls:rl/foo=fighter\"\nlimits = \"foo\"\n";
    let limits = [
        clocked("mock", "all", "1/min"),
        clocked("shady", "header:foo", "1/min") + "mode = \"observe\"\n",
        clocked("baz", "header:foo+header:baz", "1/s"),
        clocked("bar", "header:foo+header:bar", "3/min"),
        clocked("foo", "header:foo", "2/min"),
    ];
    let service = Service::start(&format!("{routes}{}", limits.concat()), "");
    let foo = ("foo", "fighter");
    let mock = descriptor(&[("source_cluster", "proxy"), ("destination_cluster", "mock")]);
    let examples: [Example<'_>; 4] = [
        ("rl", &[mock], &[(1, 2, "mock")], 2),
        ("rl", &[descriptor(&[foo])], &[(2, 2, "foo")], 3),
        ("rl", &[descriptor(&[foo, ("bar", "tender")])], &[(3, 2, "bar")], 4),
        ("rl", &[descriptor(&[foo, ("baz", "zip")])], &[(1, 1, "baz")], 1),
    ];
    compare_with_reference(&service, &examples);
    // `shadow_mode` refuses nothing.
    for _ in 0..2 {
        let shady = service.ask_once(question("rl", &[descriptor(&[foo, ("baz", "shady")])]));
        assert_eq!(codes(&shady), (OK, vec![OK]));
    }
}
