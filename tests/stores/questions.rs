//! The model of `benches/SCALE.md` against real stores: the number of store requests (questions) of each scene, by the
//! store's own count; over memcached by the gates' count, since there a request is several commands.
//!
//! Every gate is a `Limits` with its own mirror, queue and connection, in one process. The scenes run for half a minute
//! and need a quiet machine, so they are ignored by default:
//! `cargo test --test stores questions -- --ignored --nocapture --test-threads 1`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on says so, asks the real clock, and prints what it measured"
)]

use support::dice;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dice::Dice;
use support::Server;
use tokio::runtime::Runtime;
use tollgate::bucket::{Continuous, Span, Spec};
use tollgate::store::shared::{AvailabilityChange, CallStatus, StoreObserver, StoreOptions};
use tollgate::store::{Limiter, Limits};
use tollgate::store::{Namespace, StoreAddress};

#[cfg(feature = "redis")]
#[test]
#[ignore = "measures for minutes"]
fn redis_is_asked_as_often_as_the_model_says() {
    compare::<support::servers::redis::Redis>(false);
}

#[cfg(feature = "memcached")]
#[test]
#[ignore = "measures for minutes"]
fn memcached_is_asked_as_often_as_the_model_says() {
    compare::<support::servers::memcached::Memcached>(true);
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "measures for minutes"]
fn postgres_is_asked_as_often_as_the_model_says() {
    compare::<support::servers::postgres::Postgres>(false);
}

/// What a scene costs, by the model.
#[derive(Clone, Copy)]
struct Model {
    asked: f64,
    /// Whether it is only a bound.
    is_bound: bool,
}

/// Attempts of a scene, and those that were admitted.
struct Count(u64, u64);

/// Gates on one store.
struct Gates {
    runtime: Runtime,
    limits: Vec<Limits>,
    questions: Arc<Questions>,
}

/// The requests of all gates.
#[derive(Default)]
struct Questions(AtomicU64);

impl StoreObserver for Questions {
    fn call_finished(&self, _result: CallStatus, _took: Span) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}

    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}

    fn warned(&self, _what: &str) {}
}

struct Scene {
    name: &'static str,
    run: fn(&Gates) -> Count,
    model: fn(f64) -> Model,
}

const SCENES: [Scene; 10] = [
    Scene {
        name: "one refused key, no token due, 4.9 s",
        run: refused_for_good,
        model: |gates| Model::of(5.0 * gates),
    },
    Scene {
        name: "one refused key, 2 tokens a second, 4.9 s",
        run: refused_but_twice_a_second,
        model: |gates| Model::of(10.0 * gates),
    },
    Scene {
        name: "one refused key, a token each 2.5 s, 4.9 s",
        run: refused_but_now_and_then,
        model: |gates| Model::of(6.0 * gates),
    },
    Scene { name: "one key, 2,000 admitted, any gate", run: admitted_anywhere, model: |_| Model::of(2000.0) },
    Scene {
        name: "200 keys, 10 admitted each, always the same gate",
        run: admitted_at_home,
        model: |_| Model::of(2000.0),
    },
    Scene { name: "2,000 keys, once each", run: seen_once, model: |_| Model::of(2000.0) },
    Scene { name: "500 keys, 1 admitted and 9 refused each, any gate", run: refused_anywhere, model: spread },
    Scene { name: "2,000 keys, taken and given back", run: given_back, model: |_| Model::of(4000.0) },
    Scene {
        name: "200 times all gates at once at one key",
        run: race,
        model: |gates| Model { is_bound: true, ..Model::of(200.0 * gates) },
    },
    // At least eight of the 64 in each round.
    Scene {
        name: "one key, 64 at once at each gate, 6,400 each",
        run: combined,
        model: |gates| Model { is_bound: true, ..Model::of(800.0 * gates) },
    },
];

