//! Buckets over a restart: `store.snapshot`, through the built binary, real signals and real crashes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "these are tests")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use support::{Gate, Upstream, eventually, new_directory, post_with};

/// A file of its own, and a gate that keeps its buckets there.
struct Kept {
    upstream: Upstream,
    directory: PathBuf,
}

impl Kept {
    fn new() -> Self {
        Self { upstream: Upstream::start(), directory: new_directory() }
    }

    fn path(&self) -> PathBuf {
        self.directory.join("buckets")
    }

    fn file(&self, limits: &str) -> String {
        self.upstream.file(&format!(
            "[route.login]\nmatch = \"POST /login\"\n{limits}\n[store]\nsnapshot = \"{}\"\n",
            self.path().display()
        ))
    }

    fn start(&self, limits: &str) -> Gate {
        Gate::start(&self.file(limits))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A bucket that does not refill while a test lasts.
fn limit(tokens: u32) -> String {
    format!("[limit.address]\nrate = \"{tokens} per 1000h\"\n")
}

/// How many of so many attempts from there are admitted.
fn admitted(gate: &Gate, source: Ipv4Addr, attempts: usize) -> usize {
    let mut client = gate.connect_from(source);
    let ask = |_: &usize| {
        client.send(post_with("/login", ""));
        client.answer().status == 200
    };
    (0..attempts).filter(ask).count()
}

fn here(gate: &Gate, attempts: usize) -> usize {
    admitted(gate, Ipv4Addr::LOCALHOST, attempts)
}

fn stop(mut gate: Gate) {
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(20)).unwrap().success());
}

/// E20: no burst for anybody.
#[test]
fn a_drained_client_has_nothing_after_a_restart() {
    let kept = Kept::new();
    let gate = kept.start(&limit(3));
    assert_eq!(here(&gate, 5), 3);
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 0, 2), 1), 1);
    stop(gate);
    for _ in 0..3 {
        let gate = kept.start(&limit(3));
        assert_eq!(here(&gate, 2), 0);
        stop(gate);
    }
    let gate = kept.start(&limit(3));
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 0, 2), 5), 2, "the others have what they had left");
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 0, 3), 5), 3, "and new ones all");
}

#[test]
fn without_a_file_a_restart_makes_all_buckets_full() {
    let upstream = Upstream::start();
    let file = upstream.file(&format!("[route.login]\nmatch = \"POST /login\"\n{}", limit(3)));
    let gate = Gate::start(&file);
    assert_eq!(here(&gate, 5), 3);
    stop(gate);
    assert_eq!(here(&Gate::start(&file), 5), 3);
}

#[test]
fn a_limit_that_was_changed_meanwhile_keeps_the_level_in_proportion() {
    let kept = Kept::new();
    let gate = kept.start(&limit(4));
    assert_eq!(here(&gate, 4), 4);
    assert_eq!(admitted(&gate, Ipv4Addr::new(127, 0, 0, 2), 2), 2);
    stop(gate);
    let gate = kept.start(&limit(8));
    assert_eq!((here(&gate, 2), admitted(&gate, Ipv4Addr::new(127, 0, 0, 2), 9)), (0, 4));
}

#[test]
fn buckets_without_an_attempt_since_a_reload_are_kept_too() {
    let kept = Kept::new();
    let gate = kept.start(&limit(4));
    assert_eq!(here(&gate, 4), 4);
    assert!(gate.reload(&kept.file(&limit(8))));
    assert!(gate.reload(&kept.file(&limit(12))));
    stop(gate);
    assert_eq!(here(&kept.start(&limit(12)), 2), 0);
}

#[test]
fn all_shapes_come_back_as_they_were() {
    let shapes = [
        "rate = \"5 per 1000h\"\ndebt = 2",
        "rate = \"5 per 1000h\"\nrefill = \"interval\"",
        "rolling = \"5 per 48h\"\nevery = \"1h\"",
        "rate = \"4 per 1000h\"\nfloor = \"1 per 1000h\"",
    ];
    for shape in shapes {
        let (kept, limit) = (Kept::new(), format!("[limit.address]\n{shape}\n"));
        let gate = kept.start(&limit);
        assert_eq!(here(&gate, 3), 3, "{shape}");
        stop(gate);
        let gate = kept.start(&limit);
        assert_eq!(here(&gate, 5), 2, "{shape}");
    }
}

