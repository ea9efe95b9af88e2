//! What gives a token back, and what never does: every way in which an answer can come to an end.

use std::net::Ipv4Addr;
use std::time::Duration;

use support::application::{form, post};
use support::{Gate, Reply, Upstream, check_file, free_port};

/// A limit of ten that failures empty.
const TEN: &str = "[limit.address]\nrate = \"10 per 1h\"\ncount = \"failures\"\n";

/// How many of so many guesses reach the application.
fn reached(gate: &Gate, guesses: usize, guess: impl Fn(usize) -> String) -> usize {
    (0..guesses)
        .filter(|&number| gate.try_ask(guess(number)).is_none_or(|answer| answer.status != 429))
        .count()
}

fn field<'b>(request: &'b str, name: &str) -> &'b str {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
}

/// A form that sends a wrong password back to itself with `next` as it came, encoded once more.
fn reflecting_form() -> Upstream {
    Upstream::answering(|request, _| {
        let request = String::from_utf8_lossy(request);
        let location = match field(&request, "pwd") {
            "right" => "/home".to_owned(),
            _ => format!("/login?error=1&next={}", field(&request, "next").repeat(6)),
        };
        Reply::text(&format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"))
    })
}

/// L7: the wrong password's head is too long for the gate, the right one's is not.
#[test]
fn a_guess_whose_answer_has_too_long_a_head_is_paid_for() {
    let application = reflecting_form();
    for rules in [
        "success = { location = \"/home*\" }",
        "failure = { status = 401 }\notherwise = \"neutral\"",
        "failure = { location = \"*error*\" }\notherwise = \"success\"",
    ] {
        let route = format!("[route.login]\nmatch = \"POST /login\"\nuser = \"form:log\"\n{rules}\n");
        let gate = Gate::start(&application.file(&format!("{route}{TEN}")));
        let next = "x".repeat(24 * 1024);
        let guess = |password: String| post("/login", "", &format!("log=alice&pwd={password}&next={next}"));
        assert_eq!(gate.ask(guess("right".into())).status, 302);
        assert_eq!(reached(&gate, 200, |number| guess(format!("wrong{number}"))), 10, "{rules}");
    }
}

/// The form of an application that says what it thinks of a password in the page alone.
fn texts(application: &Upstream, rules: &str) -> Gate {
    Gate::start(&application.file(&format!(
        "[route.login]\nmatch = \"POST /login\"\nuser = \"form:log\"\nfailure = {{ body = \"Login failed\" }}\n{rules}\n{TEN}"
    )))
}

/// L8: the page repeats the name that was typed before it says that the password is wrong.
#[test]
fn a_text_that_is_pushed_out_of_sight_does_not_make_a_guess_free() {
    let application = Upstream::answering(|request, _| {
        let request = String::from_utf8_lossy(request);
        let page = format!("<p>{}</p><p>Login failed</p>", field(&request, "log").repeat(3));
        Reply::text(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len()))
    });
    for rules in ["otherwise = \"success\"", "otherwise = \"neutral\"", "success = { status = 200 }"] {
        let gate = texts(&application, rules);
        let name = "x".repeat(24 * 1024);
        assert_eq!(reached(&gate, 100, |number| post("/login", "", &form(&name, &number.to_string()))), 10);
    }
}

