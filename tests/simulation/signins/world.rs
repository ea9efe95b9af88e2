//! Days in the life of a gate that knows what a sign-in is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use tollgate::engine::{self, Decision, Engine, LimitStatus, Refusal, Reservation};
use tollgate::event::Events;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::key::KeyHasher;
use tollgate::policy::outcome::Outcome;
use tollgate::policy::{ChargeOn, LimitKind, OwnerClaim, Unit};
use tollgate::time::{Clock, Time};

use crate::signins::ledger::{Entry, Ledger};
use crate::signins::people::{Habit, Person, Request};
use crate::signins::rules::{DAY, Drawn, HOUR, Owner, Rules, SECOND, SECRET};
use support::dice::Dice;

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    engine: Engine,
    clock: Clock,
    start: u64,
    now: u64,
    rules: Rules,
    people: Vec<Person>,
    ledger: Ledger,
    /// What was tried in a bucket that counts things once.
    tried: HashSet<(Owner, String)>,
    open: BTreeMap<u64, Open>,
    agenda: BinaryHeap<Reverse<(u64, u64, Next)>>,
    steps: u64,
    /// For each person: under how many reloads he was told to come now.
    told: Vec<Option<u64>>,
    /// Until when what a change of the rules has kept of him may be missing.
    excused: Vec<u64>,
    pub(crate) seen: Seen,
}

/// What happened, so that a run in which nothing did is noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) kept: u64,
    pub(crate) undone: u64,
    /// Settled under other rules than they were decided by.
    pub(crate) late: u64,
    pub(crate) known: u64,
    pub(crate) obeyed: u64,
    /// Refused because too much was on its way.
    pub(crate) busy: u64,
    pub(crate) reloads: u64,
    pub(crate) forgotten: u64,
    digest: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Attempt(usize),
    Settle(u64),
    Reload,
    Audit,
}

/// An attempt on its way.
struct Open {
    who: usize,
    reservation: Box<Reservation>,
    by: Arc<engine::Rules>,
    reloads: u64,
    outcome: Option<Outcome>,
    entries: Vec<(Entry, Drawn)>,
    /// The cap that is lifted if the account signs in.
    cap: Option<(Owner, Drawn)>,
    had_device: bool,
}

