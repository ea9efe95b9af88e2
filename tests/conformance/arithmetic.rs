//! The step of a database is that of [`step`]: the same seeded cases for both, at times of the test's choosing.
//!
//! Beside the usual ones these are states at the very border of an admission, deep in debt, from clocks that were set
//! back, empty, and at the ends of what numbers hold. The database may leave a case to the gate, but none that is usual.
//! `STEP_CASES` says how many cases a shape has, `STEP_SEED` which.

use std::time::Duration;

use tollgate::bucket::{
    Continuous, Floor, Interval, Key, MAX_RECORD_LEN, Op, PeriodStart, Receipt, RecordHeader, Spec, step,
};
use tollgate::store::{RecordVersion, StepProgram, StoreClock, StoreRecord, Stored, Swap, SwapRequest};
use tollgate::time::{Span, Time};

use crate::gate::Gate;
use support::{Server, eventually};

/// A record, and what is done to it.
pub(crate) struct Case {
    pub(crate) spec: Spec,
    pub(crate) words: Vec<u64>,
    pub(crate) ops: Vec<Op>,
    /// Whole microseconds.
    pub(crate) now: Time,
}

/// The shapes that databases step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Continuous,
    Interval,
    Floor,
}

impl Case {
    /// As many cases as were asked for, of a seed that is printed.
    /// `nows` are microseconds.
    pub(crate) fn all(shape: Shape, usually: usize, nows: &[u64]) -> impl Iterator<Item = Self> {
        let count = std::env::var("STEP_CASES").map_or(usually, |count| count.parse().unwrap());
        let seed = std::env::var("STEP_SEED").map_or(1, |seed| seed.parse().unwrap());
        let mut dice = Dice(seed);
        (0..count).map(move |_| Self::random(shape, nows, &mut dice))
    }

    fn random(shape: Shape, nows: &[u64], dice: &mut Dice) -> Self {
        let spec = dice.spec(shape);
        let now = Time::from_nanos(dice.pick(nows) * 1_000);
        let now = now.after(Span::from_nanos(dice.below(1_000_000) * 1_000));
        let mut words = vec![0; spec.words()];
        for _ in 0..=dice.below(6) {
            let lag = Span::from_nanos(dice.below(2 * spec.window().as_nanos().min(u64::MAX / 4) + 2));
            let _ = step(&spec, &mut words, now.before(lag), dice.op(&spec, now));
        }
        if dice.below(3) == 0 {
            words[0] = dice.border(&spec, now);
        }
        if matches!(shape, Shape::Floor) && dice.below(3) == 0 {
            words[1] = dice.border(&spec, now);
            words[2] = dice.border(&spec, now);
            words[0] = words[1].max(words[2]);
        }
        let ops = (0..=dice.below(4)).map(|_| dice.op(&spec, now)).collect();
        Self { spec, words, ops, now }
    }

    /// A record with these words.
    pub(crate) fn record(&self, words: &[u64]) -> Vec<u8> {
        let mut bytes = [0; MAX_RECORD_LEN];
        let length = RecordHeader::of(self.spec).encode(words, &mut bytes);
        bytes[..length].to_vec()
    }

    pub(crate) fn program(&self) -> Option<StepProgram> {
        let until = self.now.after(Span::from_secs(86_400));
        StepProgram::new(&self.spec, self.ops.iter().copied(), self.now, until)
    }

    /// The words after the step, if that changes them.
    pub(crate) fn expected(&self) -> Option<Vec<u64>> {
        let (words, changed, _) = self.run();
        changed.then_some(words)
    }

    /// The words after the step, whether that changes them, and whether all attempts are admitted.
    pub(crate) fn run(&self) -> (Vec<u64>, bool, bool) {
        let (mut words, mut changed, mut all) = (self.words.clone(), false, true);
        for op in &self.ops {
            let step = step(&self.spec, &mut words, self.now, *op);
            changed |= step.changed;
            all &= step.verdict.is_admitted();
        }
        (words, changed, all)
    }

    /// Whether a database may leave it to the gate: a clock that was set back, a period's end or an interval's debt.
    pub(crate) fn is_unusual(&self) -> bool {
        let at = |word: usize| Time::from_nanos(self.words[word]);
        let is_ahead = at(0) == Time::default() || at(0).since(self.now) > self.spec.max_ttl();
        is_ahead
            || match self.spec {
                Spec::Interval(interval) => {
                    let is_over = at(0) <= self.now || at(0).since(self.now) > interval.period();
                    is_over
                        || self.words[1] == 0
                        || self.words[1] > interval.quota().into()
                        || interval.debt() > 0
                        || self.gives()
                }
                Spec::Floor(floor) => {
                    let far = |word, bucket| at(word).since(self.now) > Spec::Continuous(bucket).max_ttl();
                    far(1, floor.pool()) || far(2, floor.floor())
                }
                _ => false,
            }
    }

    fn gives(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Give(_) | Op::Refund(_)))
    }
}

const KEY: Key = Key(7);

/// Ten tokens, one an hour.
fn spec() -> Spec {
    Spec::Continuous(Continuous::new(1, Span::from_secs(3600), 10).unwrap())
}

