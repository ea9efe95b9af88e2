//! Days of a gate on a simulated clock: its engine decides, and its own writers write the decision log and the audit log.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use tollgate::config::{Sources, load};
use tollgate::engine::{Decision, Engine};
use tollgate::event::{
    AccessLogEntry, AttemptEnd, AttemptRecord, Event, EventListener, Events, LimitDecision, WiringSigns,
};
use tollgate::observe::audit::gate_lines::{BEGUN, ENDED, SERVES, STORE_BACK, STORE_LOST};
use tollgate::observe::audit::{AuditEntry, AuditLog};
use tollgate::observe::client_format::ClientFormatter;
use tollgate::observe::decision_log::{DecisionLines, TollgateForm};
use tollgate::observe::line_log::LineLog;
use tollgate::observe::metrics::Metrics;
use tollgate::observe::settings::{ClientsShown, LogTarget};
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::key::PrefixLengths;
use tollgate::policy::outcome::Outcome;
use tollgate::time::{Clock, Span, Time};

use serde_json::json;
use support::dice::Dice;
use support::{Folder, eventually};

pub(super) const CONFIG: &str = r#"
listen = "http://[::]:8080"
upstream = "http://127.0.0.1:9"

[route.login]
match = "POST /login"
user = "form:user"
success = { status = 302 }

[limit.address]
rate = "10 per 5m"

[limit.account]
key = "user"
rate = "1 per 3m burst 10"
count = "failures"
max_failures = 10

[store]
snapshot = "buckets"

[log]
decisions = "decisions.log"

[admin]
listen = "http://127.0.0.1:9180"
audit = "audit.log"
"#;

/// Logs of some days that end now, and what happened.
pub(super) struct SimulatedDays {
    pub(super) folder: Folder,
    pub(super) attempts: Vec<SeenAttempt>,
    /// Changes of operators: when, who, what, at which account.
    pub(super) changes: Vec<(Time, &'static str, &'static str, u64)>,
    /// Times without a gate, and whether its end was announced.
    pub(super) gaps: Vec<(Time, Time, bool)>,
    pub(super) outages: usize,
}

/// An attempt as the gate decided it.
#[derive(Debug, Clone)]
pub(super) struct SeenAttempt {
    pub(super) at: Time,
    pub(super) client: [u8; 4],
    pub(super) account: u64,
    pub(super) verdicts: Vec<(String, LimitDecision)>,
    pub(super) outcome: Option<Outcome>,
}

/// The gate, and what is open of it.
struct SimulatedGate {
    engine: Engine,
    clock: Clock,
    log: LineLog,
    audit: AuditLog,
    process: u32,
    lines: u64,
    told: u64,
    days: SimulatedDays,
}

impl SimulatedDays {
    /// So many days. The first one has no attempt around the time of day at which they end.
    pub(super) fn run(days: u64, seed: u64) -> Self {
        let end = Clock::system().now();
        let start = end.before(DAY.times(days));
        let (mut gate, mut dice) = (SimulatedGate::begin(start), Dice::new(seed));
        for day in 0..days {
            let morning = start.after(DAY.times(day));
            gate.live(morning, day, &mut dice);
            match day % 30 {
                // A gate tells every hour; here less often, because each time waits for its writer.
                // A planned end for three hours, with a rotated log.
                11 => gate.restart(morning.after(HOUR.times(20)), HOUR.times(3), true),
                // A crash, found two and a half hours later.
                17 => gate.restart(morning.after(HOUR.times(20)), Span::from_secs(9000), false),
                last if last % 6 == 0 => gate.tell(morning.after(HOUR.times(20)), SERVES),
                _ => {}
            }
        }
        gate.finish(end)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }
}

