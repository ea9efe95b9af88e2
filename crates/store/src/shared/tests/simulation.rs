//! Several gates on one store for simulated days, checked by an observer with separate arithmetic.
//!
//! Time is simulated: everything runs on one thread, in an order that the seed decides. The store is late, loses
//! replies and records, goes down, and has another clock than the gates. As with a real store, a request may be written
//! after its caller has given up. `SEED=7 cargo test --lib simulation` runs one seed, `SEEDS=200` runs the first 200.

#![allow(clippy::print_stdout, reason = "these are tests")]

#[cfg(test)]
mod crowd;
#[cfg(test)]
mod observer;
#[cfg(test)]
mod store;

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::{LocalSet, spawn_local};

use self::observer::Observer;
use self::store::{Faults, Store};
use crate::memory::Buckets;
use crate::shared::*;
use tollgate_bucket::{
    Admission as Told, Continuous, Distinct, Floor, Interval, Op, PeriodStart, Rolling, Spec, Verdict,
};

const TIMEOUT: Duration = Duration::from_millis(50);
const HOURS: u64 = 24;

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % max
    }
}

struct Quiet;

impl StoreObserver for Quiet {
    fn call_finished(&self, _result: CallStatus, _took: Span) {}
    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}
    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}
    fn warned(&self, _what: &str) {}
}

struct Gate {
    shared: Arc<SharedStore>,
    mirror: RefCell<Arc<Mirror>>,
    /// Whether it has read the changed file.
    changed: std::cell::Cell<bool>,
    _end: oneshot::Receiver<()>,
}

struct World {
    gates: Vec<Gate>,
    store: Arc<Store>,
    observer: RefCell<Observer>,
    dice: RefCell<Dice>,
    on_error: OnError,
    seen: RefCell<Seen>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    admitted: u32,
    refused: u32,
    mirrored: u32,
    unavailable: u32,
    refunds: u32,
    reloads: u32,
    resets: u32,
    waits: u32,
}

fn continuous(seconds: u64, burst: u32) -> Continuous {
    Continuous::new(1, Span::from_secs(seconds), burst).unwrap()
}

/// The spec of each key, before or after the change of the file.
fn specs(changed: bool) -> [Spec; 6] {
    let hour = Span::from_secs(3600);
    [
        Spec::Continuous(if changed { continuous(60, 8) } else { continuous(60, 10) }),
        Spec::Continuous(continuous(2, 5)),
        Spec::Interval(Interval::new(12, hour, PeriodStart::First).unwrap()),
        Spec::Rolling(Rolling::new(40, Span::from_secs(6 * 3600), hour, PeriodStart::First).unwrap()),
        Spec::Floor(Floor::new(continuous(300, 2), continuous(600, 6)).unwrap()),
        Spec::Distinct(Distinct::new(continuous(120, 6), None).unwrap()),
    ]
}

