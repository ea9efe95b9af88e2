//! Attempts on the buckets of up to three limits, at gates at random: what they ask the store.
//!
//! A gate is a store of this process with a thread and connections of its own. Each address has one token of ten for
//! itself and shares those of its subnet and of an account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::bucket::{Continuous, Effect, Key, Span, Spec};
use tollgate::store::memory::{BucketKey, Withdrawal};
use tollgate::store::shared::{AvailabilityChange, CallStatus, StoreObserver, StoreOptions};
use tollgate::store::{LimitBuckets, Namespace, Store, StoreAddress, TakeState};
use tollgate::time::Clock;

use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, mount, started};

mount!(memcached, super::Memcached, together::several_limits: an_admitted_attempt_is_one_question);
mount!(redis, super::Redis, together::several_limits: an_admitted_attempt_is_one_question);
mount!(postgres, super::Postgres, together::several_limits: an_admitted_attempt_is_one_question);
mount!(mariadb, super::MariaDb, together::several_limits: an_admitted_attempt_is_one_question);

/// Three limits, four gates.
fn an_admitted_attempt_is_one_question<S: Server>(server: S) {
    let figures = Fleet::of(4, &server).attempt(3, 400);
    figures.print::<S>();
    assert_eq!(figures.admitted, 400);
    // Probes are not counted. A gate that is not certain that the store still has its records asks for an attempt once more:
    // the slower the machine, the more often.
    assert!(figures.questions <= 440, "{figures:?}");
}

#[test]
#[ignore = "minutes, for benches/STORES.md"]
fn the_table_of_limits() {
    table::<Redis>();
    table::<Memcached>();
    table::<Postgres>();
    table::<MariaDb>();
}

fn table<S: Server>() {
    for gates in [1, 2, 4, 16] {
        for limits in [1, 2, 3] {
            let server = started::<S>();
            Fleet::of(gates, &server).attempt(limits, 2_000).print::<S>();
        }
    }
}

pub(crate) struct Fleet {
    pub(crate) gates: Vec<Gate>,
    pub(crate) runtime: Runtime,
    pub(crate) questions: Arc<Questions>,
}

pub(crate) struct Gate {
    store: Store,
    limits: Vec<LimitBuckets>,
}

#[derive(Default)]
pub(crate) struct Questions(pub(crate) AtomicU64);

impl StoreObserver for Questions {
    fn call_finished(&self, _result: CallStatus, _took: Span) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}

    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}

    fn warned(&self, _what: &str) {}
}

#[derive(Debug)]
struct Figures {
    gates: usize,
    limits: usize,
    attempts: u64,
    admitted: u64,
    questions: u64,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    fn print<S: Server>(&self) {
        let Self { gates, limits, attempts, admitted, questions } = self;
        let each = *questions as f64 / *attempts as f64;
        eprintln!("| {} | {gates} | {limits} | {attempts} | {admitted} | {each:.2} |", S::NAME);
    }
}

impl Fleet {
    pub(crate) fn of<S: Server>(gates: usize, server: &S) -> Self {
        let address: StoreAddress = server.url().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (names, questions) = (Namespace::default(), Arc::new(Questions::default()));
        let backend = {
            let _within = runtime.enter();
            address.open(&names).unwrap().unwrap()
        };
        runtime.block_on(backend.migrate()).unwrap();
        let options = StoreOptions { timeout: Span::from_secs(5), ..StoreOptions::default() };
        let open = |_| {
            let observer = Arc::clone(&questions) as Arc<dyn StoreObserver>;
            let clock = Clock::system();
            let store = Store::open(&address, &names, options, 10_000, clock, observer).unwrap();
            let limits = ["address", "subnet", "account"].map(|name| store.limit(&name.into(), &[spec()]));
            Gate { store, limits: limits.into_iter().map(Result::unwrap).collect() }
        };
        Self { gates: (0..gates).map(open).collect(), runtime, questions }
    }

    /// One attempt after the other.
    fn attempt(&self, limits: usize, attempts: u64) -> Figures {
        let mut dice = 1_u64;
        // Connections are made, and clocks are known.
        for (number, gate) in self.gates.iter().enumerate() {
            let stranger = u64::MAX - u64::try_from(number).unwrap();
            while !self.take(gate, limits, stranger) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.questions.0.store(0, Ordering::Relaxed);
        let mut admitted = 0;
        for _ in 0..attempts {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let gate = usize::try_from(dice >> 33).unwrap() % self.gates.len();
            admitted += u64::from(self.take(&self.gates[gate], limits, dice >> 40 & 0xff));
            // A bucket takes part in the next request once the gate has done with the last one.
            std::thread::sleep(Duration::from_millis(1));
        }
        let questions = self.questions.0.load(Ordering::Relaxed);
        Figures { gates: self.gates.len(), limits, attempts, admitted, questions }
    }

    fn take(&self, gate: &Gate, count: usize, client: u64) -> bool {
        self.runtime.block_on(gate.take(count, |limit| bucket(limit, client)))
    }
}

impl Gate {
    /// An attempt at so many limits.
    pub(crate) async fn take(&self, count: usize, bucket: impl Fn(usize) -> BucketKey) -> bool {
        let Self { store, limits } = self;
        let withdrawal = |(limit, buckets)| Withdrawal {
            buckets,
            bucket: bucket(limit),
            cost: 1,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        };
        let withdrawals: Vec<_> = limits.iter().take(count).enumerate().map(withdrawal).collect();
        match store.take(&withdrawals, store.now()).unwrap() {
            TakeState::Done(verdict) => verdict.admitted,
            TakeState::Pending(pending) => pending
                .wait(&withdrawals, |on_error| on_error)
                .await
                .is_ok_and(|(verdict, _)| verdict.admitted),
        }
    }
}

/// An account and a subnet have eight clients each, others in either.
fn bucket(limit: usize, client: u64) -> BucketKey {
    let name = match limit {
        0 => client,
        1 => client / 8,
        _ => client % 32,
    };
    BucketKey { key: key(limit, name), class: 0, spec: spec() }
}

/// The key of a bucket of this limit.
pub(crate) fn key(limit: usize, name: u64) -> Key {
    let mixed = (u128::from(name) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    Key(mixed ^ limit as u128)
}

/// Enough for all attempts.
pub(crate) fn spec() -> Spec {
    Spec::Continuous(Continuous::new(1, Span::from_secs(3_600), 1_000).unwrap())
}
