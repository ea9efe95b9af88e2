//! Many gates at one bucket: while it has tokens no attempt is refused, and what it has is all that is admitted.
//!
//! A gate is a store of this process with a thread and connections of its own, as each process has one; clients ask it
//! directly, so that the figures are those of the store and not of HTTP. The round trips of the table are those of a
//! wire that delays and does nothing else ([`delay`](crate::together::delay)).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::bucket::{Continuous, Span, Spec};
use tollgate::store::shared::{
    Arithmetic, AvailabilityChange, CallStatus, OnError, StoreObserver, StoreOptions,
};
use tollgate::store::{Limiter, Limits, Namespace, StoreAddress};

use crate::together::delay::lengthened;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, mount, started};

/// Half a second of sixteen gates at one bucket.
#[test]
fn sixteen_gates_at_one_bucket_with_tokens_refuse_no_attempt() {
    let server = started::<Redis>();
    let figures = Crowd { gates: 16, attempts: 1_000, ..Crowd::patient() }.at(&server, PLENTY);
    figures.print::<Redis>("loopback");
    assert_eq!((figures.refused, figures.fallbacks), (0, 0));
    assert!(figures.questions <= figures.attempts + 2 * 16, "one question an attempt, and one to begin with");
}

mount!(memcached, super::Memcached, together::contention: a_mixed_fleet_admits_what_one_bucket_has_and_not_one_more);
mount!(redis, super::Redis, together::contention: a_mixed_fleet_admits_what_one_bucket_has_and_not_one_more);
mount!(postgres, super::Postgres, together::contention: a_mixed_fleet_admits_what_one_bucket_has_and_not_one_more);
mount!(mariadb, super::MariaDb, together::contention: a_mixed_fleet_admits_what_one_bucket_has_and_not_one_more);

/// Six gates, half of them with arithmetic in the store, and one bucket: no more than it has.
fn a_mixed_fleet_admits_what_one_bucket_has_and_not_one_more<S: Server>(server: S) {
    let figures = Crowd { gates: 6, attempts: 1_500, is_mixed: true, ..Crowd::patient() }.at(&server, SCARCE);
    figures.print::<S>("loopback, mixed");
    assert_eq!(figures.fallbacks, 0);
    figures.assert_kept(SCARCE);
}

#[test]
#[ignore = "five minutes, for benches/STORES.md"]
fn the_table_of_redis() {
    table::<Redis>();
}

#[test]
#[ignore = "five minutes, for benches/STORES.md"]
fn the_table_of_memcached() {
    table::<Memcached>();
}

#[test]
#[ignore = "five minutes, for benches/STORES.md"]
fn the_table_of_postgres() {
    table::<Postgres>();
}

#[test]
#[ignore = "five minutes, for benches/STORES.md"]
fn the_table_of_mariadb() {
    table::<MariaDb>();
}

/// Twenty thousand attempts in each row; with `ATTEMPTS` as many.
fn table<S: Server>() {
    let attempts = std::env::var("ATTEMPTS").map_or(20_000, |attempts| attempts.parse().unwrap());
    for micros in [0, 1_000, 2_500] {
        for gates in [2, 8, 16, 24] {
            let server = started::<S>();
            let round_trip = Duration::from_micros(micros);
            let crowd = Crowd { gates, attempts, round_trip, ..Crowd::usual() };
            let name = format!("{:.1} ms", round_trip.as_secs_f64() * 1e3);
            crowd.at(&server, PLENTY).print::<S>(&name);
            let scarce = Crowd { attempts: attempts / 4, ..crowd }.at(&server, SCARCE);
            scarce.print::<S>(&format!("{name}, {} + {}/s", SCARCE.0, SCARCE.1));
        }
    }
}

/// Gates, and four clients at each.
#[derive(Clone, Copy)]
struct Crowd {
    gates: usize,
    /// Of all clients together.
    attempts: u64,
    round_trip: Duration,
    timeout: Span,
    /// Every other one calculates by itself (`store.arithmetic = "gate"`).
    is_mixed: bool,
}

/// A bucket's tokens, and those it gets in a second.
type Tokens = (u32, u32);

impl Crowd {
    /// With the time-out of the defaults.
    fn usual() -> Self {
        Self {
            gates: 2,
            attempts: 0,
            round_trip: Duration::ZERO,
            timeout: StoreOptions::default().timeout,
            is_mixed: false,
        }
    }

    /// With time for a machine that does other things, too.
    fn patient() -> Self {
        Self { timeout: Span::from_secs(5), ..Self::usual() }
    }

