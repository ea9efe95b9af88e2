//! A directory that locks accounts, behind the gate under attack for a month.
//!
//! The directory is a model of Active Directory's policy: a threshold, a window since the last failure, a lock that ends,
//! and a success that forgets failures. The same month runs with a bucket that holds one less than the threshold and
//! refills within the window: then the directory locks.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tollgate::config::{Sources, load};
use tollgate::engine::{self, Decision, Engine, Reservation};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::key::KeyHasher;
use tollgate::policy::response::ResponseView;
use tollgate::time::{Clock, Time};

use crate::signins::rules::{DAY, HOUR, MINUTE, SECOND};
use support::dice::Dice;

const THRESHOLD: u32 = 10;
const WINDOW: u64 = 30 * MINUTE;
const PEOPLE: u64 = 3;
const DAYS: u64 = 30;
/// The day on which the first of them changes the password, and a telephone does not know.
const CHANGE: u64 = 10;
const START: u64 = 1_800_230_400_000_000_000;

const SITE: &str = r#"
listen = "http://[::]:80"
upstream = "http://127.0.0.1:81"

[route.form]
match = "POST /login"
user = "form:username"
password = "form:password"
success = { status = 302, location = "/home*" }
failure = { status = 401 }
repeats = "free"

[route.mail]
match = "ANY /dav/**"
user = "basic"
password = "basic"
success = { status = 207 }
failure = { status = 401 }
repeats = "free"

[device]
secret = "a secret that is none, for simulations only"
addresses = true

[limit.directory]
"#;

/// The policy of a directory, and what it knows of its accounts.
#[derive(Debug, Default)]
pub(super) struct Directory {
    accounts: HashMap<u64, Counted>,
    pub(super) locks: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    failures: u32,
    last: u64,
    locked_until: u64,
}

impl Directory {
    /// Whether the account is signed in.
    pub(super) fn bind(&mut self, account: u64, is_right: bool, at: u64) -> bool {
        let counted = self.accounts.entry(account).or_default();
        if at < counted.locked_until {
            return false;
        }
        if is_right {
            counted.failures = 0;
            return true;
        }
        counted.failures = if at > counted.last + WINDOW { 1 } else { counted.failures + 1 };
        counted.last = at;
        if counted.failures >= THRESHOLD {
            (counted.locked_until, counted.failures) = (at + WINDOW, 0);
            self.locks += 1;
        }
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Attacker,
    /// The owner, in a browser or with a mail program that has signed in before.
    Known,
    /// The owner, somewhere else.
    New,
    /// The owner's telephone, with an old password.
    Stale,
}

struct Try {
    at: u64,
    who: Who,
    account: u64,
    name: String,
    from: Ipv4Addr,
    by_mail: bool,
    is_right: bool,
    /// Distinguishes guesses.
    password: u64,
    /// How long the application takes.
    takes: u64,
}

/// What happened, so that a month in which nothing did is noticed.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    guesses: u32,
    known: u32,
    known_refused: u32,
    new: u32,
    new_refused: u32,
    /// Right passwords of owners that the directory did not take.
    locked_out: u32,
    locks: u32,
}

/// An attempt at the application.
struct UnderWay {
    tried: Try,
    reservation: Box<Reservation>,
    by: Arc<engine::Rules>,
}

struct Month {
    engine: Engine,
    clock: Clock,
    directory: Directory,
    under_way: BTreeMap<(u64, usize), UnderWay>,
    cookies: HashMap<u64, HeaderValue>,
    dice: Dice,
    tally: Tally,
}

