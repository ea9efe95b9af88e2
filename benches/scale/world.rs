//! Time, and what happens in it: attempts come, requests travel, shards fail.
//!
//! It counts for the report, second by second. A success refunds its tokens a tenth of a second later, as a sign-in
//! does; what a gate admits alone counts as a failure, which is the worst case.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tollgate::bucket::{Op, Spec, Verdict};
use tollgate::time::{Span, Time};

use super::gate::{Gate, Scattered};
use super::observer::Admissions;
use super::report::{Report, Second};
use super::round::{Job, Place, Turn};
use super::settings::{Routing, Settings};
use super::store::{BucketId, Said, Store, Writing};
use support::dice::Dice;

/// A run. The number of a bucket holds its kind of client, its number among them, and whether it is the subnet's.
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) now: Time,
    pub(super) dice: Dice,
    pub(super) gates: Vec<Gate>,
    pub(super) store: Store,
    pub(super) turns: HashMap<Place, Turn, Scattered>,
    pub(super) admissions: HashMap<BucketId, Admissions, Scattered>,
    pub(super) seconds: Vec<Second>,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    planned: Vec<Option<Event>>,
    free_events: Vec<usize>,
    count: u64,
    attempts: Vec<Attempt>,
    free: Vec<usize>,
    specs: [Spec; 2],
    /// Requests so far that are not counted with another one.
    asked: u64,
    /// Whether the next request is sent with the one before it.
    is_together: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Arrive(u64),
    AtStore {
        place: Place,
        writing: Option<Writing>,
        sent: Time,
    },
    Said(Place, Said),
    Again(Place),
    Told(Place, Job),
    ToldBoth(usize, [(BucketId, Job); 2]),
    /// Of a gate and a shard.
    Probe(usize, usize),
    Probed(usize, usize),
    Turn {
        failure: usize,
        away: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    Said { verdict: Verdict, at: Time },
    Crowded,
    Nothing,
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    gate: usize,
    buckets: [BucketId; 2],
    heard: [Option<Heard>; 2],
}

impl World {
    pub(super) fn new(settings: &Settings) -> Self {
        let seconds = (0..settings.seconds).map(|_| Second::new(settings.shards)).collect();
        let store = Store::new(settings.shards);
        Self {
            now: START,
            dice: Dice::new(settings.seed),
            gates: (0..settings.gates).map(|_| Gate::new(store.shards())).collect(),
            store,
            turns: HashMap::default(),
            admissions: HashMap::default(),
            seconds,
            events: BinaryHeap::new(),
            planned: Vec::new(),
            free_events: Vec::new(),
            count: 0,
            attempts: Vec::new(),
            free: Vec::new(),
            specs: [Settings::address(), Settings::subnet()],
            asked: 0,
            is_together: false,
            settings: settings.clone(),
        }
    }

    pub(super) fn run(&mut self) {
        let end = START.after(Span::from_secs(self.settings.seconds));
        self.plan(Span::ZERO, Event::Arrive(PEOPLE));
        let attack = Span::from_secs(self.settings.attack_at);
        [BOTS, HOT].into_iter().for_each(|kind| self.plan(attack, Event::Arrive(kind)));
        for gate in 0..self.gates.len() {
            for shard in 0..self.store.shards() {
                let first = Span::from_nanos(self.dice.within(0..2_000_000_000));
                self.plan(first, Event::Probe(gate, shard));
            }
        }
        for (failure, what) in self.settings.failures.clone().into_iter().enumerate() {
            self.plan(Span::from_secs(what.from), Event::Turn { failure, away: true });
            self.plan(Span::from_secs(what.until), Event::Turn { failure, away: false });
        }
        while let Some(Reverse((at, _, slot))) = self.events.pop() {
            let Some(event) = self.planned[slot].take().filter(|_| at < end) else { break };
            self.free_events.push(slot);
            self.now = at;
            self.happen(event);
        }
    }