    fn at<S: Server>(self, server: &S, (burst, rate): Tokens) -> Figures {
        let address: StoreAddress = lengthened(&server.url(), self.round_trip).parse().unwrap();
        let spec = Spec::Continuous(Continuous::new(rate, Span::from_secs(1), burst).unwrap());
        let options =
            StoreOptions { timeout: self.timeout, on_error: OnError::Local, ..StoreOptions::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let counts = Arc::new(Counts::default());
        // A limit of its own, so that a server can be used twice.
        let name = format!("{burst} and {rate}");
        let open = |number: usize| {
            let by_gate = self.is_mixed && number % 2 == 1;
            let arithmetic = if by_gate { Arithmetic::Gate } else { Arithmetic::Store };
            let options = StoreOptions { arithmetic, ..options };
            let observer = Arc::clone(&counts) as Arc<dyn StoreObserver>;
            Limits::open_as(&address, &Namespace::default(), b"key", options, observer).unwrap()
        };
        let gates: Vec<Limiter> = (0..self.gates)
            .map(|number| open(number).with_capacity(1_000).limiter(&name, spec).unwrap())
            .collect();
        runtime.block_on(async {
            if let Some(store) = address.open(&Namespace::default()) {
                store.unwrap().migrate().await.unwrap();
            }
            // Connections are made, and clocks are known.
            for gate in &gates {
                let _ = tokio::time::timeout(Duration::from_secs(5), async {
                    while gate.peek("nobody", 1).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                })
                .await;
            }
        });
        counts.reset();
        let begun = Instant::now();
        let (admitted, mut times) = runtime.block_on(self.attempt_all(&gates));
        times.sort_unstable();
        Figures {
            gates: self.gates,
            attempts: self.attempts,
            refused: self.attempts - admitted,
            fallbacks: counts.fallbacks.load(Ordering::Relaxed),
            questions: counts.questions.load(Ordering::Relaxed),
            lost: counts.lost.load(Ordering::Relaxed),
            took: begun.elapsed(),
            times,
        }
    }

    /// Returns how many were admitted, and how long each took.
    async fn attempt_all(self, gates: &[Limiter]) -> (u64, Vec<Duration>) {
        let left = Arc::new(AtomicU64::new(self.attempts));
        let clients = gates.iter().flat_map(|gate| std::iter::repeat_n(gate.clone(), CLIENTS));
        let clients: Vec<_> = clients
            .enumerate()
            .map(|(number, gate)| {
                let left = Arc::clone(&left);
                tokio::spawn(async move {
                    let (mut admitted, mut times) = (0, Vec::new());
                    // They do not come in step.
                    tokio::time::sleep(PAUSE * u32::try_from(number % 7).unwrap() / 7).await;
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                        .is_ok()
                    {
                        let begun = Instant::now();
                        admitted += u64::from(gate.take("client", 1).await.unwrap().is_admitted());
                        times.push(begun.elapsed());
                        tokio::time::sleep(PAUSE).await;
                    }
                    (admitted, times)
                })
            })
            .collect();
        let mut all = (0, Vec::new());
        for client in clients {
            let (admitted, times) = client.await.unwrap();
            all.0 += admitted;
            all.1.extend(times);
        }
        all
    }
}

/// What the stores of all gates report.
#[derive(Default)]
struct Counts {
    questions: AtomicU64,
    lost: AtomicU64,
    fallbacks: AtomicU64,
}

impl Counts {
    fn reset(&self) {
        for count in [&self.questions, &self.lost, &self.fallbacks] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

impl StoreObserver for Counts {
    fn call_finished(&self, result: CallStatus, _took: Span) {
        self.questions.fetch_add(1, Ordering::Relaxed);
        self.lost.fetch_add(u64::from(result == CallStatus::Conflict), Ordering::Relaxed);
    }

    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}

    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}

    fn warned(&self, _what: &str) {}

    fn fell_back(&self, _on_error: OnError) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
    }
}

struct Figures {
    gates: usize,
    attempts: u64,
    refused: u64,
    fallbacks: u64,
    questions: u64,
    lost: u64,
    took: Duration,
    times: Vec<Duration>,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    fn print<S: Server>(&self, wire: &str) {
        let share = |count: u64| count as f64 / self.attempts as f64;
        eprintln!(
            "| {} | {wire} | {} | {} | {} ({:.2} %) | {} | {:.1} / {:.1} | {:.2} ({:.2} lost) | {:.1} |",
            S::NAME,
            self.gates,
            self.attempts,
            self.refused,
            100.0 * share(self.refused),
            self.fallbacks,
            self.percentile(50),
            self.percentile(99),
            share(self.questions),
            share(self.lost),
            self.took.as_secs_f64(),
        );
    }

    /// In milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() * percent / 100).min(self.times.len() - 1)].as_secs_f64() * 1e3
    }

    /// Not one more than promised, and at most 10 % less: a busy machine is late.
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    fn assert_kept(&self, (burst, rate): Tokens) {
        let promised = f64::from(burst) + f64::from(rate) * self.took.as_secs_f64();
        let admitted = (self.attempts - self.refused) as f64;
        assert!(admitted <= promised, "{admitted} of {promised}");
        assert!(admitted >= 0.9 * promised || self.refused == 0, "{admitted} of {promised}");
    }
}

/// Clients at each gate.
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(20);
/// More than all attempts together.
const PLENTY: Tokens = (1_000_000, 1);
/// Fewer than are asked for.
const SCARCE: Tokens = (300, 100);
