//! Deciding on a request at a listener, and asking about the same request at an endpoint, is the same.

use crate::calls::{Caller, run};
use crate::envoy::{Check, Service, check, header, lines};
use support::dice::Dice;
use support::endpoint::Edge;
use support::{Answer, Client, Gate, ONE_AN_HOUR};

/// One request, to be sent or asked about.
struct Visit {
    method: &'static str,
    target: String,
    host: &'static str,
    client: String,
    lines: String,
}

impl Visit {
    fn thrown(dice: &mut Dice) -> Self {
        let lines = (0..dice.within(0..3)).map(|_| dice.pick(LINES)).collect();
        let target = format!("{}{}", dice.pick(PATHS), dice.pick(QUERIES));
        let hops = dice.pick(&["", "", "6.6.6.6, ", "nonsense, "]);
        let client = format!("{hops}192.0.2.{}", dice.within(0..4));
        Self { method: dice.pick(METHODS), target, host: dice.pick(HOSTS), client, lines }
    }

    fn sent(&self) -> String {
        let Self { method, target, host, client, lines } = self;
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {client}\r\n{lines}Content-Length: 0\r\n\r\n"
        )
    }

    fn asked(&self, form: support::endpoint::Form) -> String {
        let lines = format!("{}X-Original-Body: 0\r\n", self.lines);
        form(self.method, &self.target, &self.client, &lines).replace("app.test", self.host)
    }

    /// As Envoy, which has the same peer as the gate, asks about it.
    fn called(&self) -> Check {
        let mut called = check("127.0.0.1", self.method, &self.target, &[], "");
        called.http().host = self.host.to_owned();
        let own = self.lines.lines().map(|line| line.split_once(": ").unwrap());
        let own: Vec<_> = own.map(|(name, value)| (name.to_lowercase(), value)).collect();
        let own: Vec<_> = own.iter().map(|(name, value)| (&**name, *value)).collect();
        *called.header_lines() = lines(&[&[("x-forwarded-for", &*self.client)], &own[..]].concat()).lines;
        called
    }
}

/// What is decided, and what is left.
fn verdict(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.header("ratelimit").map(without_seconds))
}

/// The seconds to the next token differ by when the request came.
fn without_seconds(limits: &str) -> String {
    let parts = limits.split(';').filter(|part| !part.starts_with("t="));
    parts.collect::<Vec<_>>().join(";")
}

fn answer(client: &mut Client, bytes: &str) -> Answer {
    client.send(bytes);
    if bytes.starts_with("HEAD ") { client.answer_to_head() } else { client.answer() }
}

/// A limit that shows itself, for requests whose client a proxy names.
fn tables() -> String {
    format!(
        "[client]\ntrust = \"127.0.0.1\"\n{}[refuse]\nheaders = \"always\"\n",
        ONE_AN_HOUR
            .replace(
                "POST /login\"",
                "POST /login\"\nhost = \"app.test\"\nuser = [\"basic\", \"query:user\"]"
            )
            .replace("1 per 1h", "40 per 1h"),
    )
}

#[test]
fn a_question_is_decided_and_charged_as_the_request_itself() {
    let tables = tables();
    let (edge, seed) = (Edge::start(&tables, ""), 20);
    let gate = Gate::start(&edge.upstream.file(&tables));
    let mut dice = Dice::new(seed);
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..900 {
        let visit = Visit::thrown(&mut dice);
        let (sent, asked) = (visit.sent(), visit.asked(dice.pick(&support::endpoint::FORMS)));
        let direct = verdict(&answer(&mut gate.connect(), &sent));
        let indirect = verdict(&answer(&mut Client::connect(edge.address), &asked));
        assert_eq!(direct, indirect, "seed {seed}, number {number}:\n{sent}\n{asked}");
        *seen.entry((direct.0, direct.1.is_some())).or_insert(0) += 1;
    }
    // The dice show all there is: free, charged, refused, malformed.
    for kind in [(200, false), (200, true), (429, true), (400, false)] {
        assert!(seen.get(&kind).is_some_and(|count| *count > 20), "{seen:?}");
    }
}

#[test]
fn a_call_is_decided_and_charged_as_the_request_itself() {
    let (service, seed) = (Service::start("ext-authz", &tables(), "bodies = true\n"), 21);
    let gate = Gate::start(&service.upstream.file(&tables()));
    let mut dice = Dice::new(seed);
    run(async {
        let mut caller = Caller::connect(service.address).await;
        for number in 0..500 {
            let visit = Visit::thrown(&mut dice);
            let direct = verdict(&answer(&mut gate.connect(), &visit.sent()));
            let called = caller.check(&visit.called()).await;
            let shown = match (&called.ok, &called.denied) {
                (Some(ok), _) => header(&ok.response_headers, "ratelimit"),
                (None, denied) => header(&denied.as_ref().unwrap().headers, "ratelimit"),
            };
            let indirect = (u16::try_from(called.verdict()).unwrap(), shown.map(without_seconds));
            assert_eq!(direct, indirect, "seed {seed}, number {number}:\n{}", visit.sent());
        }
    });
}

const METHODS: &[&str] = &["GET", "POST", "POST", "POST", "HEAD", "OPTIONS", "PUT", "post", "M-SEARCH"];
const PATHS: &[&str] = &[
    "/login",
    "/login",
    "/login",
    "/LOGIN",
    "/%6cogin",
    "//login",
    "/login/",
    "/login;x=1",
    "/a/../login",
    "/login%2f",
    "/%2e/login",
    "/login%00",
    "/other",
    "/login/x",
    "/",
    "/login%zz",
    "/./login",
    "/login.php",
    "/a%5c..%5clogin",
];
const QUERIES: &[&str] = &["", "", "", "?", "?user=anna", "?_method=post", "?password=x", "?a=%00", "?a=b?c"];
const HOSTS: &[&str] =
    &["app.test", "app.test", "app.test", "App.Test:80", "app.test.", "other.test", "a,b", "app.test:x"];
const LINES: &[&str] = &[
    "X-HTTP-Method-Override: POST\r\n",
    "Authorization: Basic YW5uYTp4\r\n",
    "Cookie: password=x\r\n",
    "Cookie: session=1\r\n",
    "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n",
    "Accept: text/html\r\n",
    "X-Request-Id: 1\r\n",
];
