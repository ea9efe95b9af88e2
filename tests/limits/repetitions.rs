//! A head that is refused again and again is refused as one that the gate has never seen.
//!
//! Two gates have the same file. One gets each request as it is, the other one with a header line that no request had
//! before, so that it has to look at all of them. Answers, logs, metrics and buckets have to be the same.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value};
use support::dice::Dice;
use support::endpoint::{Form, forwarded, itself, nginx};
use support::{Answer, Client, Gate, Upstream, binary, free_port, post, post_with};

/// A gate, its clients' connections, and what its requests are changed to.
struct Side {
    gate: Gate,
    /// Where its requests go.
    address: SocketAddr,
    clients: HashMap<Ipv4Addr, Client>,
    /// Number of the next request; `None` where they are sent as they are.
    next: Option<u32>,
}

impl Side {
    /// With this file. Where an endpoint decides, all requests are asked there.
    fn start(file: &str, has_endpoint: bool, changes_requests: bool) -> Self {
        let endpoint = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let edge =
            format!("{file}[endpoint.edge]\nkind = \"forward-auth\"\nlisten = \"http://{endpoint}\"\n");
        let gate = Gate::start(if has_endpoint { &edge } else { file });
        let address = if has_endpoint { endpoint } else { gate.address };
        Self { gate, address, clients: HashMap::new(), next: changes_requests.then_some(0) }
    }

    /// The answers to this request, sent so many times at once.
    fn ask(&mut self, from: Ipv4Addr, request: &str, times: usize) -> Vec<Answer> {
        let requests: Vec<String> = (0..times).map(|_| self.changed(request)).collect();
        let client = self.clients.entry(from).or_insert_with(|| Client::connect_from(from, self.address));
        client.send(requests.concat());
        let is_last = |answer: &Answer| {
            answer.closes() || (request.contains("/1.0") && answer.header("connection").is_none())
        };
        let mut answers = Vec::new();
        while answers.len() < times && !answers.last().is_some_and(is_last) {
            let is_head = request.starts_with("HEAD");
            answers.push(if is_head { client.answer_to_head() } else { client.answer() });
        }
        if answers.last().is_some_and(is_last) {
            self.clients.remove(&from);
        }
        answers
    }

    fn changed(&mut self, request: &str) -> String {
        let Some(number) = &mut self.next else { return request.to_owned() };
        *number += 1;
        request.replacen("\r\n", &format!("\r\nX-Number: {number}\r\n"), 1)
    }

