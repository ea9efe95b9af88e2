//! Four gates admit together what one bucket has, and never one more.
//!
//! Over every store, counted at the application: at most the burst and the rate times the time from the first attempt to the
//! last answer, and at least 97 % of the tokens that were there until the last attempt was sent, a refused one. The gates
//! wait for the store for two seconds instead of 50 ms: an attempt decided without it is not decided exactly, so the test
//! first asserts that there was none. The short runs take three seconds, the ignored ones ten.

use std::time::Duration;

use crate::together::fleet::{Fleet, GATES, Plan};
use crate::together::load::{Attempt, Load, LoadPlan, admitted, worst_excess};
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcacheds;
use support::servers::mysql::MariaDb;
use support::servers::postgres::{Postgres, PostgresSerializable};
use support::servers::redis::{Redis, RedisCluster};
use support::{Server, mount, started};

mount!(redis, super::Redis, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(redis_cluster, super::RedisCluster, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(memcached, super::Memcacheds, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(postgres, super::Postgres, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(postgres_serializable, super::PostgresSerializable, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(mariadb, super::MariaDb, together::exact: admits_the_burst_and_the_rate_and_not_one_more);
mount!(dynamodb, super::Dynalite, together::exact: admits_the_burst_and_the_rate_and_not_one_more);

/// A limit as the file says it, and as the test counts it.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    pub(crate) burst: u32,
    /// A second.
    pub(crate) rate: u32,
}

impl Promise {
    pub(crate) fn line(self) -> String {
        format!("rate = \"{}/s burst {}\"", self.rate, self.burst)
    }

    /// Whether [`AT_LEAST`] of what was there when the last attempt was sent was admitted.
    fn is_kept_by(self, attempts: &[Attempt], late: Duration) -> bool {
        let first = attempts.iter().map(|attempt| attempt.sent).min().unwrap();
        let last = attempts.iter().map(|attempt| attempt.sent).max().unwrap();
        let admitted = u32::try_from(admitted(attempts)).unwrap();
        f64::from(admitted) >= AT_LEAST * self.after((last - first).saturating_sub(late))
    }

    fn after(self, time: Duration) -> f64 {
        f64::from(self.burst) + f64::from(self.rate) * time.as_secs_f64()
    }
}

fn admits_the_burst_and_the_rate_and_not_one_more<S: Server>(server: S) {
    let promise = ROOMY;
    let figures = run(&Plan::patient(server.url(), &promise.line()), promise, Duration::from_secs(3));
    figures.print::<S>("");
    figures.assert_within(0.0, LATE);
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_redis() {
    ten_seconds::<Redis>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_redis_cluster() {
    ten_seconds::<RedisCluster>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_memcached() {
    ten_seconds::<Memcacheds>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_postgres() {
    ten_seconds::<Postgres>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_postgres_serializable() {
    ten_seconds::<PostgresSerializable>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_mariadb() {
    ten_seconds::<MariaDb>();
}

#[test]
#[ignore = "long, for benches/STORES.md"]
fn ten_seconds_over_dynamodb() {
    ten_seconds::<Dynalite>();
}

/// At the rate of a person's limit, and at one at which every gate asks all the time.
fn ten_seconds<S: Server>() {
    for promise in [Promise { burst: 20, rate: 50 }, Promise { burst: 500, rate: 500 }] {
        let server = started::<S>();
        let figures = run(&Plan::patient(server.url(), &promise.line()), promise, Duration::from_secs(10));
        figures.print::<S>("");
        figures.assert(0.0);
    }
}

/// What a run showed.
pub(crate) struct Figures {
    promise: Promise,
    attempts: Vec<Attempt>,
    arrived: usize,
    lost_races: u64,
    questions: u64,
}

/// 64 connections to each gate with one key.
pub(crate) fn run(plan: &Plan<'_>, promise: Promise, time: Duration) -> Figures {
    run_at(&plan.start(), promise, time, LATE)
}

/// The same at gates that run, of which some may be so late.
pub(crate) fn run_at(fleet: &Fleet, promise: Promise, time: Duration, late: Duration) -> Figures {
    let plan = LoadPlan { connections: 64, keys: 1, pause: Duration::from_millis(50) };
    let load = Load::start(fleet.addresses(), plan);
    std::thread::sleep(time);
    let attempts = load.stop_and_drain(fleet.addresses()[0], |attempts| promise.is_kept_by(attempts, late));
    fleet.assert_all_by_store();
    let questions = |result| fleet.total("tollgate_store_requests_total", result);
    let (lost_races, questions) = (questions("lost"), questions(""));
    Figures { promise, attempts, arrived: fleet.arrived(), lost_races, questions }
}

impl Figures {
    fn times(&self) -> (Duration, Duration) {
        let first = self.attempts.iter().map(|attempt| attempt.sent).min().unwrap();
        let last_sent = self.attempts.iter().map(|attempt| attempt.sent).max().unwrap();
        let last_answer = self.attempts.iter().map(|attempt| attempt.answered).max().unwrap();
        (last_sent - first, last_answer - first)
    }

    pub(crate) fn print<S: Server>(&self, what: &str) {
        let ((least, most), Promise { burst, rate }) = (self.times(), self.promise);
        eprintln!(
            "| {} {what} | {GATES} | {} + {}/s | {:.2} | {} | {} | {:.1} to {:.1} | {} / {} |",
            std::any::type_name::<S>().rsplit("::").next().unwrap(),
            burst,
            rate,
            most.as_secs_f64(),
            self.attempts.len(),
            self.arrived,
            self.promise.after(least),
            self.promise.after(most),
            self.lost_races,
            self.questions,
        );
    }

    /// As promised, but for so many seconds of rate more.
    pub(crate) fn assert(&self, seconds: f64) {
        self.assert_within(seconds, Duration::ZERO);
    }

    /// The same where what became due in the last moment may be missing.
    pub(crate) fn assert_within(&self, seconds: f64, late: Duration) {
        let Promise { burst, rate } = self.promise;
        let (least, most) = self.times();
        assert!(self.attempts.iter().all(|attempt| matches!(attempt.status, 200 | 429)), "no other answers");
        assert_eq!(
            self.arrived,
            admitted(&self.attempts),
            "all that arrived, and nothing else, was told 200"
        );
        let (arrived, more) = (f64::from(u32::try_from(self.arrived).unwrap()), seconds * f64::from(rate));
        assert!(arrived <= self.promise.after(most) + more, "{arrived} of {}", self.promise.after(most));
        let least = AT_LEAST * self.promise.after(least.saturating_sub(late));
        assert!(arrived >= least, "{arrived} of {least}");
        let worst = worst_excess(self.attempts.iter(), f64::from(burst), f64::from(rate));
        assert!(worst <= more, "{worst} too many in some stretch of time");
    }
}

/// What a bucket keeps until it is taken: gates that a busy machine holds up for seconds lose none of it, and one client
/// takes it faster than it comes.
pub(crate) const ROOMY: Promise = Promise { burst: 200, rate: 20 };

/// What leases that lapse at their end leave of the tokens (docs/internals/decisions/026-leases.md).
const AT_LEAST: f64 = 0.97;

/// So long a busy machine may keep back an attempt: of three seconds more than 1 %.
pub(crate) const LATE: Duration = Duration::from_millis(100);