fn is_told(gate: &Gate, words: &str) {
    assert!(eventually(Duration::from_secs(20), || gate.messages().contains(words)), "{words}");
}

/// I11: a file that cannot be used is no reason not to serve, and is not lost.
#[test]
fn a_damaged_file_is_set_aside_and_the_gate_serves() {
    let kept = Kept::new();
    let gate = kept.start(&limit(3));
    assert_eq!(here(&gate, 3), 3);
    stop(gate);
    let mut bytes = fs::read(kept.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(kept.path(), &bytes).unwrap();
    let gate = kept.start(&limit(3));
    is_told(&gate, "it is damaged");
    assert_eq!(here(&gate, 5), 3);
    let aside = PathBuf::from(format!("{}.damaged", kept.path().display()));
    assert_eq!(fs::read(aside).unwrap(), bytes);
    stop(gate);
    assert_eq!(here(&kept.start(&limit(3)), 1), 0, "a new one was written");
}

#[test]
fn another_capacity_begins_anew_and_says_so() {
    let kept = Kept::new();
    let gate = kept.start(&limit(3));
    assert_eq!(here(&gate, 3), 3);
    stop(gate);
    let file = kept.file(&limit(3)).replace("[store]\n", "[store]\ncapacity = 5000\n");
    let gate = Gate::start(&file);
    is_told(&gate, "are reset, all full");
    assert_eq!(here(&gate, 5), 3);
}

#[test]
fn a_file_that_cannot_be_written_is_told_once() {
    let kept = Kept::new();
    let gate = kept.start(&limit(3));
    fs::remove_dir_all(&kept.directory).unwrap();
    is_told(&gate, "store.snapshot cannot be written");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(gate.messages().matches("cannot be written").count(), 1);
    fs::create_dir(&kept.directory).unwrap();
    is_told(&gate, "is written to");
}

/// E19: what a crash gives away is what was taken in the five seconds before it, at most.
#[test]
fn three_crashes_cost_five_seconds_each_at_most() {
    // At once, because each lasts as long as it keeps: one after the other is for `scripts/soak crashes`.
    std::thread::scope(|scope| {
        for first in 1..=3 {
            scope.spawn(move || crashes(first, 1));
        }
    });
}

#[test]
#[ignore = "three minutes"]
fn twenty_crashes_cost_five_seconds_each_at_most() {
    crashes(1, 20);
}

/// So many crashes of one gate, the first of which draws this number.
fn crashes(first: u32, count: u32) {
    let kept = Kept::new();
    let (mut next, mut random) = (1_u32, first.wrapping_mul(0x9E37_79B9));
    for round in 0..count {
        let gate = kept.start(&limit(1));
        let begun = Instant::now();
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lasts = Duration::from_millis(5500 + u64::from(random >> 16) % 3000);
        let mut taken = Vec::new();
        while begun.elapsed() < lasts {
            let source = source(next);
            next += 1;
            assert_eq!(admitted(&gate, source, 1), 1, "round {round}");
            taken.push((source, Instant::now()));
            std::thread::sleep(Duration::from_millis(20));
        }
        gate.signal("KILL");
        let killed = Instant::now();
        drop(gate);
        let gate = kept.start(&limit(1));
        let old = taken.iter().filter(|(_, at)| killed.duration_since(*at) > Duration::from_secs(5));
        let given: Vec<_> = old.clone().filter(|(source, _)| admitted(&gate, *source, 1) > 0).collect();
        assert!(old.count() > 5 && given.is_empty(), "round {round}: {given:?}");
        gate.signal("KILL");
    }
    assert!(is_whole(&kept.path()));
}

fn source(number: u32) -> Ipv4Addr {
    let [_, one, two, three] = number.to_be_bytes();
    Ipv4Addr::new(127, one + 1, two, three)
}

fn is_whole(path: &Path) -> bool {
    tollgate::store::snapshot::Snapshot::read(path).unwrap().is_some()
}