    fn command(&self, words: &[&str]) {
        let mut command = Command::new(binary());
        command.args(words).arg("--socket").arg(self.gate.admin_socket());
        let output = command.env_remove("TOLLGATE_CONFIG").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What both gates have counted and logged.
    fn end(mut self) -> [Vec<String>; 3] {
        let metrics = self.gate.metrics();
        let counted = ["tollgate_decisions_total", "tollgate_requests_total", "tollgate_attempts_total"];
        let is_counted = |line: &&str| counted.iter().any(|name| line.starts_with(name));
        let mut metrics: Vec<String> = metrics.lines().filter(is_counted).map(str::to_owned).collect();
        metrics.sort();
        self.gate.signal("TERM");
        assert!(self.gate.exit_status(Duration::from_secs(10)).is_some_and(|status| status.success()));
        let lines = |name: &str| {
            let text = fs::read_to_string(self.gate.directory.join(name)).unwrap();
            let mut lines: Vec<String> = text.lines().map(shown).collect();
            lines.sort();
            lines
        };
        [metrics, lines("access.log"), lines("decisions.log")]
    }
}

/// A line of a log without times and ids.
fn shown(line: &str) -> String {
    let mut fields: Map<String, Value> = serde_json::from_str(line).unwrap();
    for name in ["time", "request_id", "duration_ms", "added_us", "decided_us", "settled_us", "nanoseconds"] {
        fields.remove(name);
    }
    // A page says the time in words, which need not be as long a second later.
    if let Some(bytes) = fields.get_mut("bytes") {
        *bytes = Value::from(bytes.as_u64().unwrap() > 0);
    }
    // The key by which accounts are hashed differs between the gates.
    if let Some(account) = fields.get_mut("account") {
        *account = Value::from(!account.is_null());
    }
    if let Some(wait) = fields.get_mut("wait").filter(|wait| !wait.is_null()) {
        *wait = Value::from(wait.as_f64().unwrap() > 0.0);
    }
    Value::from(fields).to_string()
}

/// Everything of an answer but its date, its number, and a second more or less.
fn assert_same(repeated: &Answer, fresh: &Answer, what: &str) {
    let text = |answer: &Answer| {
        let is_page = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        let is_shown = |name: &str| {
            !(matches!(name, "date" | "x-request-id" | "x-tollgate-receipt")
                || is_page && name == "content-length")
        };
        let headers = answer.headers.iter().filter(|(name, _)| is_shown(name));
        let mut lines: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        let id = answer.header("x-request-id").unwrap_or("-").to_owned();
        // A page says the time in words, and a second later perhaps in others.
        let body = answer.text().replace(&id, "ID");
        let is_timeless = |part: &&str| !is_page || !part.contains(|letter: char| letter.is_ascii_digit());
        let body: Vec<&str> = body.split(['<', '>']).filter(is_timeless).collect();
        format!("{} {}\n{}", answer.status, lines.join("\n"), body.join("<"))
    };
    let (repeated, fresh) = (text(repeated), text(fresh));
    let parts = |text: &str| -> (Vec<String>, Vec<u64>) {
        let is_digit = |letter: char| letter.is_ascii_digit();
        let words = text.split(is_digit).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let numbers = text.split(|letter| !is_digit(letter)).filter_map(|number| number.parse().ok());
        (words, numbers.collect())
    };
    let ((words, numbers), (other_words, other_numbers)) = (parts(&repeated), parts(&fresh));
    assert_eq!(words, other_words, "{what}");
    let is_near = |(one, other): (&u64, &u64)| one.abs_diff(*other) <= 3;
    assert!(numbers.iter().zip(&other_numbers).all(is_near), "{what}: {repeated}\n{fresh}");
    assert_eq!(numbers.len(), other_numbers.len(), "{what}");
}

fn requests() -> Vec<String> {
    let with = |lines: &str| post_with("/login", lines);
    vec![
        post("/login", "user=alice&password=wrong"),
        with(""),
        with("Accept: text/html\r\nAccept-Language: de\r\n"),
        with("Accept: application/json\r\nX-Key: a\r\n"),
        with("X-Request-Id: client-7\r\n"),
        with("Origin: https://app.example\r\n"),
        with("Connection: close\r\n"),
        with("X-Forwarded-For: 127.1.1.9\r\n"),
        "GET /login?token=secret HTTP/1.1\r\nHost: app.test\r\nUser-Agent: curl\r\nReferer: http://x/?a=b\r\n\r\n".to_owned(),
        "HEAD /login HTTP/1.1\r\nHost: app.test\r\n\r\n".to_owned(),
        "POST /login HTTP/1.0\r\nHost: app.test\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\na=b".to_owned(),
        "GET /login HTTP/1.0\r\n\r\n".to_owned(),
        "POST /login HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n".to_owned(),
        "GET /other HTTP/1.1\r\nHost: app.test\r\n\r\n".to_owned(),
        "GET /%6cogin HTTP/1.1\r\nHost: app.test\r\nCookie: a=b\r\n\r\n".to_owned(),
    ]
}

/// Questions about requests of one client, as proxies ask them.
fn questions() -> Vec<String> {
    let with = |form: Form, method: &str, target: &str, lines: &str| form(method, target, "CLIENT", lines);
    vec![
        with(nginx, "POST", "/login", "").replace("/1.0", "/1.1"),
        with(nginx, "POST", "/login", "X-Original-Body: 7\r\n"),
        with(nginx, "GET", "/login", "Connection: close\r\n").replace("/1.0", "/1.1"),
        with(nginx, "GET", "/about", ""),
        with(forwarded, "POST", "/login", "Accept: text/html\r\n"),
        with(forwarded, "GET", "/login?token=secret", "X-Original-Body: 0\r\nX-Request-Id: theirs\r\n"),
        with(forwarded, "HEAD", "/login", "Origin: https://app.example\r\n"),
        with(forwarded, "POST", "/%6cogin", "X-Key: a\r\n"),
        with(forwarded, "POST", "/login", "Content-Length: 3\r\n") + "a=b",
        with(itself, "POST", "/login", ""),
        with(itself, "HEAD", "/login", ""),
        with(itself, "GET", "/login", "X-Key: b\r\n"),
    ]
}

/// Times are so long that no token comes back while the test runs.
const LIMITS: [&str; 6] = [
    "[limit.address]\nrate = \"3 per 100h\"\n",
    "[limit.address]\nrate = \"4 per 100h\"\n[limit.subnet]\nipv4 = 24\nrate = \"9 per 100h\"\n\
     [limit.watched]\nmode = \"observe\"\nrate = \"1 per 100h\"\n",
    "[limit.growing]\nrate = \"5 per 100h\"\n[limit.growing.escalate]\nafter = 4\nwait = \"40m\"\n",
    "[limit.keyed]\nkey = \"header:X-Key\"\nrate = \"2 per 100h\"\n[limit.site]\nkey = \"host\"\nrate = \"60 per 100h\"\n",
    "[limit.quota]\nrolling = \"4 per 1000h\"\nevery = \"500h\"\n[limit.some]\nrate = \"2 per 100h\"\nexempt = [\"127.1.1.1\"]\n",
    "[limit.account]\nkey = \"user\"\nrate = \"3 per 100h\"\n[limit.address]\nrate = \"6 per 100h\"\n\
     [refuse]\nheaders = \"always\"\nstatus = 503\n",
];

fn file(upstream: &Upstream, limits: &str, user: &str) -> String {
    upstream.file(&format!(
        "[route.login]\nmatch = [\"POST /login\", \"GET /login\"]\ncors = [\"https://app.example\"]\n{user}\n{limits}\n\
         [log]\naccess = \"access.log\"\nstyle = \"json\"\ndecisions = \"decisions.log\"\n[proxy]\nthreads = 1\n"
    ))
}

fn operators(dice: &mut Dice) -> Vec<&'static str> {
    let words = [
        "buckets credit 127.1.1.1 2",
        "buckets reset 127.1.1.2",
        "buckets ban 127.1.1.1 --for 1h",
        "buckets ban 127.1.1.1 --end",
        "buckets ban 127.1.1.0/30 --for 1h",
        "buckets exempt 127.1.1.2/32 --for 1h",
        "mode observe --for 1h",
        "mode enforce --for 1h",
        "reload",
    ];
    dice.pick(&words).split(' ').collect()
}