impl Month {
    fn of(limit: &str) -> Self {
        let loaded = load(&Sources::from_text("directory.toml", &format!("{SITE}{limit}")));
        let policy = loaded.config.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)).policy;
        let clock = Clock::manual(Time::from_nanos(START));
        let engine = Engine::new(policy, 100_000, clock.clone(), Events::default()).unwrap();
        Self {
            engine: engine.with_hasher(KeyHasher::seeded(1)),
            clock,
            directory: Directory::default(),
            under_way: BTreeMap::new(),
            cookies: HashMap::new(),
            dice: Dice::new(1),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        let mut number = 0;
        for day in 0..DAYS {
            let mut tries = Vec::new();
            for account in 0..PEOPLE {
                self.own(account, day, &mut tries);
                if day > 0 {
                    self.attacks(account, &mut tries);
                }
            }
            tries.sort_by_key(|tried| tried.at);
            for tried in tries {
                let at = START + day * DAY + tried.at;
                self.answer_until(at);
                self.decide(tried, at, number);
                number += 1;
            }
        }
        self.answer_until(u64::MAX);
        Tally { locks: self.directory.locks, ..self.tally }
    }

    /// What the owner of an account does in a day.
    fn own(&mut self, account: u64, day: u64, tries: &mut Vec<Try>) {
        let home = Ipv4Addr::new(198, 51, 100, u8::try_from(account).unwrap());
        let user = format!("user{account}");
        let known = |at, by_mail, is_right| Try {
            at,
            who: Who::Known,
            account,
            name: user.clone(),
            from: home,
            by_mail,
            is_right,
            password: at,
            takes: SECOND / 5,
        };
        for _ in 0..6 {
            let at = self.dice.within(8 * HOUR..18 * HOUR);
            let mistakes = if self.dice.once_in(10) { self.dice.within(1..3) } else { 0 };
            tries.extend((0..mistakes).map(|number| known(at + number * 20 * SECOND, false, false)));
            tries.push(known(at + MINUTE, false, true));
        }
        tries.extend((0..12).map(|number| known(7 * HOUR + number * HOUR, true, true)));
        if day % 3 == 2 {
            let from = Ipv4Addr::from(0xc633_6500 + self.dice.tokens(1..255));
            tries.push(Try {
                who: Who::New,
                from,
                ..known(self.dice.within(8 * HOUR..20 * HOUR), false, true)
            });
        }
        if account == 0 && day == CHANGE {
            let stale =
                |number: u64| Try { who: Who::Stale, ..known(HOUR + number * 15 * MINUTE, true, false) };
            tries.extend((0..48).map(|number| Try { password: 0, ..stale(number) }));
        }
    }

    /// Guesses all day, a guess just before each window ends, and guesses at once that are under way for long.
    fn attacks(&mut self, account: u64, tries: &mut Vec<Try>) {
        let mut add = |dice: &mut Dice, at: u64, takes| {
            let name = match dice.within(0..4) {
                0 => format!("user{account}"),
                1 => format!("CORP\\user{account}"),
                2 => format!("USER{account}@corp.example"),
                _ => format!("elsewhere/User{account}"),
            };
            let (from, by_mail) = (Ipv4Addr::from(0xcb00_0000 + dice.tokens(0..10_000)), dice.once_in(2));
            // Half of the attackers repeat one request.
            let password = if dice.once_in(2) { 1 } else { dice.number() };
            let who = Who::Attacker;
            tries.push(Try { at, who, account, name, from, by_mail, is_right: false, password, takes });
        };
        for number in 0..DAY / (4 * MINUTE) {
            let at = 4 * number * MINUTE + self.dice.within(0..4 * MINUTE);
            add(&mut self.dice, at, SECOND);
        }
        for number in 0..DAY / (WINDOW - SECOND) {
            add(&mut self.dice, number * (WINDOW - SECOND), SECOND / 10);
        }
        for _ in 0..4 {
            let at = self.dice.within(0..DAY);
            for _ in 0..30 {
                let takes = self.dice.within(SECOND..20 * MINUTE);
                add(&mut self.dice, at, takes);
            }
        }
    }

    fn decide(&mut self, tried: Try, at: u64, number: usize) {
        self.clock.set(Time::from_nanos(at));
        let cookie = (tried.who == Who::Known).then(|| self.cookies.get(&tried.account)).flatten();
        let Request { method, path, headers, body } = Request::of(&tried, cookie);
        let attempt = Attempt {
            method: &method,
            path,
            query: None,
            host: "example.org",
            client: Client::from_ip(IpAddr::V4(tried.from)),
            headers: &headers,
            body: AttemptBody::Whole(body.as_bytes()),
            descriptor: None,
            tls: None,
        };
        let by = Arc::clone(&self.engine.rules());
        let decision = self.engine.decide_in_memory(&by, &attempt, Time::from_nanos(at)).unwrap();
        match decision {
            Decision::Refused(_) => self.count(&tried, true),
            Decision::Admitted(reservation) => {
                self.count(&tried, false);
                self.under_way.insert((at + tried.takes, number), UnderWay { tried, reservation, by });
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn count(&mut self, tried: &Try, is_refused: bool) {
        let refused = u32::from(is_refused);
        match tried.who {
            Who::Attacker => self.tally.guesses += 1 - refused,
            Who::Known if tried.is_right => {
                self.tally.known += 1;
                self.tally.known_refused += refused;
            }
            Who::New => {
                self.tally.new += 1;
                self.tally.new_refused += refused;
            }
            Who::Known | Who::Stale => {}
        }
    }

    fn answer_until(&mut self, now: u64) {
        while let Some(entry) = self.under_way.first_entry() {
            let (at, _) = *entry.key();
            if at > now {
                break;
            }
            let UnderWay { tried, reservation, by } = entry.remove();
            self.clock.set(Time::from_nanos(at));
            let is_signed_in = self.directory.bind(tried.account, tried.is_right, at);
            self.tally.locked_out += u32::from(tried.is_right && !is_signed_in);
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, HeaderValue::from_static("/home"));
            let status = match (is_signed_in, tried.by_mail) {
                (false, _) => StatusCode::UNAUTHORIZED,
                (true, true) => StatusCode::MULTI_STATUS,
                (true, false) => StatusCode::FOUND,
            };
            let response = ResponseView { method: &Method::POST, status, headers: &headers };
            let judged = by.policy.routes[reservation.route()].rules.by_head(&response).unwrap();
            let settled = (judged, self.engine.time());
            let cookie = reservation.settle_and_claim(&self.engine, &by, settled, false);
            if let Some(cookie) = cookie.filter(|_| tried.who == Who::Known && !tried.by_mail) {
                let pair = cookie.to_str().unwrap().split(';').next().unwrap();
                self.cookies.insert(tried.account, pair.parse().unwrap());
            }
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
    fn of(tried: &Try, cookie: Option<&HeaderValue>) -> Self {
        let (user, password) = (&tried.name, tried.password);
        let mut headers = HeaderMap::new();
        if tried.by_mail {
            let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            headers.insert(AUTHORIZATION, basic.parse().unwrap());
            let method = Method::from_bytes(b"PROPFIND").unwrap();
            return Self { method, path: "/dav/inbox", headers, body: String::new() };
        }
        headers.extend(cookie.map(|cookie| (COOKIE, cookie.clone())));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let user = user.replace('\\', "%5C").replace('@', "%40").replace('/', "%2F");
        let body = format!("username={user}&password={password}");
        Self { method: Method::POST, path: "/login", headers, body }
    }
}

/// No schedule of guesses locks an account, and owners get in where they have been before.
#[test]
fn a_directory_locks_no_account_in_a_month_of_attacks_on_two_routes() {
    let tally = Month::of("directory = \"10 per 30m\"\n").run();
    println!("{tally:?}");
    assert_eq!((tally.locks, tally.locked_out), (0, 0), "{tally:?}");
    assert!(tally.guesses > 1000 && tally.known > 1500 && tally.new > 20, "{tally:?}");
    // Those of the day on which the telephone has the old password.
    assert!(tally.known_refused * 50 < tally.known, "{tally:?}");
}

/// What a rate of one less than the threshold would do.
#[test]
fn a_directory_locks_accounts_behind_a_bucket_that_refills_within_its_window() {
    let tally = Month::of("key = \"user\"\nrate = \"9 per 30m\"\ncount = \"failures\"\n").run();
    println!("{tally:?}");
    assert!(tally.locks > 100, "{tally:?}");
}
