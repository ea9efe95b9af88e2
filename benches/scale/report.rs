//! The report of a run: tables by phase, and excess admissions, bucket by bucket.
//!
//! The load of a shard is its part of the load that is spread over all of them, and the load of the hot buckets on it:
//! the sample itself is too small to show how evenly a hash spreads. A bucket that was sampled counts as often as it
//! stands for.

use std::fmt;

use super::settings::{Failure, Settings};
use super::world::{HOT, World};

/// What happened in one second, scaled up.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    pub(crate) attempts: u64,
    pub(crate) mirrored: u64,
    pub(crate) admitted: u64,
    /// Attempts that a gate decided on without the store.
    pub(crate) alone: u64,
    /// Attempts that were refused because of conflicts.
    pub(crate) crowded: u64,
    /// Requests about buckets of which there are very many.
    pub(crate) spread: u64,
    /// Requests about hot buckets, by shard.
    pub(crate) hot: Vec<u64>,
    pub(crate) lost: u64,
    pub(crate) timeouts: u64,
    pub(crate) probes: u64,
    /// Gates with an open breaker, at its beginning.
    pub(crate) shut: u64,
}

/// A part of a run.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) attempts: u64,
    pub(crate) admitted: u64,
    pub(crate) mirrored: u64,
    pub(crate) alone: u64,
    pub(crate) crowded: u64,
    pub(crate) questions: u64,
    pub(crate) peak: u64,
    pub(crate) shard_median: u64,
    pub(crate) shard_peak: u64,
    pub(crate) lost: u64,
    pub(crate) timeouts: u64,
    pub(crate) shut: u64,
    seconds: u64,
}

/// Buckets that were decided on in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) buckets: u64,
    pub(crate) over: u64,
    pub(crate) worst: u64,
    pub(crate) most_alone: u64,
}

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    settings: Settings,
    pub(crate) phases: Vec<Phase>,
    /// Decided by the store alone; by a store that forgot; by gates alone, too.
    pub(crate) fates: [Fate; 3],
    pub(crate) probes: u64,
    /// Gates with an open breaker.
    pub(crate) shut_at_end: u64,
    /// Buckets in the mirror of the median gate; in the store.
    pub(crate) mirrored_buckets: u64,
    pub(crate) stored_buckets: u64,
}

impl Second {
    pub(crate) fn new(shards: u64) -> Self {
        Self {
            attempts: 0,
            mirrored: 0,
            admitted: 0,
            alone: 0,
            crowded: 0,
            spread: 0,
            hot: vec![0; usize::try_from(shards).unwrap_or(1)],
            lost: 0,
            timeouts: 0,
            probes: 0,
            shut: u64::MAX,
        }
    }

    pub(crate) fn questions(&self) -> u64 {
        self.spread + self.hot.iter().sum::<u64>()
    }

    fn by_shard(&self) -> impl Iterator<Item = u64> {
        self.hot.iter().map(|hot| hot + self.spread / self.hot.len() as u64)
    }
}

impl Phase {
    fn of(name: String, seconds: &[Second]) -> Self {
        let sum = |what: fn(&Second) -> u64| seconds.iter().map(what).sum::<u64>();
        let mut by_shard: Vec<u64> = seconds.iter().flat_map(Second::by_shard).collect();
        by_shard.sort_unstable();
        Self {
            name,
            attempts: sum(|second| second.attempts),
            admitted: sum(|second| second.admitted),
            mirrored: sum(|second| second.mirrored),
            alone: sum(|second| second.alone),
            crowded: sum(|second| second.crowded),
            questions: sum(Second::questions),
            peak: seconds.iter().map(Second::questions).max().unwrap_or(0),
            shard_median: by_shard.get(by_shard.len() / 2).copied().unwrap_or(0),
            shard_peak: by_shard.last().copied().unwrap_or(0),
            lost: sum(|second| second.lost),
            timeouts: sum(|second| second.timeouts),
            shut: seconds
                .iter()
                .map(|second| second.shut)
                .filter(|&shut| shut != u64::MAX)
                .max()
                .unwrap_or(0),
            seconds: seconds.len() as u64,
        }
    }
}

impl Report {
    /// # Panics
    /// If more was admitted than the specs allow.
    pub(super) fn of(world: World) -> Self {
        let fates = fates(&world);
        let weight = |bucket: u64| if bucket >> 48 == HOT { 1 } else { world.settings.sample };
        let mut mirrored: Vec<u64> =
            world.gates.iter().map(|gate| gate.mirror.keys().map(|&bucket| weight(bucket)).sum()).collect();
        mirrored.sort_unstable();
        Self {
            phases: phases(&world.settings, &world.seconds),
            fates,
            probes: world.seconds.iter().map(|second| second.probes).sum(),
            shut_at_end: world.gates.iter().map(|gate| u64::from(gate.has_open())).sum(),
            mirrored_buckets: mirrored[mirrored.len() / 2],
            stored_buckets: world.store.rows(world.now) * world.settings.sample,
            settings: world.settings,
        }
    }
}