impl SimulatedGate {
    fn begin(start: Time) -> Self {
        let folder = Folder::new();
        fs::write(folder.0.join("config.toml"), CONFIG).unwrap();
        let config = load(&Sources::from_text("config.toml", CONFIG)).config.unwrap();
        let clock = Clock::manual(start);
        let engine = Engine::new(config.policy, 10_000, clock.clone(), Events::default()).unwrap();
        let audit = AuditLog::open(folder.0.join("audit.log"), "gate-1".to_owned()).unwrap();
        let log = open_log(&folder, &clock);
        let days =
            SimulatedDays { folder, attempts: Vec::new(), changes: Vec::new(), gaps: Vec::new(), outages: 0 };
        let gate = Self { engine, clock, log, audit, process: 1, lines: 0, told: 0, days };
        gate.say(AuditEntry::of_gate(BEGUN, 1, json!({ "config": "0011", "version": "1" })), start);
        gate
    }

    /// A day of people and attackers, between its second and its nineteenth hour.
    fn live(&mut self, morning: Time, day: u64, dice: &mut Dice) {
        let mut agenda: Vec<(Time, [u8; 4], String, bool)> = Vec::new();
        for person in 0..12_u8 {
            let at = morning.after(HOUR.times(2)).after(Span::from_secs(dice.within(0..17 * 3600)));
            // Some mistype once or twice before.
            for mistake in 0..dice.within(0..4) {
                let at = at.before(Span::from_millis(20_000 * (mistake + 1) + 7));
                agenda.push((at, [192, 0, 2, person], format!("p{person}"), false));
            }
            agenda.push((at, [192, 0, 2, person], format!("p{person}"), true));
        }
        // One address at all accounts, and forty at one, each at a pace of its own.
        for guess in 0..40_u64 {
            let at = morning.after(HOUR.times(5)).after(Span::from_millis(guess * dice.within(1..40_000)));
            agenda.push((at, [203, 0, 113, 9], format!("p{}", guess % 30), false));
            let at = morning.after(HOUR.times(9)).after(Span::from_millis(guess * 4_321));
            let address = u8::try_from(guess).unwrap();
            agenda.push((at, [198, 51, 100, address], format!("p{}", day % 12), false));
        }
        agenda.sort();
        for (at, address, account, is_right) in agenda {
            self.attempt(at, address, &account, is_right);
        }
        let noon = morning.after(HOUR.times(12));
        if day % 7 == 3 {
            self.change(noon, "desk", "bucket.reset", day % 12);
        }
        if day % 10 == 6 {
            self.change(noon, "admin", "prefix.exempt", 0);
        }
        if day % 45 == 20 {
            self.say(AuditEntry::of_gate(STORE_LOST, self.process, json!({ "why": "refused" })), noon);
            let back = json!({ "why": "", "local": 3, "allow": 0, "deny": 2 });
            self.say(AuditEntry::of_gate(STORE_BACK, self.process, back), noon.after(HOUR));
            self.days.outages += 1;
        }
    }