/// Of `gates`, so many see a key that is asked for ten times anywhere; each asks once.
fn spread(gates: f64) -> Model {
    let seeing = gates * (1.0 - (1.0 - 1.0 / gates).powi(10));
    Model::of(500.0 * seeing)
}

fn compare<S: Server>(by_gates: bool) {
    println!(
        "| scene | gates | attempts | admitted | {}, predicted | counted |\n| :-- | --: | --: | --: | --: | --: |",
        S::NAME
    );
    let mut wrong = Vec::new();
    for scene in &SCENES {
        for count in [1, 2, 4, 8] {
            let mut server = support::started::<S>();
            let gates = Gates::open(&server, count);
            let count_all = |server: &mut S, gates: &Gates| match by_gates {
                true => gates.questions.0.load(Ordering::Relaxed),
                false => server.questions(),
            };
            let before = count_all(&mut server, &gates);
            let Count(attempts, admitted) = (scene.run)(&gates);
            gates.settle();
            let counted = (count_all(&mut server, &gates) - before) as f64;
            let Model { asked: predicted, is_bound } = (scene.model)(count as f64);
            let sign = if is_bound { "at most " } else { "" };
            println!(
                "| {} | {count} | {attempts} | {admitted} | {sign}{predicted:.0} | {counted:.0} |",
                scene.name
            );
            // One more for each gate where a second ends within the scene.
            let room = predicted * 0.1 + 2.0 * count as f64;
            if counted > predicted + room || (!is_bound && counted < predicted - room) {
                wrong.push(format!("{}, {count} gates: {counted} instead of {predicted}", scene.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

impl Model {
    fn of(asked: f64) -> Self {
        Self { asked, is_bound: false }
    }
}

impl Gates {
    fn open(server: &impl Server, count: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address: StoreAddress = server.url().parse().unwrap();
        let names = Namespace::default();
        let store = {
            let _within = runtime.enter();
            address.open(&names).unwrap().unwrap()
        };
        runtime.block_on(store.migrate()).unwrap();
        let manner = StoreOptions { timeout: Span::from_secs(5), ..StoreOptions::default() };
        let questions = Arc::new(Questions::default());
        let open = || {
            let observer = Arc::clone(&questions) as Arc<dyn StoreObserver>;
            Limits::open_as(&address, &names, b"key", manner, observer).unwrap()
        };
        let limits = (0..count).map(|_| open().with_capacity(10_000)).collect();
        Self { runtime, limits, questions }
    }

    /// One limit in all of them: a token each `nanos`.
    fn limit(&self, per_token: Span, burst: u32) -> Vec<Limiter> {
        let spec = Spec::Continuous(Continuous::new(1, per_token, burst).unwrap());
        self.limits.iter().map(|limits| limits.limiter("address", spec).unwrap()).collect()
    }

    fn settle(&self) {
        for limits in &self.limits {
            self.runtime.block_on(limits.store().flush(Duration::from_secs(10)));
        }
    }

    /// Eight callers at each gate ask for one key without rest; how often.
    fn hammer(&self, limiters: &[Limiter]) -> Count {
        let end = Instant::now() + Duration::from_millis(4900);
        let callers = limiters.iter().flat_map(|limiter| std::iter::repeat_n(limiter.clone(), 8));
        let tasks: Vec<_> = callers
            .map(|limiter| {
                self.runtime.spawn(async move {
                    let (mut attempts, mut admitted) = (0, 0);
                    while Instant::now() < end {
                        let taken = limiter.take("client", 1).await.unwrap();
                        attempts += 1;
                        admitted += u64::from(taken.is_admitted());
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    (attempts, admitted)
                })
            })
            .collect();
        tasks.into_iter().fold(Count(0, 0), |Count(attempts, admitted), task| {
            let (more, more_admitted) = self.runtime.block_on(task).unwrap();
            Count(attempts + more, admitted + more_admitted)
        })
    }

    fn take(&self, limiter: &Limiter, key: u64) -> bool {
        self.runtime.block_on(limiter.take(key.to_be_bytes(), 1)).unwrap().is_admitted()
    }
}

fn refused_for_good(gates: &Gates) -> Count {
    gates.hammer(&gates.limit(HOUR, 1))
}

fn refused_but_twice_a_second(gates: &Gates) -> Count {
    gates.hammer(&gates.limit(Span::from_millis(500), 1))
}

fn refused_but_now_and_then(gates: &Gates) -> Count {
    gates.hammer(&gates.limit(Span::from_millis(2500), 1))
}

fn admitted_anywhere(gates: &Gates) -> Count {
    let (limiters, mut dice) = (gates.limit(HOUR, 10_000), Dice::new(1));
    (0..2000).for_each(|_| assert!(gates.take(any(&limiters, &mut dice), 0)));
    Count(2000, 2000)
}

fn admitted_at_home(gates: &Gates) -> Count {
    let limiters = gates.limit(HOUR, 10);
    for number in 0..2000 {
        let key = number % 200;
        assert!(gates.take(&limiters[usize::try_from(key).unwrap() % limiters.len()], key));
    }
    Count(2000, 2000)
}

fn seen_once(gates: &Gates) -> Count {
    let (limiters, mut dice) = (gates.limit(HOUR, 1), Dice::new(2));
    (0..2000).for_each(|key| assert!(gates.take(any(&limiters, &mut dice), key)));
    Count(2000, 2000)
}

fn refused_anywhere(gates: &Gates) -> Count {
    let (limiters, mut dice) = (gates.limit(HOUR, 1), Dice::new(3));
    for key in 0..500 {
        let admitted = (0..10).filter(|_| gates.take(any(&limiters, &mut dice), key)).count();
        assert_eq!(admitted, 1);
    }
    Count(5000, 500)
}

fn given_back(gates: &Gates) -> Count {
    let (limiters, mut dice) = (gates.limit(HOUR, 1), Dice::new(4));
    for key in 0..2000_u64 {
        let limiter = any(&limiters, &mut dice);
        limiter.refund(gates.runtime.block_on(limiter.take(key.to_be_bytes(), 1)).unwrap());
    }
    Count(2000, 2000)
}

fn race(gates: &Gates) -> Count {
    let limiters = gates.limit(HOUR, 8);
    for key in 0..200_u64 {
        let ask = |limiter: &Limiter| {
            let limiter = limiter.clone();
            gates
                .runtime
                .spawn(async move { limiter.take(key.to_be_bytes(), 1).await.unwrap().is_admitted() })
        };
        let tasks: Vec<_> = limiters.iter().map(ask).collect();
        assert!(tasks.into_iter().all(|task| gates.runtime.block_on(task).unwrap()));
    }
    let attempts = 200 * limiters.len() as u64;
    Count(attempts, attempts)
}

fn combined(gates: &Gates) -> Count {
    let limiters = gates.limit(HOUR, 100_000);
    let callers = limiters.iter().flat_map(|limiter| std::iter::repeat_n(Arc::new(limiter.clone()), 64));
    let ask = |limiter: Arc<Limiter>| {
        gates.runtime.spawn(async move {
            let mut admitted = 0;
            for _ in 0..100 {
                admitted += u64::from(limiter.take("client", 1).await.unwrap().is_admitted());
            }
            admitted
        })
    };
    let tasks: Vec<_> = callers.map(ask).collect();
    let admitted = tasks.into_iter().map(|task| gates.runtime.block_on(task).unwrap()).sum();
    Count(6400 * limiters.len() as u64, admitted)
}

fn any<'l>(limiters: &'l [Limiter], dice: &mut Dice) -> &'l Limiter {
    &limiters[usize::try_from(dice.within(0..limiters.len() as u64)).unwrap()]
}

const HOUR: Span = Span::from_secs(3600);