/// Checks every bucket.
fn fates(world: &World) -> [Fate; 3] {
    let mut fates: [Fate; 3] = Default::default();
    for (&bucket, admissions) in &world.admissions {
        let losses = world.store.losses(bucket);
        let judged = admissions.clone().judge(&world.spec(bucket), losses);
        let fate = match (judged.alone, losses) {
            (0, 0) => &mut fates[0],
            (0, _) => &mut fates[1],
            _ => &mut fates[2],
        };
        fate.buckets += world.weight(bucket);
        fate.over += judged.over * world.weight(bucket);
        fate.worst = fate.worst.max(judged.over);
        fate.most_alone = fate.most_alone.max(judged.alone);
    }
    fates
}

fn phases(settings: &Settings, seconds: &[Second]) -> Vec<Phase> {
    let mut borders = vec![(0, "people alone".to_owned()), (settings.attack_at, "attack".to_owned())];
    // By then the bursts are spent, and gates know what to expect.
    let settled = settings.attack_at + 60;
    if settings.failures.is_empty() && settled < settings.seconds {
        borders.push((settled, "attack, after a minute".to_owned()));
    }
    for &Failure { shards, from, until, is_lossy } in &settings.failures {
        let what = if is_lossy { "started again empty" } else { "away" };
        borders.push((from, format!("{shards} of {} shards {what}, {} s", settings.shards, until - from)));
        borders.push((until, "after it".to_owned()));
    }
    let ends = borders.iter().skip(1).map(|&(at, _)| at).chain([settings.seconds]);
    let both = borders.iter().zip(ends);
    let index = |second: u64| usize::try_from(second).unwrap_or(0).min(seconds.len());
    both.map(|((from, name), end)| Phase::of(name.clone(), &seconds[index(*from)..index(end)])).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { seed, gates, shards, routing, together, people, bots, hot, sample, seconds, .. } =
            &self.settings;
        let asks = if *together { "an attempt is one request" } else { "a bucket is one request" };
        writeln!(
            f,
            "seed {seed}: {gates} gates ({routing:?}), {shards} shards, {asks}, {people} people, {bots} bots, \
             {hot} hot addresses, {seconds} s, 1 subnet of {sample} simulated\n"
        )?;
        writeln!(
            f,
            "| phase | attempts/s | admitted/s | answered by mirrors | store requests/s | peak | a shard, median | \
             busiest shard and second | lost | timed out | decided alone | refused by conflicts | \
             gates with an open breaker |"
        )?;
        writeln!(f, "| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")?;
        self.phases.iter().try_for_each(|phase| phase.write(f))?;
        writeln!(
            f,
            "\n| buckets | how many | admitted beyond one bucket | worst bucket | gates that decided alone, at most |"
        )?;
        writeln!(f, "| :-- | --: | --: | --: | --: |")?;
        let names = ["decided by the store", "forgotten by the store", "decided by gates alone, too"];
        for (name, fate) in names.iter().zip(&self.fates) {
            let Fate { buckets, over, worst, most_alone } = fate;
            writeln!(f, "| {name} | {buckets} | {over} | {worst} | {most_alone} |")?;
        }
        let mirror = self.mirrored_buckets * MIRROR_BYTES_BY_TEN / 10;
        writeln!(
            f,
            "\nmirror of a gate: {} buckets seen, {mirror} bytes; store: {} buckets",
            self.mirrored_buckets, self.stored_buckets
        )?;
        writeln!(f, "probes: {} a second in all", self.probes / (*seconds).max(1))?;
        writeln!(f, "gates with an open breaker at the end: {}", self.shut_at_end)
    }
}

impl Phase {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = |count: u64| count / self.seconds.max(1);
        writeln!(
            f,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            a_second(self.attempts),
            a_second(self.admitted),
            Part(self.mirrored, self.attempts),
            a_second(self.questions),
            self.peak,
            self.shard_median,
            self.shard_peak,
            Part(self.lost, self.questions),
            Part(self.timeouts, self.questions),
            Part(self.alone, self.attempts),
            self.crowded,
            self.shut,
        )
    }
}

/// A part of a whole, in tenths of a percent.
struct Part(u64, u64);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mille = self.0 * 1000 / self.1.max(1);
        write!(f, "{}.{} %", mille / 10, mille % 10)
    }
}

/// A table line of five buckets has 64 bytes, and their entries have 192 more.
const MIRROR_BYTES_BY_TEN: u64 = 640;
