//! Batches for one bucket at one gate, as `crates/store/src/shared/batch.rs` runs them: all waiting requests are decided
//! together and written by one swap; where another gate has written meanwhile, the store takes the step, unless the gate
//! has decided alone before.
//!
//! Enqueued refunds are retried as there, but without the load that the library makes first when their outcome is
//! uncertain: a shard that is down does nothing here. Only the store's time-out ends a wait, so an attempt that waits
//! behind a request that fails waits for its own as well.

use tollgate::bucket::{Op, Receipt, Spec, Verdict};
use tollgate::time::{Span, Time};

use super::gate::{FRESH, Seen, run};
use super::store::{BucketId, Row, Said, Writing};
use super::world::{Event, Heard, World};

/// A bucket at a gate.
pub(super) type Place = (usize, BucketId);

#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    Take {
        attempt: usize,
        side: usize,
    },
    /// Whether the bucket still refuses, as the gate thinks.
    Look {
        attempt: usize,
    },
    /// From the bucket of the limit that refuses most, before the other one.
    First {
        attempt: usize,
        side: usize,
    },
    Refund {
        receipt: Receipt,
        tries: u32,
    },
}

/// The batches for one bucket at a gate.
#[derive(Debug, Default)]
pub(super) struct Turn {
    waiting: Vec<Job>,
    jobs: Vec<Job>,
    said: Vec<(Verdict, Time)>,
    tat: u64,
    version: Option<u64>,
    seen_at: Time,
    is_hot: bool,
    is_asked: bool,
    gone_at: Time,
    ours: Option<u64>,
    /// The gate's state when the batch began: attempts that it decided on alone since change it.
    recalled: u64,
    is_other: bool,
    tries: u32,
    begun: Time,
}

impl Turn {
    fn looks(&self) -> bool {
        self.jobs.iter().any(|job| matches!(job, Job::Look { .. }))
    }

    /// Decides all jobs by this state. Returns whether that changes it.
    fn decide(&mut self, spec: &Spec, now: Time) -> bool {
        let mut changed = false;
        self.said.clear();
        for job in &self.jobs {
            let op = match job {
                Job::Take { .. } | Job::First { .. } => Op::Take(1),
                Job::Look { .. } => Op::Peek(1),
                Job::Refund { receipt, .. } => Op::Refund(*receipt),
            };
            let step = run(spec, &mut self.tat, now, op);
            changed |= step.changed;
            self.said.push((step.verdict, now));
        }
        changed
    }
}

impl World {
    pub(super) fn enqueue(&mut self, place: Place, job: Job) {
        if let Some(turn) = self.turns.get_mut(&place) {
            turn.waiting.push(job);
        } else {
            self.turns.insert(place, Turn { waiting: vec![job], ..Turn::default() });
            self.next_round(place);
        }
    }

    fn next_round(&mut self, place: Place) {
        let Some(turn) = self.turns.get_mut(&place) else { return };
        if turn.waiting.is_empty() {
            self.turns.remove(&place);
            return;
        }
        let gate = &self.gates[place.0];
        let seen = gate.mirror.get(&place.1).copied().unwrap_or_default();
        let version = (seen.version != 0 && seen.gone_at > self.now).then_some(seen.version);
        let may_be_lost =
            version.is_some() && seen.seen_at < gate.breakers[self.store.shard(place.1)].back_since;
        // Decisions that were made here alone are on top of the state that was seen.
        let (tat, is_ahead) = (seen.tat.max(seen.seen), seen.tat > seen.seen);
        *turn = Turn {
            jobs: std::mem::take(&mut turn.waiting),
            tat,
            version,
            seen_at: seen.seen_at,
            is_hot: self.now < seen.seen_at.after(HOT),
            ours: (is_ahead || may_be_lost).then_some(tat),
            is_other: is_ahead && version.is_some(),
            recalled: seen.tat,
            begun: self.now,
            ..Turn::default()
        };
        self.try_round(place);
    }

    /// Decides, and writes or loads.
    pub(super) fn try_round(&mut self, place: Place) {
        let spec = self.spec(place.1);
        let Some(turn) = self.turns.get_mut(&place) else { return };
        let changed = turn.decide(&spec, self.now);
        let is_recent = turn.seen_at <= self.now && self.now < turn.seen_at.after(FRESH);
        let is_deferrable = |(job, said): (&Job, &(Verdict, Time))| {
            !matches!(job, Job::Refund { .. }) && !said.0.is_admitted()
        };
        let is_deferred = turn.is_asked && turn.is_hot && turn.jobs.iter().zip(&turn.said).all(is_deferrable);
        if is_deferred || !changed && !turn.is_other && is_recent && (turn.is_asked || !turn.looks()) {
            self.answer(place);
        } else if changed || turn.is_other {
            turn.gone_at = Time::from_nanos(turn.tat).max(self.now.after(SHORTEST));
            let writing = Writing { old: turn.version, tat: turn.tat, gone_at: turn.gone_at };
            self.ask(place, Some(writing));
        } else {
            self.ask(place, None);
        }
    }

    fn ask(&mut self, place: Place, writing: Option<Writing>) {
        if self.gates[place.0].breakers[self.store.shard(place.1)].is_open {
            return self.fail(place);
        }
        self.count_question(place.1);
        let there = self.way();
        self.plan(there, Event::AtStore { place, writing, sent: self.now });
    }

