//! Thirty days in the life of a gate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use http::HeaderMap;
use tollgate::bucket::{Effect, Spec, Verdict};
use tollgate::engine::{Decision, Engine, LimitStatus, LimitStatuses, Reservation};
use tollgate::event::Events;
use tollgate::policy::Mode;
use tollgate::policy::attempt::Attempt;
use tollgate::policy::key::KeyHasher;
use tollgate::time::{Clock, Span, Time};

use crate::clients::{Client, Habit};
use crate::observer::Observer;
use crate::promise::Moment;
use crate::rules::{DAY, HOUR, Owner, Rules};
use support::dice::Dice;
use support::policy::attempt;

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    engine: Engine,
    clock: Clock,
    now: Moment,
    rules: Rules,
    clients: Vec<Client>,
    /// For each obedient client: when it was told to come, for what, and what must not have happened since.
    told: Vec<Option<Told>>,
    observer: Observer,
    headers: HeaderMap,
    pub(crate) seen: Seen,
}

/// What happened, so that a run in which nothing did is noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) attempts: u64,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) observed: u64,
    pub(crate) held: u64,
    pub(crate) obeyed: u64,
    pub(crate) given_back: u64,
    pub(crate) reloads: u64,
    pub(crate) setbacks: u64,
    pub(crate) forgotten: u64,
    /// Of everything that was decided.
    pub(crate) digest: u64,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    wait: Span,
    path: &'static str,
    /// Reloads, setbacks and forgotten buckets by then.
    happened: (u64, u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Attempt(usize),
    Reload,
    Jump,
    Release,
}