fn both_say_the_same(limits: &str, user: &str, seed: u64) {
    both_say_the_same_to(&requests(), limits, user, seed);
}

fn both_say_the_same_to(requests: &[String], limits: &str, user: &str, seed: u64) {
    let (upstream, mut dice) = (Upstream::start(), Dice::new(seed));
    let (file, are_questions) = (file(&upstream, limits, user), requests[0].contains("CLIENT"));
    let mut sides = [false, true].map(|changes| Side::start(&file, are_questions, changes));
    for step in 0..80 {
        if dice.once_in(15) {
            let words = operators(&mut dice);
            sides.iter().for_each(|side| side.command(&words));
            continue;
        }
        let from = Ipv4Addr::new(127, 1, 1, u8::try_from(dice.within(1..4)).unwrap());
        // Most come again and again.
        let number =
            if dice.once_in(2) { 0 } else { usize::try_from(dice.within(0..requests.len() as u64)).unwrap() };
        let request = &requests[number].replace("CLIENT", &from.to_string());
        let times = if dice.once_in(5) { 3 } else { 1 };
        let [repeated, fresh] = sides.each_mut().map(|side| side.ask(from, request, times));
        let what = format!("{limits}seed {seed}, step {step}: {request:?} from {from}");
        assert_eq!(repeated.len(), fresh.len(), "{what}");
        repeated.iter().zip(&fresh).for_each(|(repeated, fresh)| assert_same(repeated, fresh, &what));
    }
    let [repeated, fresh] = sides.map(Side::end);
    for (repeated, fresh) in repeated.iter().zip(&fresh) {
        assert_eq!(repeated, fresh, "{limits}seed {seed}");
    }
}

#[test]
fn a_repeated_head_gets_what_a_new_one_gets_under_limits_by_address() {
    both_say_the_same(LIMITS[0], "", 1);
    both_say_the_same(LIMITS[1], "", 2);
}

#[test]
fn a_repeated_head_gets_what_a_new_one_gets_where_refusals_cost_and_keys_differ() {
    both_say_the_same(LIMITS[2], "", 3);
    both_say_the_same(LIMITS[3], "", 4);
}

#[test]
fn a_repeated_head_gets_what_a_new_one_gets_where_the_body_names_accounts() {
    both_say_the_same(LIMITS[4], "", 5);
    both_say_the_same(LIMITS[5], "user = \"form:user\"", 6);
}

#[test]
fn a_repeated_question_gets_what_a_new_one_gets() {
    for (number, seed) in [0, 2, 3].into_iter().zip(7..) {
        both_say_the_same_to(&questions(), LIMITS[number], "", seed);
    }
}

#[test]
fn the_body_of_a_repeated_head_is_no_request() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{}[proxy]\nthreads = 1\n", support::ONE_AN_HOUR)));
    let inside = post("/login", "");
    let outside = post("/login", &inside);
    let mut client = gate.connect();
    let statuses = (0..6).map(|_| {
        client.send(&outside);
        client.answer().status
    });
    assert_eq!(statuses.collect::<Vec<_>>(), [200, 429, 429, 429, 429, 429]);
    // The body comes behind the answer.
    let (head, body) = outside.split_at(outside.len() - inside.len());
    for _ in 0..2 {
        client.send(head);
        assert_eq!(client.answer().status, 429);
        client.send(body);
    }
    client.send("GET /about HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(gate.metric("tollgate_requests_total", ""), 9.0);
}