fn bucket(key: usize, changed: bool) -> BucketKey {
    // Spread out, or they would not all fit into a line of the mirror.
    let name = (key as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    BucketKey { key: Key(name), class: key, spec: specs(changed)[key] }
}

fn mirror(buckets: Buckets) -> Arc<Mirror> {
    Arc::new(Mirror::new(&"address".into(), &Arc::new(buckets)).unwrap())
}

impl World {
    async fn new(seed: u64, on_error: OnError, healthy: bool) -> Rc<Self> {
        let mut dice = Dice(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        let store = Store::new(dice.below(u64::MAX));
        let mut gates = Vec::new();
        for number in 0..3 {
            // One of them calculates by itself.
            let arithmetic = if number == 0 { Arithmetic::Gate } else { Arithmetic::Store };
            let options = StoreOptions { timeout: Span::from_millis(50), on_error, arithmetic };
            // Healthy or not, the gates' own clocks differ by minutes.
            let clock = store.clock_of_gate((number as i64 - 1) * 300_000_000_000);
            let (alive, end) = oneshot::channel();
            let backend = Arc::clone(&store) as Arc<dyn CompareAndSwap>;
            let runtime = Handle::current();
            let (shared, _) =
                SharedStore::start_within(runtime, backend, options, clock, Arc::new(Quiet), alive);
            let mirror = RefCell::new(mirror(Buckets::new(100, &specs(false)).unwrap()));
            gates.push(Gate { shared, mirror, changed: false.into(), _end: end });
        }
        store.rest(Duration::from_secs(1)).await;
        if !healthy {
            store.faults.lock().unwrap().lost = 40;
        }
        let (observer, dice) = (RefCell::new(Observer::new(&specs(false), &specs(true))), RefCell::new(dice));
        Rc::new(Self { gates, store, observer, dice, on_error, seen: RefCell::default() })
    }

    fn below(&self, max: usize) -> usize {
        usize::try_from(self.dice.borrow_mut().below(max as u64)).unwrap()
    }

    async fn attempt(self: Rc<Self>, gate: usize, key: usize, tokens: u32) -> Option<Verdict> {
        self.store.set_clocks();
        let Gate { shared, mirror, changed, .. } = &self.gates[gate];
        let (mirror, bucket) = (Arc::clone(&mirror.borrow()), bucket(key, changed.get()));
        let (now, begun) = (shared.now(), Instant::now());
        let known = mirror.buckets.peek(&bucket, now, tokens);
        if !known.is_admitted() && mirror.is_fresh(&bucket, now) && !shared.has_leased(&bucket, now) {
            self.seen.borrow_mut().mirrored += 1;
            return Some(known);
        }
        let reply = shared.call(&mirror, bucket, StoreOp::Step(Op::Take(tokens))).await;
        assert!(begun.elapsed() <= TIMEOUT + Duration::from_millis(2), "{:?}", begun.elapsed());
        self.store.set_clocks();
        let mut seen = self.seen.borrow_mut();
        let (verdict, is_local) = match reply {
            Ok(reply) => (reply.verdict, false),
            Err(Unavailable) => {
                seen.unavailable += 1;
                if self.on_error == OnError::Deny {
                    return None;
                }
                (mirror.buckets.apply(&bucket, shared.now(), Op::Take(tokens)).unwrap(), true)
            }
        };
        if !verdict.is_admitted() {
            seen.refused += 1;
            return Some(verdict);
        }
        seen.admitted += 1;
        drop(seen);
        let id = self.observer.borrow_mut().admitted(key, self.store.now(), tokens);
        if self.below(3) == 0 {
            let open_for = [200, 5_000, 600_000, 9_000_000][self.below(4)];
            let world = Rc::clone(&self);
            spawn_local(async move {
                world.store.rest(Duration::from_millis(open_for)).await;
                world.refund(gate, mirror, bucket, verdict, is_local, id);
            });
        }
        Some(verdict)
    }

    fn refund(
        &self,
        gate: usize,
        mirror: Arc<Mirror>,
        bucket: BucketKey,
        verdict: Verdict,
        is_local: bool,
        id: usize,
    ) {
        self.seen.borrow_mut().refunds += 1;
        self.observer.borrow_mut().refunded(bucket.class, id, self.store.now());
        let (shared, op) = (&self.gates[gate].shared, Op::Refund(verdict.receipt));
        if is_local {
            let _ = mirror.buckets.apply(&bucket, shared.now(), op);
        } else {
            shared.enqueue([StoreCall { mirror: &mirror, bucket, op: StoreOp::Step(op) }]);
        }
    }

    async fn reset(self: Rc<Self>, gate: usize, key: usize) {
        let Gate { shared, mirror, changed, .. } = &self.gates[gate];
        let mirror = Arc::clone(&mirror.borrow());
        let _ = shared.call(&mirror, bucket(key, changed.get()), StoreOp::Reset).await;
        // Even if no reply came, the reset may have been done, or will be soon.
        self.store.set_clocks();
        self.seen.borrow_mut().resets += 1;
        self.observer.borrow_mut().forgiven(key, self.store.now());
    }

    fn reload(&self, gate: usize) {
        let Gate { shared, mirror: current, changed, .. } = &self.gates[gate];
        let classes = specs(changed.get()).into_iter().enumerate().map(Some).collect();
        changed.set(!changed.get());
        let buckets = Arc::clone(&current.borrow().buckets);
        let next = buckets.changed(100, &specs(changed.get()), classes, shared.now()).unwrap();
        *current.borrow_mut() = mirror(next);
        self.seen.borrow_mut().reloads += 1;
    }

    /// A client that waits as told, alone, is admitted, at any gate.
    async fn obeys(self: &Rc<Self>, key: usize) {
        let (one, other) = (self.below(3), self.below(3));
        // Gates on different files do not mean the same by a wait.
        let is_same = self.gates[one].changed == self.gates[other].changed;
        let other = if is_same { other } else { one };
        for _ in 0..60 {
            let verdict = Rc::clone(self).attempt(one, key, 1).await.unwrap();
            let Told::Refused { wait } = verdict.admission else { continue };
            self.store.rest(Duration::from_secs(wait.as_secs_ceil().max(1))).await;
            // The longest lag of the offset to the store's clock.
            self.store.rest(Duration::from_millis(20)).await;
            let after = Rc::clone(self).attempt(other, key, 1).await.unwrap();
            assert!(after.is_admitted(), "told {wait:?}, then {after:?} for {key} at {other} after {one}");
            self.seen.borrow_mut().waits += 1;
            return;
        }
    }

    async fn burst(self: &Rc<Self>) {
        let (key, many) = (self.below(6), 1 + self.below(40));
        for _ in 0..many {
            let (world, gate, tokens) = (Rc::clone(self), self.below(3), 1 + self.below(2));
            let after = Duration::from_micros(self.below(100_000) as u64);
            spawn_local(async move {
                world.store.rest(after).await;
                world.attempt(gate, key, u32::try_from(tokens).unwrap()).await
            });
        }
    }

    async fn run(self: &Rc<Self>, healthy: bool) {
        let end = Instant::now() + Duration::from_secs(HOURS * 3600);
        while Instant::now() < end {
            self.burst().await;
            let pause = [50, 1_000, 20_000, 300_000][self.below(4)];
            self.store.rest(Duration::from_millis(1 + self.below(pause) as u64)).await;
            match self.below(100) {
                0 => self.reload(self.below(3)),
                1 => drop(spawn_local(Rc::clone(self).reset(self.below(3), self.below(6)))),
                2..8 if !healthy => self.misfortune().await,
                _ => {}
            }
        }
        *self.store.faults.lock().unwrap() = Faults::default();
        // Attempts that are held open for hours end, and so do enqueued operations.
        self.store.rest(Duration::from_secs(4 * 3600)).await;
        for key in 0..6 {
            self.obeys(key).await;
        }
        self.store.rest(Duration::from_secs(60)).await;
        for Gate { shared, .. } in &self.gates {
            assert_eq!(shared.enqueued.load(Ordering::Relaxed), 0);
            assert!(shared.queue.is_empty() && shared.is_up());
        }
    }

    /// A clock that steps forward refills each bucket at most once; one that steps back refills nothing.
    fn step(&self, seconds: i64) {
        let from = self.store.now();
        self.store.step(seconds);
        let mut observer = self.observer.borrow_mut();
        for key in 0..6 {
            observer.stepped(key, from, self.store.now());
            if seconds > 0 {
                observer.forgiven(key, self.store.now());
            }
        }
    }

    async fn misfortune(self: &Rc<Self>) {
        let lasts = Duration::from_millis([100, 2_000, 60_000][self.below(3)]);
        let key = self.below(6);
        match self.below(6) {
            0 => self.store.faults.lock().unwrap().away = true,
            1 => self.store.faults.lock().unwrap().silent = true,
            2 => self.store.faults.lock().unwrap().late = 3,
            3 => self.store.faults.lock().unwrap().lost = 2,
            4 if self.on_error == OnError::Deny => {
                self.store.spoil(bucket(key, false).key, self.below(2) == 0);
                self.observer.borrow_mut().forgiven(key, self.store.now());
            }
            _ => self.step(self.below(7_200) as i64 - 3_600),
        }
        self.observer.borrow_mut().misfortunes += 1;
        for _ in 0..self.below(4) {
            self.burst().await;
            self.store.rest(lasts / 4).await;
        }
        *self.store.faults.lock().unwrap() = Faults { lost: 40, ..Faults::default() };
        self.store.rest(Duration::from_secs(1)).await;
    }
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    number("SEED").map_or_else(|| (1..=number("SEEDS").unwrap_or(1)).collect(), |seed| vec![seed])
}

fn simulate(on_error: OnError, healthy: bool, check: impl Fn(&Observer, u64)) {
    for seed in seeds() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let world = LocalSet::new().block_on(&runtime, async {
            let world = World::new(seed, on_error, healthy).await;
            world.run(healthy).await;
            world
        });
        let seen = *world.seen.borrow();
        println!("seed {seed}: {seen:?}");
        assert!(
            seen.admitted > 1000 && seen.refused > 300 && seen.refunds > 300 && seen.waits > 0,
            "{seen:?}"
        );
        // Of many at once some lose all their races, where the store does no arithmetic.
        assert_eq!(healthy, seen.unavailable * 200 < seen.admitted, "{seen:?}");
        check(&world.observer.borrow(), seed);
    }
}

#[test]
fn gates_on_a_healthy_store_admit_what_one_would() {
    simulate(OnError::Deny, true, |observer, seed| observer.demand(1, seed));
}

/// E15, G9: a clock that is set, and a store that loses acknowledged writes.
#[test]
fn gates_that_deny_without_the_store_never_admit_more_than_one_would_whatever_the_store_does() {
    simulate(OnError::Deny, false, |observer, seed| observer.demand(1, seed));
}

#[test]
fn gates_that_decide_alone_without_the_store_admit_what_each_would() {
    simulate(OnError::Local, false, |observer, seed| observer.demand(3, seed));
}