impl World {
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        let mut dice = Dice::new(seed);
        let start = Time::from_nanos(1_800_000_000_000_000_000 + dice.within(0..DAY.as_nanos()));
        let (clock, rules, clients) = (Clock::manual(start), Rules::drawn(&mut dice), Client::all());
        let engine = Engine::new(rules.policy(), capacity, clock.clone(), Events::default()).unwrap();
        Self {
            seed,
            engine: engine.with_hasher(KeyHasher::seeded(seed)),
            clock,
            now: Moment { wall: start, forward: Span::ZERO, setbacks: 0 },
            rules,
            told: vec![None; clients.len()],
            clients,
            observer: Observer::default(),
            headers: HeaderMap::new(),
            seen: Seen::default(),
            dice,
        }
    }

    /// Lets so many days pass.
    pub(crate) fn run(&mut self, days: u64) {
        let mut agenda = BinaryHeap::new();
        let mut put = |at: Span, next| agenda.push(Reverse((at, next)));
        for client in 0..self.clients.len() {
            put(Span::from_nanos(self.dice.within(0..DAY.as_nanos())), Next::Attempt(client));
        }
        for next in [Next::Reload, Next::Jump, Next::Release] {
            put(Span::from_nanos(self.dice.within(0..DAY.as_nanos())), next);
        }
        let mut passed = Span::ZERO;
        while let Some(Reverse((due, next))) = agenda.pop()
            && due < DAY.times(days)
        {
            self.move_on(due.minus(passed));
            passed = due;
            let pause = match next {
                Next::Attempt(client) => self.attempt(client),
                Next::Reload => self.reload(),
                Next::Jump => self.jump(),
                Next::Release => self.release(),
            };
            agenda.push(Reverse((due.plus(pause), next)));
        }
        self.seen.forgotten = self.seen.forgotten.max(self.forgotten());
    }

    fn attempt(&mut self, number: usize) -> Span {
        self.seen.attempts += 1;
        let address = self.clients[number].address(&mut self.dice);
        let told = self.told[number].take();
        let drawn = if self.dice.once_in(4) { "/batch" } else { "/login" };
        let path = told.map_or(drawn, |told| told.path);
        let headers = std::mem::take(&mut self.headers);
        let attempt = attempt(path, address, &headers);
        let (before, rules) = (self.peek(&attempt), self.engine.rules());
        let ruling = self.engine.decide_in_memory(&rules, &attempt, self.now.wall).unwrap();
        let after = self.peek(&attempt);
        let cost = if path == "/batch" { 3 } else { 1 };
        let buckets: Vec<_> = self.rules.limits.iter().filter_map(|limit| limit.bucket_of(address)).collect();
        let (refused, standings) = match &ruling {
            Decision::Admitted(reservation) => (None, &reservation.statuses),
            Decision::Refused(refusal) => (Some(refusal.wait.unwrap_or(DAY)), &refusal.statuses),
            Decision::Uncounted | Decision::Denied | Decision::RefusedByDefence(_) => {
                self.broken("the route was not found")
            }
        };
        let specs: Vec<_> = standings.iter().map(|standing| standing.charge.spec).collect();
        if !specs.iter().eq(buckets.iter().map(|(_, spec)| spec)) {
            self.broken(&format!("{address} was charged to {specs:?} instead of {buckets:?}"));
        }
        if refused.is_some() {
            self.demand_nothing_taken(&before, &after);
        }
        self.observe(&buckets, standings, refused.is_some(), cost);
        self.note(number, &ruling, standings, path, told);
        if let Decision::Admitted(reservation) = ruling
            && self.dice.once_in(50)
        {
            self.give_back(reservation, &buckets, cost);
        }
        self.headers = headers;
        self.clients[number].pause(refused, &mut self.dice)
    }

    /// An attempt that one limit refuses leaves nothing behind in the others, and in the one that refused only debt.
    fn demand_nothing_taken(&self, before: &LimitStatuses, after: &LimitStatuses) {
        for (before, after) in before.iter().zip(after) {
            let of = |verdict: &Verdict| (verdict.left, verdict.admission, verdict.full_at);
            let may_have_debt = before.charge.spec.has_debt() && !before.verdict.is_admitted();
            if of(&before.verdict) != of(&after.verdict) && !may_have_debt {
                self.broken(&format!("a refused attempt took something: {before:?}, then {after:?}"));
            }
        }
    }

    fn observe(&mut self, buckets: &[(Owner, Spec)], standings: &LimitStatuses, refused: bool, cost: u32) {
        for (bucket, standing) in buckets.iter().zip(standings) {
            let forgotten =
                self.engine.rules().buckets(bucket.0.limit).map_or(0, |buckets| buckets.forgotten());
            match standing.verdict.is_admitted() {
                true if !refused && gave(standings, standing) => {
                    let kept =
                        self.observer.admitted(*bucket, (cost, standing.verdict.left), forgotten, self.now);
                    kept.unwrap_or_else(|broken| self.broken(&broken));
                }
                true => {}
                false => self.observer.refused(*bucket, self.now),
            }
        }
    }

    fn note(
        &mut self,
        number: usize,
        ruling: &Decision,
        standings: &[LimitStatus],
        path: &'static str,
        told: Option<Told>,
    ) {
        let happened = (self.seen.reloads, self.seen.setbacks, self.forgotten());
        let digest = |seen: u64, word: u64| (seen ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(29);
        for standing in standings {
            let verdict = &standing.verdict;
            self.seen.observed += u64::from(!verdict.is_admitted() && !standing.charge.effect.is_enforced());
            self.seen.digest = digest(self.seen.digest, verdict.full_at.as_nanos() ^ u64::from(verdict.left));
        }
        match ruling {
            Decision::Refused(refusal) => {
                self.seen.refused += 1;
                let as_before = told.filter(|told| told.happened == happened);
                if let Some(told) = as_before {
                    self.broken(&format!(
                        "came after {:?} for {path} as told, refused: {refusal:#?}",
                        told.wait
                    ));
                }
                // With a start balance below full, a client whose bucket was forgotten begins with that.
                let starts_full = standings.iter().all(|one| !has_start_balance(&one.charge.spec));
                if let (Habit::Obedient, Some(wait), true) =
                    (self.clients[number].habit, refusal.wait, starts_full)
                {
                    self.told[number] = Some(Told { wait, path, happened });
                }
            }
            Decision::Admitted(reservation) => {
                self.seen.admitted += 1;
                self.seen.held += u64::from(reservation.hold > Span::ZERO);
                self.seen.obeyed += u64::from(told.is_some());
            }
            Decision::Uncounted | Decision::Denied | Decision::RefusedByDefence(_) => {}
        }
    }

    fn give_back(&mut self, reservation: Box<Reservation>, buckets: &[(Owner, Spec)], cost: u32) {
        self.seen.given_back += 1;
        let statuses = &reservation.statuses;
        let took: Vec<bool> =
            statuses.iter().map(|one| one.verdict.is_admitted() && gave(statuses, one)).collect();
        reservation.refund(&self.engine, &self.engine.rules());
        for ((owner, _), _) in buckets.iter().zip(took).filter(|(_, took)| *took) {
            self.observer.given_back(*owner, cost);
        }
    }

    fn reload(&mut self) -> Span {
        self.seen.reloads += 1;
        self.seen.forgotten = self.seen.forgotten.max(self.forgotten());
        let rules = self.rules.edited(&mut self.dice);
        self.engine.replace(rules.policy()).unwrap();
        self.observer.rules_replaced(&self.rules, &rules, self.now);
        self.rules = rules;
        // Now and then the file is edited again at once.
        let longest = if self.dice.once_in(4) { Span::from_secs(120) } else { HOUR.times(24) };
        Span::from_nanos(self.dice.within(1..longest.as_nanos()))
    }

    /// The clock is set an hour back or forth.
    fn jump(&mut self) -> Span {
        if self.dice.once_in(2) {
            self.move_on(HOUR);
        } else {
            self.observer.before_a_setback(self.now);
            self.seen.setbacks += 1;
            self.now.setbacks += 1;
            self.now.wall = self.now.wall.before(HOUR);
            self.clock.set(self.now.wall);
        }
        Span::from_nanos(self.dice.within(1..DAY.times(3).as_nanos()))
    }

    fn release(&mut self) -> Span {
        self.engine.release();
        Span::from_nanos(self.dice.within(1..HOUR.times(18).as_nanos()))
    }

    fn move_on(&mut self, span: Span) {
        self.now.wall = self.now.wall.after(span);
        self.now.forward = self.now.forward.plus(span);
        self.clock.set(self.now.wall);
    }

    fn peek(&self, attempt: &Attempt<'_>) -> LimitStatuses {
        self.engine.peek(&self.engine.rules(), attempt).unwrap().1
    }

    fn forgotten(&self) -> u64 {
        let rules = self.engine.rules();
        let limits = self.rules.limits.iter().filter(|limit| limit.mode != Mode::Off);
        limits.filter_map(|limit| rules.buckets(limit.rung.name)).map(|buckets| buckets.forgotten()).sum()
    }

    fn broken(&self, what: &str) -> ! {
        let (seed, step) = (self.seed, self.seen.attempts);
        panic!("attempt {step} broke a promise (SEED={seed} cargo test --test simulation): {what}")
    }
}

/// Whether this bucket gave its tokens, if it had them, to an admitted attempt: observing limits give all or none.
fn gave(statuses: &[LimitStatus], status: &LimitStatus) -> bool {
    let lacks = |one: &LimitStatus| one.charge.effect == Effect::Observe && !one.verdict.is_admitted();
    status.charge.effect != Effect::Observe || !statuses.iter().any(lacks)
}

fn has_start_balance(spec: &Spec) -> bool {
    match spec {
        Spec::Continuous(bucket) => bucket.initial() < bucket.burst(),
        Spec::Interval(interval) => interval.initial() < interval.quota(),
        Spec::Rolling(rolling) => rolling.initial() < rolling.burst(),
        Spec::Floor(floor) => floor.pool().initial() < floor.pool().burst(),
        Spec::Distinct(distinct) => distinct.bucket().initial() < distinct.bucket().burst(),
        Spec::Escalation(_) | Spec::Recent(_) => false,
    }
}
