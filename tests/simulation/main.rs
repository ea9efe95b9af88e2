//! Two hundred clients at one gate for thirty days: all shapes, reloads, clocks that are set back, tables that forget.
//!
//! An observer who sees what was admitted, when, and under which rules, holds the gate to its promises. The same seed
//! is the same run. `SEED=7 cargo test --test simulation` runs one seed, `SEEDS=500` so many of them.

#![allow(clippy::duplicate_mod, reason = "what is shared with a bench brings its dice along")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "these are tests")]

mod clients;
mod observer;
mod promise;
mod rules;
mod scale;
mod signins;
mod world;

use world::{Seen, World};

/// Capacity for all clients, so that no bucket is forgotten.
const AMPLE: usize = 50_000;
/// Far fewer than there are addresses, and about as many as there are networks.
const SCARCE: usize = 60;

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    number("SEED").map_or_else(|| (1..=number("SEEDS").unwrap_or(1)).collect(), |seed| vec![seed])
}

fn run(seed: u64, capacity: usize) -> Seen {
    let mut world = World::new(seed, capacity);
    world.run(30);
    println!("seed {seed}: {:?}", world.seen);
    world.seen
}

fn demand_that_something_happened(seen: Seen) {
    assert!(seen.admitted > 1000 && seen.refused > 1000 && seen.observed > 100, "{seen:?}");
    assert!(seen.reloads > 20 && seen.setbacks > 2 && seen.given_back > 10, "{seen:?}");
}

#[test]
fn no_promise_is_broken_where_there_is_room_for_everybody() {
    for seed in seeds() {
        let seen = run(seed, AMPLE);
        demand_that_something_happened(seen);
        assert!(seen.obeyed > 20, "{seen:?}");
    }
}

#[test]
fn no_promise_is_broken_where_buckets_are_forgotten_but_for_those() {
    for seed in seeds() {
        let seen = run(seed, SCARCE);
        demand_that_something_happened(seen);
        assert!(seen.forgotten > 100, "{seen:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut days = [1, 1, 2].map(|seed| World::new(seed, SCARCE));
    let [one, again, other] = days.each_mut().map(|world| {
        world.run(3);
        world.seen
    });
    assert_eq!(one, again);
    assert_ne!(one.digest, other.digest);
}