impl World {
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        let mut dice = Dice::new(seed);
        let start = 1_800_000_000 * SECOND + dice.within(0..DAY);
        let (clock, rules, people) =
            (Clock::manual(Time::from_nanos(start)), Rules::drawn(&mut dice), Person::all());
        let engine = Engine::new(rules.policy(), capacity, clock.clone(), Events::default()).unwrap();
        let mut ledger = Ledger::default();
        ledger.rules_from(start, &rules);
        Self {
            seed,
            engine: engine.with_hasher(KeyHasher::seeded(seed)),
            clock,
            start,
            now: start,
            rules,
            ledger,
            tried: HashSet::new(),
            open: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            steps: 0,
            told: vec![None; people.len()],
            excused: vec![0; people.len()],
            people,
            seen: Seen::default(),
            dice,
        }
    }

    /// Lets so many days pass.
    pub(crate) fn run(&mut self, days: u64) {
        for who in 0..self.people.len() {
            let at = self.now + self.dice.within(0..4 * HOUR);
            self.put(at, Next::Attempt(who));
        }
        let first = self.now + self.dice.within(HOUR..DAY);
        self.put(first, Next::Reload);
        self.put(self.now + DAY, Next::Audit);
        while let Some(Reverse((at, _, next))) = self.agenda.pop()
            && at <= self.start + days * DAY
        {
            self.now = at;
            self.clock.set(Time::from_nanos(at));
            match next {
                Next::Attempt(who) => self.attempt(who),
                Next::Settle(number) => self.settle(number),
                Next::Reload => self.reload(),
                Next::Audit => {
                    self.audit();
                    self.put(at + DAY, Next::Audit);
                }
            }
        }
    }

    fn put(&mut self, at: u64, next: Next) {
        self.steps += 1;
        self.agenda.push(Reverse((at, self.steps, next)));
    }

    fn attempt(&mut self, who: usize) {
        let request = self.people[who].request(&mut self.dice);
        let cookie = self.people[who].device.clone();
        let headers = headers(&request, cookie.as_ref().map(|(cookie, _)| &**cookie));
        let attempt = Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "example.org",
            client: Client::from_ip(request.address.into()),
            headers: &headers,
            body: AttemptBody::Whole(b""),
            descriptor: None,
            tls: None,
        };
        let rules = Arc::clone(&self.engine.rules());
        // To look costs as much as to decide.
        let before = self.dice.once_in(4).then(|| self.engine.peek(&rules, &attempt).unwrap().1);
        let ruling = self.engine.decide_in_memory(&rules, &attempt, Time::from_nanos(self.now)).unwrap();
        // A cookie is about the account that the browser has signed in to, and about no other.
        let own = format!("p{}", self.people[who].number);
        let device = cookie.map(|(_, device)| device).filter(|_| request.account == own);
        let told = self.told[who].take().filter(|reloads| *reloads == self.seen.reloads);
        let pause = self.people[who].pause(&mut self.dice);
        let is_one_at_a_time = !matches!(
            self.people[who].habit,
            Habit::Parallel | Habit::Insider | Habit::Stuffing | Habit::Spraying | Habit::Mob
        );
        match ruling {
            Decision::Uncounted | Decision::Denied | Decision::RefusedByDefence(_) => {
                self.broken("the route was not found")
            }
            Decision::Admitted(reservation) => {
                self.seen.admitted += 1;
                self.seen.known += u64::from(device.is_some());
                self.seen.obeyed += u64::from(told.is_some());
                let takes = request.takes;
                self.admitted(who, &request, device.as_deref(), reservation, rules);
                let wait = if is_one_at_a_time { takes } else { 0 };
                self.put(self.now + wait + pause, Next::Attempt(who));
            }
            Decision::Refused(refusal) => {
                self.seen.refused += 1;
                if let Some(before) = before {
                    self.demand_nothing_taken(&before, &self.engine.peek(&rules, &attempt).unwrap().1);
                }
                if told.is_some() {
                    self.broken(&format!("{who} came as told and was refused: {refusal:?}"));
                }
                self.demand_a_reason(who, &request, device.as_deref(), &refusal);
                let wait = refusal.wait.map_or(DAY * 365, |wait| wait.as_nanos());
                if self.people[who].habit == Habit::Fumbling && wait < 2 * DAY {
                    self.told[who] = Some(self.seen.reloads);
                    self.put(self.now + wait, Next::Attempt(who));
                } else {
                    self.put(self.now + pause, Next::Attempt(who));
                }
            }
        }
    }

    /// Each standing with the bucket that it has to be about.
    fn owners(
        &mut self,
        standings: &[LimitStatus],
        request: &Request,
        device: Option<&str>,
    ) -> Vec<(Owner, Drawn)> {
        let address = request.address.to_string();
        let of = |drawn: &Drawn| Some((drawn.owner(&address, &request.account, device)?, *drawn));
        let expected: Vec<_> = self.rules.0.iter().filter_map(of).collect();
        if expected.len() != standings.len() {
            self.broken(&format!("charged to {standings:?} instead of {expected:?}"));
        }
        for ((owner, drawn), standing) in expected.iter().zip(standings) {
            let key = standing.charge.key;
            let limit = &self.engine.rules().policy.limits[standing.charge.limit];
            let is_meant = (&*limit.name, limit.kind) == (drawn.name, drawn.facet);
            if !is_meant || !self.ledger.is_his(owner, key) {
                self.broken(&format!("{owner:?} is charged to another owner's bucket: {standing:?}"));
            }
        }
        expected
    }

    fn admitted(
        &mut self,
        who: usize,
        request: &Request,
        device: Option<&str>,
        reservation: Box<Reservation>,
        by: Arc<engine::Rules>,
    ) {
        let owners = self.owners(&reservation.statuses, request, device);
        let mut entries = Vec::new();
        for ((owner, drawn), standing) in owners.iter().zip(&reservation.statuses) {
            let word = standing.verdict.full_at.as_nanos();
            self.seen.digest = (self.seen.digest ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(29);
            if drawn.facet == LimitKind::Escalation {
                continue;
            }
            let tokens = standing.verdict.receipt.tokens;
            let thing = match drawn.unit {
                Unit::Attempts => String::new(),
                Unit::Users => request.account.clone(),
                Unit::Passwords => request.password.clone(),
                Unit::Clients => request.address.to_string(),
            };
            let is_new = self.tried.insert((owner.clone(), thing));
            let may_be_free = drawn.unit != Unit::Attempts && !is_new;
            if tokens > 1 || tokens == 0 && !may_be_free {
                self.broken(&format!("{owner:?} paid {tokens}"));
            }
            let is_final = drawn.spends == ChargeOn::Attempts;
            let entry = self.ledger.take(owner.clone(), self.now, tokens, is_final);
            entries.push((entry, *drawn));
        }
        let cap = self.rules.0.iter().find(|drawn| drawn.facet == LimitKind::Cap).copied();
        let cap = cap.and_then(|drawn| Some((drawn.owner("", &request.account, None)?, drawn)));
        let (outcome, reloads, had_device) = (request.outcome, self.seen.reloads, device.is_some());
        let number = self.steps;
        let open = Open { who, reservation, by, reloads, outcome, entries, cap, had_device };
        self.open.insert(number, open);
        self.put(self.now + request.takes, Next::Settle(number));
    }

    fn settle(&mut self, number: u64) {
        let open = self.open.remove(&number).unwrap();
        let claim = open.reservation.claim().cloned();
        self.seen.late += u64::from(open.reloads != self.seen.reloads);
        match open.outcome {
            // Neither settled nor given back: the charge stays.
            None if self.dice.once_in(2) => drop(open.reservation),
            None => open.reservation.settle(&self.engine, &open.by, Outcome::Failure),
            Some(outcome) => open.reservation.settle(&self.engine, &open.by, outcome),
        }
        let is_kept = matches!(open.outcome, None | Some(Outcome::Failure));
        self.seen.kept += u64::from(is_kept);
        self.seen.undone += u64::from(!is_kept);
        for (entry, _) in &open.entries {
            // Of a limit that was changed meanwhile nothing comes back.
            let is_lost = !self.ledger.is_unchanged(entry);
            if is_lost && !is_kept {
                let memory = self.rules.memory();
                self.excused[open.who] = self.excused[open.who].max(self.now + memory);
            }
            self.ledger.settle(entry, self.now, is_kept || is_lost);
        }
        if open.outcome != Some(Outcome::Success) {
            return;
        }
        if let Some((owner, drawn)) = open.cap
            && self.ledger.is_unchanged_since(&owner, drawn, open.reloads)
        {
            self.ledger.reset(owner, self.now);
        }
        self.remember(open.who, &*claim.unwrap(), open.had_device);
    }

    /// The browser takes the cookie. Its device is drawn by lot when it is new, so that the same seed is the same run.
    fn remember(&mut self, who: usize, claim: &dyn OwnerClaim, had_device: bool) {
        let set = claim.grant(Time::from_nanos(self.now), false).unwrap();
        let text = set.to_str().unwrap();
        let token = text.strip_prefix("known=").and_then(|text| text.split(';').next()).unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
        if !had_device {
            for byte in &mut bytes[22..38] {
                *byte = u8::try_from(self.dice.within(0..256)).unwrap();
            }
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
            for part in [b"tollgate device: token", &bytes[..38]] {
                mac.update(&(part.len() as u64).to_be_bytes());
                mac.update(part);
            }
            let seal = mac.finalize().into_bytes();
            bytes[38..].copy_from_slice(&seal);
        }
        let device = URL_SAFE_NO_PAD.encode(&bytes[22..38]);
        self.people[who].device = Some((format!("known={}", URL_SAFE_NO_PAD.encode(&bytes)), device));
    }

    fn demand_nothing_taken(&self, before: &[LimitStatus], after: &[LimitStatus]) {
        for (before, after) in before.iter().zip(after) {
            let of = |standing: &LimitStatus| (standing.verdict.left, standing.verdict.full_at);
            let is_row = matches!(before.charge.spec, tollgate::bucket::Spec::Escalation(_));
            if !is_row && of(before) != of(after) {
                self.broken(&format!("a refused attempt took something: {before:?}, then {after:?}"));
            }
        }
    }

    /// A person who only signs in with the right password, from an own address and by a known device or to an account
    /// that no other tries, is refused by a limit on failures only if too many of their own attempts are in flight.
    fn demand_a_reason(&mut self, who: usize, request: &Request, device: Option<&str>, refusal: &Refusal) {
        let owners = self.owners(&refusal.statuses, request, device);
        let is_alone = self.people[who].habit != Habit::Besieged || device.is_some();
        if !self.people[who].is_right() || !is_alone || self.excused[who] > self.now {
            return;
        }
        for ((owner, drawn), standing) in owners.iter().zip(&refusal.statuses) {
            if !standing.refuses() || drawn.spends == ChargeOn::Attempts {
                continue;
            }
            if self.people[who].habit != Habit::Parallel || !self.ledger.is_busy(owner, self.now) {
                self.broken(&format!("{who} did nothing wrong and was refused by {owner:?}: {standing:?}"));
            }
            self.seen.busy += 1;
        }
    }

    fn reload(&mut self) {
        self.seen.reloads += 1;
        let memory = self.rules.memory();
        self.rules = self.rules.edited(&mut self.dice);
        self.engine.replace(self.rules.policy()).unwrap();
        self.ledger.rules_from(self.now, &self.rules);
        // What is on its way is scaled with the rest, and what comes of it does not come back.
        let until = self.now + memory.max(self.rules.memory());
        for (person, excused) in self.people.iter().zip(&mut self.excused) {
            if person.habit == Habit::Parallel
                || self.open.values().any(|open| open.who as u64 == person.number)
            {
                *excused = until;
            }
        }
        let pause = self.dice.within(SECOND..DAY);
        self.put(self.now + pause, Next::Reload);
    }

    fn audit(&mut self) {
        let rules = self.engine.rules();
        let forgotten = |name: &str| rules.buckets(name).map_or(0, |buckets| buckets.forgotten());
        let mut all = self
            .rules
            .0
            .iter()
            .filter(|drawn| drawn.facet == LimitKind::Rate)
            .map(|drawn| forgotten(drawn.name));
        self.seen.forgotten = all.by_ref().sum();
        for (name, (count, words)) in self.ledger.audit() {
            if count > forgotten(name) {
                self.broken(&format!("{count} times, of {} forgotten: {words}", forgotten(name)));
            }
        }
    }

    fn broken(&self, what: &str) -> ! {
        let (seed, step) = (self.seed, self.steps);
        panic!("step {step} broke a promise (SEED={seed} cargo test --test simulation signins): {what}")
    }
}

fn headers(request: &Request, cookie: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-user", request.account.parse().unwrap());
    headers.insert("x-password", request.password.parse().unwrap());
    if let Some(cookie) = cookie {
        headers.insert("cookie", cookie.parse().unwrap());
    }
    headers
}