    pub(super) fn into_report(self) -> Report {
        Report::of(self)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(kind) => self.arrive(kind),
            Event::AtStore { place, writing, sent } => {
                let said = self.at_store(place, writing);
                let back = match said {
                    Said::Nothing => sent.after(TIMEOUT).since(self.now),
                    _ => self.way(),
                };
                self.plan(back, Event::Said(place, said));
            }
            Event::Said(place, said) => self.said(place, said),
            Event::Again(place) => self.try_round(place),
            Event::Told(place, job) => self.enqueue(place, job),
            Event::ToldBoth(gate, both) => self.enqueue_both(gate, both),
            Event::Probe(gate, shard) => {
                self.second().probes += 1;
                let takes = if self.store.is_away(shard) { TIMEOUT } else { Span::from_millis(1) };
                self.plan(takes, Event::Probed(gate, shard));
            }
            Event::Probed(gate, shard) => self.probed(gate, shard),
            Event::Turn { failure, away } => self.turn(failure, away),
        }
    }

    fn arrive(&mut self, kind: u64) {
        let count = self.settings.simulated()[usize::try_from(kind).unwrap_or(0)];
        let gap = match kind {
            PEOPLE => DAY / self.settings.people_a_day / count.max(1),
            BOTS => self.settings.bot_gap.as_nanos() / count.max(1),
            _ => self.settings.hot_gap.as_nanos() / count.max(1),
        };
        // Any time between zero and twice the gap: an integer, and so the same on every machine.
        let next = Span::from_nanos(self.dice.within(0..gap.max(1) * 2));
        self.plan(next, Event::Arrive(kind));
        if count == 0 {
            return;
        }
        let number = self.dice.within(0..count);
        let subnet = match kind {
            PEOPLE => number / 256,
            BOTS => number / self.settings.bots_in_subnet,
            _ => number,
        };
        let buckets = [kind << 48 | number << 1, kind << 48 | subnet << 1 | 1];
        let gates = self.settings.gates;
        let gate = match self.settings.routing {
            Routing::Any => self.dice.within(0..gates),
            Routing::Home => (buckets[0].wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % gates,
        };
        self.attempt(usize::try_from(gate).unwrap_or(0), buckets);
    }

    fn attempt(&mut self, gate: usize, buckets: [BucketId; 2]) {
        let weight = self.weight(buckets[0]);
        self.second().attempts += weight;
        let here = &self.gates[gate];
        if buckets.iter().any(|&bucket| here.is_refused_here(bucket, &self.spec(bucket), self.now)) {
            self.second().mirrored += weight;
            return;
        }
        let attempt = Attempt { gate, buckets, heard: [None; 2] };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.attempts.push(attempt);
            self.attempts.len() - 1
        });
        self.attempts[slot] = attempt;
        // A bucket that refuses as far as the gate knows is checked first; of two, the one that was seen longer ago. Else one of
        // the limit that refuses most is taken from first.
        let here = &self.gates[gate];
        let refuses = |bucket: &BucketId| here.refuses(*bucket, &self.spec(*bucket), self.now);
        let oldest = buckets.into_iter().filter(refuses).min_by_key(|bucket| here.mirror[bucket].seen_at);
        match (oldest, here.refusing_most(buckets, self.now)) {
            (Some(bucket), _) => self.enqueue((gate, bucket), Job::Look { attempt: slot }),
            (None, Some(bucket)) => {
                let side = usize::from(buckets[1] == bucket);
                self.enqueue((gate, bucket), Job::First { attempt: slot, side });
            }
            (None, None) => self.ask_all(slot),
        }
    }

    fn ask_all(&mut self, slot: usize) {
        let Attempt { gate, buckets, .. } = self.attempts[slot];
        let take = |side: usize| (buckets[side], Job::Take { attempt: slot, side });
        self.enqueue_both(gate, [take(0), take(1)]);
    }

    /// Both at once; in one request, if neither waits for a batch before it.
    fn enqueue_both(&mut self, gate: usize, [one, other]: [(BucketId, Job); 2]) {
        let is_free = |(bucket, _): (BucketId, Job)| !self.turns.contains_key(&(gate, bucket));
        let can = self.settings.together && is_free(one) && is_free(other);
        let before = self.asked;
        self.enqueue((gate, one.0), one.1);
        self.is_together = can && self.asked > before;
        self.enqueue((gate, other.0), other.1);
        self.is_together = false;
    }

    /// One bucket was checked: unless it, or the other one, is now known to refuse, both are called.
    pub(super) fn looked(&mut self, slot: usize, bucket: BucketId, is_admitted: bool) {
        let Attempt { gate, buckets, .. } = self.attempts[slot];
        self.note(gate, bucket, is_admitted);
        let here = &self.gates[gate];
        if buckets.iter().any(|&bucket| here.is_refused_here(bucket, &self.spec(bucket), self.now)) {
            return self.hear_all(slot, Heard::Crowded);
        }
        self.ask_all(slot);
    }

    /// One bucket admitted: the other one is called.
    pub(super) fn took_first(&mut self, slot: usize, side: usize, heard: Heard) {
        self.attempts[slot].heard[side] = Some(heard);
        let (other, Attempt { gate, buckets, .. }) = (1 - side, self.attempts[slot]);
        self.enqueue((gate, buckets[other]), Job::Take { attempt: slot, side: other });
    }

    /// What is not sampled is noted as seldom as what is.
    fn note(&mut self, gate: usize, bucket: BucketId, is_admitted: bool) {
        if self.weight(bucket) == self.settings.sample || self.dice.once_in(self.settings.sample) {
            self.gates[gate].note(bucket, is_admitted);
        }
    }

    /// Both buckets of an attempt got the same reply.
    pub(super) fn hear_all(&mut self, slot: usize, heard: Heard) {
        self.attempts[slot].heard = [Some(heard); 2];
        self.conclude(slot);
    }

    /// One bucket of an attempt was decided on.
    pub(super) fn hear(&mut self, attempt: usize, side: usize, heard: Heard) {
        self.attempts[attempt].heard[side] = Some(heard);
        if self.attempts[attempt].heard.iter().all(Option::is_some) {
            self.conclude(attempt);
        }
    }

    fn conclude(&mut self, slot: usize) {
        let Attempt { gate, buckets, heard } = self.attempts[slot];
        self.free.push(slot);
        for (bucket, heard) in buckets.into_iter().zip(heard) {
            if let Some(Heard::Said { verdict, .. }) = heard {
                self.note(gate, bucket, verdict.is_admitted());
            }
        }
        let taken = heard.map(|heard| match heard {
            Some(Heard::Said { verdict, at }) if verdict.is_admitted() => Some((verdict.receipt, at)),
            _ => None,
        });
        if heard.iter().any(|heard| matches!(heard, Some(Heard::Nothing))) {
            self.give_back(gate, buckets, taken, Span::ZERO);
            self.decide_alone(gate, buckets);
        } else if let [Some((_, one)), Some((_, other))] = taken {
            self.second().admitted += self.weight(buckets[0]);
            let succeeds = buckets[0] >> 48 == PEOPLE && !self.dice.once_in(10);
            if succeeds {
                return self.give_back(gate, buckets, taken, SIGN_IN);
            }
            for (bucket, at) in buckets.into_iter().zip([one, other]) {
                self.admissions.entry(bucket).or_default().add(at, None);
            }
        } else {
            self.give_back(gate, buckets, taken, Span::ZERO);
        }
    }

    fn give_back(
        &mut self,
        gate: usize,
        buckets: [BucketId; 2],
        taken: [Option<(tollgate::bucket::Receipt, Time)>; 2],
        later: Span,
    ) {
        if let [Some((one, _)), Some((other, _))] = taken {
            let refund = |receipt| Job::Refund { receipt, tries: 0 };
            let both = [(buckets[0], refund(one)), (buckets[1], refund(other))];
            return self.plan(later, Event::ToldBoth(gate, both));
        }
        for (bucket, taken) in buckets.into_iter().zip(taken) {
            if let Some((receipt, _)) = taken {
                self.plan(later, Event::Told((gate, bucket), Job::Refund { receipt, tries: 0 }));
            }
        }
    }

    fn decide_alone(&mut self, gate: usize, buckets: [BucketId; 2]) {
        let (now, weight) = (self.now, self.weight(buckets[0]));
        self.second().alone += weight;
        let specs = buckets.map(|bucket| self.spec(bucket));
        let here = &mut self.gates[gate];
        let mut steps = buckets.iter().zip(&specs);
        if !steps.all(|(&bucket, spec)| here.here(bucket, spec, now, Op::Peek(1)).verdict.is_admitted()) {
            return;
        }
        for (&bucket, spec) in buckets.iter().zip(&specs) {
            let _ = self.gates[gate].here(bucket, spec, now, Op::Take(1));
            self.admissions.entry(bucket).or_default().add(now, Some(gate));
        }
        self.second().admitted += weight;
    }

    fn probed(&mut self, gate: usize, shard: usize) {
        let breaker = &mut self.gates[gate].breakers[shard];
        if self.store.is_away(shard) {
            breaker.failed(1);
        } else {
            breaker.succeeded(self.now);
        }
        let pause: u64 = if breaker.is_calm() { 2_000_000_000 } else { 150_000_000 };
        let pause = Span::from_nanos(pause + self.dice.within(0..pause));
        self.plan(pause, Event::Probe(gate, shard));
    }

    /// Tells the shard's breaker of a request.
    pub(super) fn heard_of(&mut self, place: Place, said: &Said) {
        let (weight, now) = (self.weight(place.1), self.now);
        let breaker = &mut self.gates[place.0].breakers[self.store.shard(place.1)];
        if matches!(said, Said::Nothing) {
            breaker.failed(weight);
            self.second().timeouts += weight;
        } else {
            breaker.succeeded(now);
        }
    }

    fn turn(&mut self, failure: usize, away: bool) {
        let what = self.settings.failures[failure];
        for shard in 0..usize::try_from(what.shards).unwrap_or(usize::MAX).min(self.store.shards()) {
            self.store.turn(shard, away, what.is_lossy);
        }
    }

    pub(super) fn count_question(&mut self, bucket: BucketId) {
        if self.is_together {
            return;
        }
        self.asked += 1;
        let (weight, shard) = (self.weight(bucket), self.store.shard(bucket));
        let second = self.second();
        if bucket >> 48 == HOT {
            second.hot[shard] += weight;
        } else {
            second.spread += weight;
        }
    }

    pub(super) fn weight(&self, bucket: BucketId) -> u64 {
        if bucket >> 48 == HOT { 1 } else { self.settings.sample }
    }

    pub(super) fn spec(&self, bucket: BucketId) -> Spec {
        self.specs[usize::from(bucket & 1 == 1)]
    }

    pub(super) fn second(&mut self) -> &mut Second {
        let last = self.seconds.len() - 1;
        let second = usize::try_from(self.now.since(START).as_nanos() / 1_000_000_000).unwrap_or(last);
        let open = &mut self.seconds[second.min(last)];
        if open.shut == u64::MAX {
            open.shut = self.gates.iter().map(|gate| u64::from(gate.has_open())).sum();
        }
        open
    }

    /// How long a request or a reply travels.
    pub(super) fn way(&mut self) -> Span {
        Span::from_nanos(self.dice.within(100_000..500_000))
    }

    pub(super) fn plan(&mut self, after: Span, event: Event) {
        let slot = self.free_events.pop().unwrap_or_else(|| {
            self.planned.push(None);
            self.planned.len() - 1
        });
        self.planned[slot] = Some(event);
        self.count += 1;
        self.events.push(Reverse((self.now.after(after), self.count, slot)));
    }
}

pub(super) const PEOPLE: u64 = 0;
pub(super) const BOTS: u64 = 1;
pub(super) const HOT: u64 = 2;
pub(super) const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const DAY: u64 = 24 * 3600 * 1_000_000_000;
const TIMEOUT: Span = Span::from_millis(50);
const SIGN_IN: Span = Span::from_millis(100);