/// L8: nor does a part of the page, the page as a client has it already, or the page in another encoding or charset.
#[test]
fn what_a_client_wants_of_the_answer_does_not_hide_what_stands_in_it() {
    let application = Upstream::answering(|request, _| {
        let request = String::from_utf8_lossy(request).to_ascii_lowercase();
        let (head, _) = request.split_once("\r\n\r\n").unwrap();
        let answers = [
            ("\r\nrange: bytes=99999-", "416 Range Not Satisfiable"),
            ("\r\nrange: bytes=0-", "206 Partial Content"),
            ("\r\nrequest-range:", "206 Partial Content"),
            ("\r\nif-none-match:", "304 Not Modified"),
            ("\r\nif-match:", "412 Precondition Failed"),
            ("\r\nif:", "412 Precondition Failed"),
            ("\r\na-im:", "226 IM Used"),
            ("\r\naccept-charset:", "200 OK"),
            ("\r\naccept-encoding: gzip", "200 OK"),
        ];
        match answers.iter().find(|(line, _)| head.contains(line)) {
            Some((_, status)) => Reply::text(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")),
            None => Reply::text("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nLogin failed"),
        }
    });
    let wishes = [
        "Range: bytes=99999-",
        "Range: bytes=0-3",
        "Request-Range: bytes=0-3",
        "If-None-Match: *",
        "If-Match: \"x\"",
        "If: (<urn:x>)",
        "A-IM: vcdiff",
        "Accept-Charset: utf-16",
        "Accept-Encoding: gzip",
    ];
    let found = wishes.map(|wish| {
        let gate = texts(&application, "otherwise = \"success\"");
        let guess =
            |number: usize| post("/login", &format!("{wish}\r\n"), &form("alice", &number.to_string()));
        (wish, reached(&gate, 100, guess))
    });
    assert_eq!(found, wishes.map(|wish| (wish, 10)));
}

/// L9: what `check` advises is tried on a form that redirects after a wrong password, too.
#[test]
fn what_check_advises_for_a_success_is_none_after_a_wrong_password() {
    let application = Upstream::answering(|request, _| {
        let lines = match field(&String::from_utf8_lossy(request), "pwd") {
            "right" => "Location: /home\r\nSet-Cookie: SESSION=1\r\n",
            _ => "Location: /login?error=1\r\nSet-Cookie: flash=1\r\n",
        };
        Reply::text(&format!("HTTP/1.1 302 Found\r\n{lines}Content-Length: 0\r\n\r\n"))
    });
    let route = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:log\"\n";
    let silent = check_file(&application.file(&format!("{route}{TEN}")));
    let said = String::from_utf8_lossy(&silent.stderr).into_owned();
    let (_, advice) = said.split_once("add success = ").expect("it says what to add");
    let (rules, _) = advice.split_once("}]").unwrap();
    let gate = Gate::start(&application.file(&format!("{route}success = {rules}}}]\n{TEN}")));
    for _ in 0..20 {
        assert_eq!(gate.ask(post("/login", "", &form("alice", "right"))).status, 302, "{rules}");
    }
    assert_eq!(
        reached(&gate, 60, |number| post("/login", "", &form("alice", &number.to_string()))),
        10,
        "{rules}"
    );
}

/// A way in which an answer comes to its end, and what has to come of an attempt by each route of [`ENDS`].
struct End {
    name: &'static str,
    reply: Reply,
    head: &'static str,
    text: &'static str,
}

/// One attempt an hour, which failures empty; rules about heads, rules about texts.
const ENDS: &str = r#"
[route.head]
match = "POST /head/**"
failure = { status = 401 }
otherwise = "neutral"
[route.text]
match = "POST /text/**"
failure = { body = "Login failed" }
otherwise = "success"
[limit.address]
rate = "1 per 1h"
count = "failures"
[proxy]
reply_timeout = "1s"
connect_timeout = "1s"
"#;

fn ends() -> Vec<End> {
    let end = |name, reply, head, text| End { name, reply, head, text };
    let failed = |name, reply| end(name, reply, "failure", "failure");
    let bare = |status: &str| Reply::text(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    let kind =
        |value: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {value}\r\nContent-Length: 2\r\n\r\nok");
    let page = |length: usize, body: &str| {
        Reply::text_and_close(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"))
    };
    let chunks = |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    let pieces = |first: String, second: &str, pause| {
        Reply::Pieces(vec![first.into_bytes(), second.as_bytes().to_vec()], Duration::from_millis(pause))
    };
    let (long, many) = ("x".repeat(70_000), "X-A: 1\r\n".repeat(300));
    let mut ends = vec![
        end("fine", bare("200 OK"), "neutral", "success"),
        end("unknown", bare("404 Not Found"), "neutral", "success"),
        end("refused", bare("401 Unauthorized"), "failure", "success"),
        end("wrong", page(12, "Login failed"), "neutral", "failure"),
        end("until-closed", Reply::text_and_close("HTTP/1.1 200 OK\r\n\r\nok"), "neutral", "success"),
        failed("closed", Reply::BytesAndClose(Vec::new())),
        failed("half-a-head", Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-")),
        failed("no-head", Reply::text_and_close("nonsense\r\n\r\n")),
        failed("long-head", bare(&format!("200 OK\r\nLocation: /{}", long.repeat(3)))),
        failed("many-headers", bare(&format!("200 OK\r\n{many}X-B: 1"))),
        failed(
            "interim-without-end",
            Reply::text_and_close(&"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20_000)),
        ),
        failed("two-lengths", bare("200 OK\r\nContent-Length: 2")),
        failed("two-framings", bare("200 OK\r\nTransfer-Encoding: chunked")),
        failed("switched", bare("101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x")),
        failed("silence", Reply::Silence),
        failed("no-chunk", Reply::text_and_close(&chunks("zz\r\n"))),
        end("half-a-body", page(100, "<p>Login f"), "neutral", "failure"),
        end("silence-in-a-body", pieces(chunks("1\r\na\r\n"), "0\r\n\r\n", 2500), "neutral", "failure"),
        end("no-second-chunk", pieces(chunks("1\r\na\r\n"), "zz\r\n", 300), "neutral", "failure"),
        end("longer-than-is-read", page(70_000, &long), "neutral", "failure"),
        end("unknown-coding", bare("200 OK\r\nContent-Encoding: secret"), "neutral", "failure"),
        end("unknown-charset", Reply::text(&kind("text/html; charset=utf-16")), "neutral", "failure"),
        end("ranges", Reply::text(&kind("multipart/byteranges; boundary=a")), "neutral", "failure"),
    ];
    for status in ["500", "501", "502", "503", "504", "507", "206", "226", "300", "304", "406", "412", "416"]
    {
        ends.push(failed(status, bare(&format!("{status} X"))));
    }
    ends
}

/// Answers as the [`End`] that the path of a request names.
fn application_of_ends() -> Upstream {
    let ends = ends();
    Upstream::answering(move |request, _| {
        let start = String::from_utf8_lossy(&request[..request.len().min(100)]);
        let name = start.split([' ', '/']).nth(3).unwrap_or_default();
        ends.iter().find(|end| end.name == name).map_or_else(Reply::ok, |end| end.reply.clone())
    })
}

const OUTCOMES: [&str; 4] = ["success", "failure", "neutral", "error"];

/// How many attempts came to each of [`OUTCOMES`] so far.
fn counts(gate: &Gate) -> [f64; 4] {
    let page = gate.metrics();
    OUTCOMES.map(|outcome| {
        let label = format!("outcome=\"{outcome}\"");
        let lines =
            page.lines().filter(|line| line.starts_with("tollgate_attempts_total{") && line.contains(&label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    })
}

/// What came of an attempt at this target, from an address of its own.
fn outcome(gate: &Gate, target: &str, address: Ipv4Addr) -> &'static str {
    let before = counts(gate);
    let mut client = gate.connect_from(address);
    client.send(post(target, "", "a=b"));
    let _ = client.try_answer();
    drop(client);
    let after = counts(gate);
    let mut again = gate.connect_from(address);
    again.send(post("/text/fine", "", "a=b"));
    let is_paid = again.answer().status == 429;
    let grown = OUTCOMES.iter().zip(before.iter().zip(after)).find(|(_, (before, after))| after > *before);
    let outcome = grown.map_or("", |(outcome, _)| outcome);
    assert_eq!(outcome == "failure", is_paid, "{target}: {outcome}");
    outcome
}

/// L7: every way in which an answer can come to an end.
#[test]
fn a_guess_is_given_back_only_by_an_answer_that_says_enough() {
    let application = application_of_ends();
    let gate = Gate::start(&application.file(ENDS));
    let mut wrong = Vec::new();
    for (number, end) in (1..).zip(ends()) {
        for (kind, wanted) in [(1, end.head), (2, end.text)] {
            let target = format!("/{}/{}", if kind == 1 { "head" } else { "text" }, end.name);
            let found = outcome(&gate, &target, Ipv4Addr::new(127, 0, kind, number));
            if found != wanted {
                wrong.push(format!("{target}: {found} and not {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// L7: where the application cannot have seen the password, nothing was guessed.
#[test]
fn an_attempt_that_never_reached_an_application_costs_nothing() {
    let plain = Upstream::start();
    let refusing = format!("http://127.0.0.1:{}", free_port());
    let without_tls = format!("https://{}", plain.address);
    for (number, address) in (1..).zip([refusing, without_tls]) {
        let there = Upstream::start();
        let gate = Gate::start(&there.file(&ENDS.replacen(
            "match = \"POST /head/**\"",
            &format!("match = \"POST /head/**\"\nupstream = \"{address}\""),
            1,
        )));
        assert_eq!(outcome(&gate, "/head/x", Ipv4Addr::new(127, 0, 3, number)), "error", "{address}");
    }
}