    fn attempt(&mut self, at: Time, address: [u8; 4], account: &str, is_right: bool) {
        self.clock.set(at);
        let body = format!("user={account}&password=x");
        let headers = HeaderMap::from_iter([(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        )]);
        let client = Client::from_ip(address.into());
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "example.org",
            client,
            headers: &headers,
            body: AttemptBody::Whole(body.as_bytes()),
            descriptor: None,
            tls: None,
        };
        let rules = std::sync::Arc::clone(&self.engine.rules());
        let record = match self.engine.decide_in_memory(&rules, &attempt, at).unwrap() {
            Decision::Admitted(reservation) => {
                let mut record =
                    reservation.attempt.record(&rules, reservation.route(), &reservation.statuses);
                let outcome = if is_right { Outcome::Success } else { Outcome::Failure };
                record.settled = Some(AttemptEnd { outcome, at });
                reservation.settle(&self.engine, &rules, outcome);
                record
            }
            Decision::Refused(refusal) => refusal.attempt.record(&rules, refusal.route, &refusal.statuses),
            other => panic!("{other:?}"),
        };
        self.days.attempts.push(seen(at, address, &record));
        self.lines += u64::try_from(record.limits.len()).unwrap();
        self.log.on_event(&Event::RequestCompleted(&entry(at, client, record)));
    }

    fn change(&mut self, at: Time, who: &'static str, what: &'static str, person: u64) {
        let last = self.days.attempts.iter().rev();
        let account = last.clone().find(|seen| seen.client == [192, 0, 2, u8::try_from(person).unwrap()]);
        let account = account.unwrap().account;
        let target = match what {
            "bucket.reset" => format!("user:#{account:012x}"),
            _ => "192.0.2.0/24".to_owned(),
        };
        let entry = AuditEntry {
            who: who.to_owned(),
            what,
            target: Some(target),
            why: "ticket <7>".to_owned(),
            before: json!([{ "tokens": 0 }]),
            after: json!({ "until": "2026-01-01T00:00:00.000Z" }),
            ..AuditEntry::default()
        };
        self.say(entry, at);
        self.days.changes.push((at, who, what, account));
    }

    fn restart(&mut self, at: Time, pause: Span, is_announced: bool) {
        if is_announced {
            self.tell(at, ENDED);
        } else {
            self.tell(at, SERVES);
        }
        self.log.close();
        let path = self.days.path("decisions.log");
        let rotated = self.days.path(&format!("decisions.log.{}", 100 - self.process));
        fs::rename(&path, &rotated).unwrap();
        if self.process % 2 == 1 {
            assert!(Command::new("gzip").arg(&rotated).status().unwrap().success());
        }
        self.process += 1;
        self.log = open_log(&self.days.folder, &self.clock);
        let back = at.after(pause);
        let begun = json!({ "config": "0011", "version": "1" });
        self.say(AuditEntry::of_gate(BEGUN, self.process, begun), back);
        self.days.gaps.push((at, back, is_announced));
    }

    /// Tells how many lines were written, once they are.
    fn tell(&mut self, at: Time, what: &'static str) {
        let mut written = std::collections::BTreeMap::new();
        let expected = self.lines - self.told;
        assert!(eventually(Duration::from_secs(30), || {
            for (hour, lines) in self.log.take_counts().0 {
                *written.entry(hour).or_default() += lines;
            }
            written.values().sum::<u64>() == expected
        }));
        self.told = self.lines;
        self.say(AuditEntry::of_lines(what, self.process, (&written, 0)), at);
    }

    fn say(&self, entry: AuditEntry, at: Time) {
        self.audit.append(&entry, at).unwrap();
    }

    fn finish(mut self, end: Time) -> SimulatedDays {
        self.tell(end, SERVES);
        self.log.close();
        self.days
    }
}

fn open_log(folder: &Folder, clock: &Clock) -> LineLog {
    let target = LogTarget::File(folder.0.join("decisions.log"));
    let clients = ClientFormatter::new(ClientsShown::Full, PrefixLengths::default());
    let lines = DecisionLines::new(&target, clients, TollgateForm);
    let dropped = Metrics::new().decisions_dropped();
    let log = LineLog::open("decision log", target, lines, dropped, clock.clone()).unwrap();
    log.count_lines();
    log
}

fn seen(at: Time, client: [u8; 4], record: &AttemptRecord) -> SeenAttempt {
    let verdict =
        |limit: &tollgate::event::LimitRecord| (record.limit_name(limit).to_owned(), limit.decision);
    SeenAttempt {
        at,
        client,
        account: record.facts.account.unwrap(),
        verdicts: record.limits.iter().map(verdict).collect(),
        outcome: record.settled.map(|end| end.outcome),
    }
}

fn entry(at: Time, client: Client, record: Box<AttemptRecord>) -> AccessLogEntry {
    AccessLogEntry {
        client,
        is_request: true,
        method: Method::POST,
        target: "/login".parse().unwrap(),
        version: Version::HTTP_11,
        host: None,
        referer: None,
        user_agent: None,
        request_id: None,
        signs: WiringSigns::default(),
        attempt: Some(record),
        span: None,
        status: StatusCode::OK,
        bytes: 0,
        complete: true,
        at,
        duration: Span::ZERO,
        added: Span::ZERO,
    }
}

const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(86_400);
