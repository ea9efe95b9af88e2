//! The settings of a run: who takes part, what they do, and what fails.
//!
//! `sample` is the one number that makes a run short; it changes how exact the sums are, and nothing that a single
//! bucket sees.

use tollgate::bucket::{Continuous, Spec};
use tollgate::time::Span;

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) gates: u64,
    pub(crate) shards: u64,
    pub(crate) routing: Routing,
    /// Whether the buckets of an attempt are asked for in one request, as without a cluster.
    pub(crate) together: bool,
    /// People, in subnets of 256, all of whom sign in now and then.
    pub(crate) people: u64,
    /// Attempts of one person in a day.
    pub(crate) people_a_day: u64,
    /// Machines of the botnet; `bots_in_subnet` of them in each subnet that has any.
    pub(crate) bots: u64,
    pub(crate) bots_in_subnet: u64,
    /// How long a bot waits between two attempts.
    pub(crate) bot_gap: Span,
    /// Addresses with a flood of their own, beside the botnet; these are not sampled.
    pub(crate) hot: u64,
    pub(crate) hot_gap: Span,
    /// One subnet in this many is simulated.
    pub(crate) sample: u64,
    pub(crate) seconds: u64,
    /// When the botnet begins, in seconds.
    pub(crate) attack_at: u64,
    pub(crate) failures: Vec<Failure>,
}

/// Which gate an attempt comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Any: a balancer that knows no clients.
    Any,
    /// Always the same for a client: a balancer that hashes addresses.
    Home,
}

/// Shards that do not answer for a while.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) shards: u64,
    /// Seconds.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Whether they come back without what they held.
    pub(crate) is_lossy: bool,
}

impl Settings {
    /// The run of `benches/SCALE.md`.
    pub(crate) fn whole(seed: u64) -> Self {
        Self {
            seed,
            gates: 1000,
            shards: 64,
            routing: Routing::Any,
            together: false,
            people: 100_000_000,
            people_a_day: 2,
            bots: 500_000,
            bots_in_subnet: 20,
            bot_gap: Span::from_secs(2),
            hot: 4,
            hot_gap: Span::from_nanos(100_000),
            sample: 50,
            seconds: 150,
            attack_at: 30,
            failures: Vec::new(),
        }
    }

    /// A million attempts a second, on a dozen shards.
    #[allow(dead_code, reason = "its test runs nothing as large")]
    pub(crate) fn million(seed: u64) -> Self {
        Self { shards: 12, bots: 2_000_000, sample: 400, seconds: 100, attack_at: 10, ..Self::whole(seed) }
    }

    /// Runs with one failure each, after three fifths of the time; the first has none.
    pub(crate) fn failing(self) -> Vec<Self> {
        let from = self.seconds * 3 / 5;
        let failure = |shards, lasts, is_lossy| Failure { shards, from, until: from + lasts, is_lossy };
        let one = failure(1, self.seconds / 5, false);
        let two = failure(2, 2, true);
        let all = failure(self.shards, self.seconds / 10, false);
        let with = |failures| Self { failures, ..self.clone() };
        vec![with(vec![]), with(vec![one]), with(vec![two]), with(vec![all])]
    }

    /// A small run, for a test.
    pub(crate) fn tiny(seed: u64) -> Self {
        Self {
            gates: 20,
            shards: 4,
            people: 10_000,
            people_a_day: 400,
            bots: 200,
            bot_gap: Span::from_secs(1),
            hot: 2,
            hot_gap: Span::from_millis(10),
            sample: 1,
            seconds: 90,
            attack_at: 10,
            failures: vec![
                Failure { shards: 1, from: 30, until: 40, is_lossy: false },
                Failure { shards: 1, from: 50, until: 53, is_lossy: true },
                Failure { shards: 4, from: 65, until: 75, is_lossy: false },
            ],
            ..Self::whole(seed)
        }
    }

    /// The limit per address: five attempts a minute.
    pub(crate) fn address() -> Spec {
        spec(5)
    }

    /// The limit per subnet: sixty attempts a minute.
    pub(crate) fn subnet() -> Spec {
        spec(60)
    }

    /// The number of simulated clients of each kind: people, bots, hot addresses.
    pub(crate) fn simulated(&self) -> [u64; 3] {
        [self.people / self.sample, self.bots / self.sample, self.hot]
    }
}

fn spec(count: u32) -> Spec {
    match Continuous::new(count, Span::from_secs(60), count) {
        Ok(bucket) => Spec::Continuous(bucket),
        Err(error) => unreachable!("{error}"),
    }
}