    /// The store has the request. A race that would be lost is a step there.
    pub(super) fn at_store(&mut self, place: Place, writing: Option<Writing>) -> Said {
        let (spec, now) = (self.spec(place.1), self.now);
        let said = self.store.answer(place.1, writing, now);
        let (Said::Lost(Some(row)), Some(turn)) = (said, self.turns.get_mut(&place)) else { return said };
        if turn.ours.is_some() || turn.is_other {
            return said;
        }
        turn.tat = row.tat;
        if !turn.decide(&spec, now) {
            return Said::Loaded(Some(row));
        }
        turn.gone_at = Time::from_nanos(turn.tat).max(now.after(SHORTEST));
        Said::Done(self.store.put(place.1, turn.tat, turn.gone_at))
    }

    /// The store's reply has arrived.
    pub(super) fn said(&mut self, place: Place, said: Said) {
        self.heard_of(place, &said);
        match said {
            Said::Done(version) => {
                let Some(turn) = self.turns.get(&place) else { return };
                let gone_at = turn.gone_at.max(self.now.after(FRESH));
                let seen = Seen { tat: turn.tat, seen: turn.tat, version, seen_at: self.now, gone_at };
                self.remember(place, seen);
                self.answer(place);
            }
            Said::Loaded(row) => self.see(place, row),
            Said::Lost(row) => {
                self.second().lost += self.weight(place.1);
                self.see(place, row);
            }
            Said::Nothing => self.fail(place),
        }
    }

    /// Continues from the current row.
    fn see(&mut self, place: Place, row: Option<Row>) {
        let now = self.now;
        let Some(turn) = self.turns.get_mut(&place) else { return };
        (turn.version, turn.seen_at) = (row.map(|row| row.version), now);
        turn.is_asked = true;
        let (tat, version) = row.map_or((0, 0), |row| (row.tat, row.version));
        turn.is_other = turn.ours.is_some_and(|ours| ours > tat);
        turn.tat = turn.ours.unwrap_or(0).max(tat);
        if !turn.is_other {
            turn.ours = None;
        }
        let gone_at = Time::from_nanos(tat).max(now.after(FRESH));
        self.remember(place, Seen { tat, seen: tat, version, seen_at: now, gone_at });
        let Some(turn) = self.turns.get_mut(&place) else { return };
        turn.tries += 1;
        // The first conflict is usual; after more of them the writers spread out.
        let (tries, begun) = (turn.tries, turn.begun);
        let pause = if tries > 1 { self.dice.within(0..100_000 << tries.min(6)) } else { 0 };
        let pause = Span::from_nanos(pause);
        if tries >= MOST_TRIES || now.after(pause).since(begun) > PART_FOR_RACES {
            return self.crowd_out(place);
        }
        self.plan(pause, Event::Again(place));
    }

    /// Decisions that were made here alone stay on top of what was seen.
    fn remember(&mut self, place: Place, seen: Seen) {
        let Some(turn) = self.turns.get_mut(&place) else { return };
        let entry = self.gates[place.0].mirror.entry(place.1).or_default();
        let is_another = entry.tat != turn.recalled || turn.ours.is_some();
        let tat = if is_another { entry.tat.max(seen.tat) } else { seen.tat };
        *entry = Seen { tat, ..seen };
        turn.recalled = tat;
    }

    fn answer(&mut self, place: Place) {
        let Some(turn) = self.turns.get_mut(&place) else { return };
        let (jobs, said) = (std::mem::take(&mut turn.jobs), std::mem::take(&mut turn.said));
        for (job, (verdict, at)) in jobs.into_iter().zip(said) {
            match job {
                Job::Take { attempt, side } => self.hear(attempt, side, Heard::Said { verdict, at }),
                Job::First { attempt, side } if verdict.is_admitted() => {
                    self.took_first(attempt, side, Heard::Said { verdict, at });
                }
                Job::Look { attempt } | Job::First { attempt, .. } => {
                    self.looked(attempt, place.1, verdict.is_admitted());
                }
                Job::Refund { .. } => {}
            }
        }
        self.next_round(place);
    }

    fn fail(&mut self, place: Place) {
        let Some(turn) = self.turns.get_mut(&place) else { return };
        for job in std::mem::take(&mut turn.jobs) {
            match job {
                Job::Take { attempt, side } => self.hear(attempt, side, Heard::Nothing),
                Job::Look { attempt } | Job::First { attempt, .. } => self.hear_all(attempt, Heard::Nothing),
                Job::Refund { tries, .. } if tries >= MOST_TOLD => {}
                Job::Refund { receipt, tries } => {
                    let pause = 500_000_000 << tries;
                    let pause = Span::from_nanos(pause + self.dice.within(0..pause));
                    self.plan(pause, Event::Told(place, Job::Refund { receipt, tries: tries + 1 }));
                }
            }
        }
        self.next_round(place);
    }

    /// Refuses the requests, because other writers keep winning; they do not call again.
    fn crowd_out(&mut self, place: Place) {
        let Some(turn) = self.turns.get_mut(&place) else { return };
        for job in std::mem::take(&mut turn.jobs) {
            match job {
                Job::Take { attempt, side } => {
                    self.second().crowded += self.weight(place.1);
                    self.hear(attempt, side, Heard::Crowded);
                }
                Job::Look { attempt } | Job::First { attempt, .. } => self.hear_all(attempt, Heard::Crowded),
                Job::Refund { .. } => {}
            }
        }
        self.next_round(place);
    }
}

const HOT: Span = Span::from_secs(4);
const SHORTEST: Span = Span::from_secs(1);
const PART_FOR_RACES: Span = Span::from_millis(40);
const MOST_TRIES: u32 = 32;
const MOST_TOLD: u32 = 5;
