//! What stands before the site: models of other limiters, and the engine of this gate with a file.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tollgate::config::{Sources, load};
use tollgate::engine::{Decision, Engine};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::key::KeyHasher;
use tollgate::policy::response::ResponseView;
use tollgate::time::{Clock, Time};

use super::site::{Entrance, Try};
use super::{SEED, START};
use crate::signins::rules::{MINUTE, SECOND};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    /// For so many nanoseconds, if the client comes again then.
    Refused {
        wait: u64,
    },
}

pub(super) trait Limiter {
    fn decide(&mut self, one: &Try, now: u64) -> Verdict;
}

/// The site alone.
pub(super) struct Nothing;

impl Limiter for Nothing {
    fn decide(&mut self, _: &Try, _: u64) -> Verdict {
        Verdict::Admitted
    }
}

/// `limit_req zone=... rate=2r/m burst=9 nodelay` by `$binary_remote_addr`, on the form: a leaky bucket of ten.
#[derive(Default)]
pub(super) struct NginxLike(HashMap<IpAddr, u64>);

impl Limiter for NginxLike {
    fn decide(&mut self, one: &Try, now: u64) -> Verdict {
        if one.entrance == Entrance::Mail {
            return Verdict::Admitted;
        }
        let empty_at = self.0.entry(one.from).or_insert(now);
        let level = empty_at.saturating_sub(now);
        if level > 9 * 30 * SECOND {
            return Verdict::Refused { wait: level - 9 * 30 * SECOND };
        }
        *empty_at = now + level + 30 * SECOND;
        Verdict::Admitted
    }
}

/// `maxretry = 5`, `findtime = 10m`, `bantime = 10m`, a second behind the log: it bans an address for everything.
#[derive(Default)]
pub(super) struct Fail2banLike {
    failures: HashMap<IpAddr, VecDeque<u64>>,
    banned_from: HashMap<IpAddr, u64>,
}

impl Limiter for Fail2banLike {
    fn decide(&mut self, one: &Try, now: u64) -> Verdict {
        let ban = self.banned_from.get(&one.from).copied().filter(|from| now >= *from);
        if let Some(from) = ban {
            if now < from + 10 * MINUTE {
                return Verdict::Refused { wait: from + 10 * MINUTE - now };
            }
            self.banned_from.remove(&one.from);
        }
        if !one.is_right {
            let failures = self.failures.entry(one.from).or_default();
            failures.push_back(now);
            failures.retain(|at| now - at < 10 * MINUTE);
            if failures.len() >= 5 {
                failures.clear();
                self.banned_from.insert(one.from, now + SECOND);
            }
        }
        Verdict::Admitted
    }
}

/// The engine by a file, before an application that answers 302 or 207 to a right password and 401 to a wrong one.
pub(super) struct Tollgate {
    engine: Engine,
    clock: Clock,
    cookies: HashMap<u64, HeaderValue>,
}

impl Tollgate {
    pub(super) fn of(text: &str) -> Self {
        let loaded = load(&Sources::from_text("month.toml", text));
        let policy = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)).policy;
        let clock = Clock::manual(Time::from_nanos(START));
        let engine = Engine::new(policy, 500_000, clock.clone(), Events::default()).unwrap();
        Self { engine: engine.with_hasher(KeyHasher::seeded(SEED)), clock, cookies: HashMap::new() }
    }
}

impl Limiter for Tollgate {
    fn decide(&mut self, one: &Try, now: u64) -> Verdict {
        let now = Time::from_nanos(now);
        self.clock.set(now);
        let Request { method, path, headers, body } = Request::of(one, self.cookies.get(&one.client));
        let attempt = Attempt {
            method: &method,
            path,
            query: None,
            host: "example.org",
            client: Client::from_ip(one.from),
            headers: &headers,
            body: AttemptBody::Whole(body.as_bytes()),
            descriptor: None,
            tls: None,
        };
        let rules = self.engine.rules().clone();
        match self.engine.decide_in_memory(&rules, &attempt, now).unwrap() {
            Decision::Refused(refusal) => {
                Verdict::Refused { wait: refusal.wait.map_or(u64::MAX, |wait| wait.as_nanos()) }
            }
            Decision::Admitted(reservation) => {
                let (status, headers) = answer(one);
                let response = ResponseView { method: &method, status, headers: &headers };
                let judged = rules.policy.routes[reservation.route()].rules.by_head(&response).unwrap();
                let settled = (judged, self.engine.time());
                let cookie = reservation.settle_and_claim(&self.engine, &rules, settled, false);
                if let Some(cookie) = cookie.filter(|_| one.client > 0 && one.entrance == Entrance::Form) {
                    let pair = cookie.to_str().unwrap().split(';').next().unwrap();
                    self.cookies.insert(one.client, pair.parse().unwrap());
                }
                Verdict::Admitted
            }
            other => unreachable!("{other:?}"),
        }
    }
}

struct Request {
    method: Method,
    path: &'static str,
    headers: HeaderMap,
    body: String,
}

impl Request {
    fn of(one: &Try, cookie: Option<&HeaderValue>) -> Self {
        let (user, password) = (format!("user{}", one.account), format!("password{}", one.password));
        let mut headers = HeaderMap::new();
        headers.extend(cookie.map(|cookie| (http::header::COOKIE, cookie.clone())));
        if one.entrance == Entrance::Mail {
            let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            headers.insert("authorization", basic.parse().unwrap());
            let method = Method::from_bytes(b"PROPFIND").unwrap();
            return Self { method, path: "/dav/inbox", headers, body: String::new() };
        }
        headers.insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
        let body = format!("username={user}&password={password}");
        Self { method: Method::POST, path: "/login", headers, body }
    }
}

fn answer(one: &Try) -> (StatusCode, HeaderMap) {
    let mut headers = HeaderMap::new();
    let status = match (one.is_right, one.entrance) {
        (false, _) => StatusCode::UNAUTHORIZED,
        (true, Entrance::Mail) => StatusCode::MULTI_STATUS,
        (true, Entrance::Form) => {
            headers.insert("location", HeaderValue::from_static("/home"));
            StatusCode::FOUND
        }
    };
    (status, headers)
}

/// What `init` writes for a preset and `--device`, with the routes of this site in the place of the preset's.
pub(super) fn written_by_init() -> String {
    let arguments = ["init", "-", "--preset", "tomcat", "--device"];
    let output = Command::new(support::binary()).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["\npreset = \"tomcat\"\n", "\"${file:device.keys}\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    text.replace("preset = \"tomcat\"\n", ROUTES).replace("${file:device.keys}", &"k".repeat(40))
}

/// The same where answers to mail programs prove nothing.
pub(super) fn without_mail_successes() -> String {
    written_by_init().replace("{ status = 207 }]\n", "]\nneutral = { status = 207 }\n")
}

/// The same in front of the directory of `signins::directory`.
pub(super) fn with_directory() -> String {
    written_by_init() + "\n[limit.directory]\ndirectory = \"10 per 30m\"\n"
}

const ROUTES: &str = "\
match = [\"POST /login\", \"ANY /dav/**\"]
user = [\"form:username\", \"basic\"]
password = [\"form:password\", \"basic\"]
success = [{ status = 302, location = \"/home*\" }, { status = 207 }]
otherwise = \"failure\"
";