/// A record of a bucket from which so many tokens are taken by the server's clock.
fn record(gate: &Gate, spec: Spec, tokens: u32) -> StoreRecord {
    let now = clock(gate);
    let mut words = [0];
    let _ = step(&spec, &mut words, now, Op::Take(tokens));
    let full_at = Time::from_nanos(words[0]);
    let case = Case { spec, words: words.to_vec(), ops: Vec::new(), now };
    StoreRecord { bytes: case.record(&words), ttl: full_at.since(now), limit: "address".into(), full_at }
}

pub(crate) fn clock(gate: &Gate) -> Time {
    let mut clock = None;
    let asked = eventually(Duration::from_secs(20), || {
        clock =
            gate.block_on(gate.store.probe(gate.store.servers()[0].id)).ok().and_then(|answer| answer.clock);
        clock.is_some()
    });
    match clock {
        Some(StoreClock::Exact(now)) if asked => now,
        clock => panic!("{clock:?}"),
    }
}

fn program(now: Time, until: Time) -> StepProgram {
    StepProgram::new(&spec(), [Op::Take(2)], now, until).unwrap()
}

fn swap_or_step(gate: &Gate, new: StoreRecord, until: Time) -> Swap {
    let now = clock(gate);
    gate.ask(|store| store.swap_or_step(KEY, Some(RecordVersion(7)), new, program(now, until))).unwrap()
}

pub(crate) fn a_lost_race_is_a_step_and_one_question(mut server: impl Server) {
    let gate = Gate::ready(&server.url());
    let there = record(&gate, spec(), 3);
    gate.write(KEY, None, there.clone());
    let (new, until) = (record(&gate, spec(), 2), clock(&gate).after(Span::from_secs(5)));
    let before = server.questions();
    let Swap::Stepped { found, now, version } = swap_or_step(&gate, new, until) else { panic!("no step") };
    // Some servers count late.
    assert!(eventually(Duration::from_secs(10), || server.questions() - before == 1));
    assert_eq!(found, there.bytes);
    let stored = gate.load(KEY).unwrap();
    assert_eq!(stored.version, version);
    let mut words = [0; Spec::MAX_WORDS];
    let header = RecordHeader::decode(&found, &mut words).unwrap();
    let _ = step(&header.spec, &mut words[..1], now, Op::Take(2));
    let case = Case { spec: header.spec, words: Vec::new(), ops: Vec::new(), now };
    assert_eq!(stored.bytes, case.record(&words));
}

pub(crate) fn what_differs_in_more_than_its_state_is_not_stepped(server: impl Server) {
    let gate = Gate::ready(&server.url());
    let until = clock(&gate).after(Span::from_secs(5));
    let other = Spec::Continuous(Continuous::new(1, Span::from_secs(3600), 11).unwrap());
    let strange = StoreRecord { bytes: b"not ours".to_vec(), ..record(&gate, spec(), 1) };
    for there in [record(&gate, other, 3), strange] {
        let old = gate.load(KEY).map(|stored| stored.version);
        gate.write(KEY, old, there.clone());
        let new = record(&gate, spec(), 2);
        let Swap::Conflict(Some(stored)) = swap_or_step(&gate, new, until) else { panic!("a step") };
        assert_eq!(stored.bytes, there.bytes);
        assert_eq!(gate.load(KEY), Some(stored));
    }
}

/// A step that comes late is taken by no one, since the gate may have asked again.
pub(crate) fn a_late_step_is_not_taken(server: impl Server) {
    let gate = Gate::ready(&server.url());
    gate.write(KEY, None, record(&gate, spec(), 3));
    let there = gate.load(KEY);
    let new = record(&gate, spec(), 2);
    assert_eq!(swap_or_step(&gate, new, clock(&gate)), Swap::Conflict(there.clone()));
    assert_eq!(gate.load(KEY), there);
}

/// One that is expected, one that is not there, one that a rival has changed, one that a rival has inserted, and one that
/// is not stepped: each is done by itself.
pub(crate) fn several_buckets_in_one_request_are_each_done_by_itself(server: impl Server) {
    let gate = Gate::ready(&server.url());
    let there = record(&gate, spec(), 3);
    let versions: Vec<_> = [1, 3, 4, 5].map(|key| gate.write(Key(key), None, there.clone())).into();
    let (new, now) = (record(&gate, spec(), 2), clock(&gate));
    let program = program(now, now.after(Span::from_secs(20)));
    let swap = |key, old, program| SwapRequest { key: Key(key), old, new: new.clone(), program };
    let swaps = vec![
        swap(5, Some(RecordVersion(7)), None),
        swap(4, None, Some(program.clone())),
        swap(3, Some(RecordVersion(7)), Some(program.clone())),
        swap(2, None, Some(program.clone())),
        swap(1, Some(versions[0]), Some(program)),
    ];
    assert!(gate.store.can_swap_together(&[Key(1), Key(2)]));
    let results = gate.ask(|store| store.swap_all(swaps)).unwrap();
    let [Ok(lost), Ok(inserted), Ok(changed), Ok(absent), Ok(expected)] = &results[..] else {
        panic!("{results:?}")
    };
    let before = Stored { bytes: there.bytes.clone(), version: versions[3] };
    assert_eq!(*lost, Swap::Conflict(Some(before)));
    for (key, stepped) in [(4, inserted), (3, changed)] {
        let Swap::Stepped { found, now, version } = stepped else { panic!("{stepped:?}") };
        assert_eq!(*found, there.bytes);
        let mut words = [0; Spec::MAX_WORDS];
        let header = RecordHeader::decode(found, &mut words).unwrap();
        let _ = step(&header.spec, &mut words[..1], *now, Op::Take(2));
        let case = Case { spec: header.spec, words: Vec::new(), ops: Vec::new(), now: *now };
        let stored = Stored { bytes: case.record(&words), version: *version };
        assert_eq!(gate.load(Key(key)), Some(stored));
    }
    for (key, written) in [(2, absent), (1, expected)] {
        let Swap::Done(version) = written else { panic!("{written:?}") };
        assert_eq!(gate.load(Key(key)), Some(Stored { bytes: new.bytes.clone(), version: *version }));
    }
    assert_eq!(gate.load(Key(5)).unwrap().bytes, there.bytes);
}

/// Seeded randomness (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick(&mut self, of: &[u64]) -> u64 {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn small(&mut self, end: u64) -> u32 {
        u32::try_from(self.below(end)).unwrap()
    }

    fn spec(&mut self, shape: Shape) -> Spec {
        loop {
            let spec = match shape {
                Shape::Continuous => self.continuous().map(Spec::Continuous),
                Shape::Interval => self.interval().map(Spec::Interval),
                Shape::Floor => self
                    .continuous()
                    .zip(self.continuous())
                    .and_then(|(floor, pool)| Floor::new(floor, pool).ok().map(Spec::Floor)),
            };
            if let Some(spec) = spec {
                return spec;
            }
        }
    }

    /// `None` if the numbers do not fit together.
    fn continuous(&mut self) -> Option<Continuous> {
        let nanos =
            self.pick(&[1, 999, 1_000_000, 1_234_567_891, 4_294_967_296, 30_000_000_000, 86_400_000_000_000]);
        let burst = self.pick(&[1, 2, 10, 1_000, 4_294_967_295]);
        let burst = u32::try_from(burst).unwrap();
        let rate = Continuous::new(1, Span::from_nanos(nanos), burst).ok()?;
        let rate = rate.with_initial(self.small(u64::from(burst) + 1)).ok()?;
        let debt = u32::try_from(self.pick(&[0, 0, 1, 10])).unwrap();
        let hold = self.pick(&[0, 0, 1, 2_000_000_000]);
        rate.with_debt(debt).ok()?.with_hold(Span::from_nanos(hold)).ok()
    }

    fn interval(&mut self) -> Option<Interval> {
        let quota = u32::try_from(self.pick(&[1, 2, 10, 1_000, 4_294_967_295])).unwrap();
        let period =
            Span::from_nanos(self.pick(&[1, 1_000_000, 60_000_000_000, 86_400_000_000_000, u64::MAX >> 4]));
        let start = [PeriodStart::First, PeriodStart::Clock][usize::try_from(self.below(2)).unwrap()];
        let interval = Interval::new(quota, period, start).ok()?;
        let debt = u32::try_from(self.pick(&[0, 0, 0, 1, 10])).unwrap();
        interval.with_initial(self.small(u64::from(quota) + 1)).ok()?.with_debt(debt).ok()
    }

    fn op(&mut self, spec: &Spec, now: Time) -> Op {
        let most = u64::from(spec.burst()) + 2;
        let tokens = match self.below(4) {
            0 => self.small(most.min(u64::from(u32::MAX))),
            1 => self.small(most.min(4)),
            _ => 1,
        };
        let full_at = Time::from_nanos(self.border(spec, now));
        match self.below(12) {
            0 => Op::Peek(tokens),
            1 => Op::TakeOnce { tokens, tag: 7 },
            2 => Op::Give(tokens),
            3 => Op::Refund(Receipt { tokens, full_at }),
            4 => Op::Refund(Receipt { tokens: 1, full_at: now.after(Span::from_nanos(self.below(1 << 40))) }),
            _ => Op::Take(tokens),
        }
    }

    /// A time at which something changes, or a nanosecond beside it.
    fn border(&mut self, spec: &Spec, now: Time) -> u64 {
        let window = spec.window().as_nanos();
        let token = window / u64::from(spec.burst()).max(1);
        let distance = match self.below(8) {
            0 => 0,
            1 => window,
            2 => spec.max_ttl().as_nanos(),
            3 => spec.max_ttl().as_nanos().saturating_add(1_000_000_000),
            4 => window.saturating_sub(token),
            5 => self.next() >> self.below(64),
            _ => token.saturating_mul(self.below(12)),
        };
        let time = now.as_nanos().saturating_add(distance);
        let beside = time.saturating_add(self.below(3)).saturating_sub(1);
        if self.below(10) == 0 { now.as_nanos().saturating_sub(distance) } else { beside }
    }
}
