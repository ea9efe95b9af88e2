//! Sign-ins over days: people with browsers, attackers, answers that come late and in any order, reloads, small tables.
//!
//! An observer with a log of its own for each bucket holds the gate to its promises. It knows limits with a plain rate
//! only; the other shapes are in the simulation of addresses. The same seed is the same run: nonces of devices are
//! drawn, too. `SEED=7 cargo test --test simulation signins` runs one seed, `SEEDS=500` so many of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "these are tests")]

mod directory;
mod ledger;
mod month;
mod people;
mod rules;
mod world;

use world::{Seen, World};

/// Capacity for all clients, so that no bucket is forgotten.
const AMPLE: usize = 200_000;
/// Far fewer than there are buckets that are not full.
const SCARCE: usize = 20;

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    number("SEED").map_or_else(|| (1..=number("SEEDS").unwrap_or(1)).collect(), |seed| vec![seed])
}

fn run(seed: u64, capacity: usize) -> Seen {
    let mut world = World::new(seed, capacity);
    world.run(4);
    println!("seed {seed}: {:?}", world.seen);
    let seen = world.seen;
    assert!(seen.admitted > 1000 && seen.refused > 1000 && seen.kept > 300, "{seen:?}");
    assert!(seen.undone > 300 && seen.late > 3 && seen.known > 100 && seen.reloads > 3, "{seen:?}");
    seen
}

#[test]
fn no_promise_to_people_is_broken_where_there_is_room_for_everybody() {
    for seed in seeds() {
        let seen = run(seed, AMPLE);
        assert!(seen.forgotten == 0 && seen.obeyed > 10, "{seen:?}");
    }
}

#[test]
fn no_promise_to_people_is_broken_where_buckets_are_forgotten_but_for_those() {
    for seed in seeds() {
        assert!(run(seed, SCARCE).forgotten > 100);
    }
}

#[test]
fn the_same_seed_is_the_same_run_of_sign_ins() {
    let [one, again, other] = [1, 1, 2].map(|seed| {
        let mut world = World::new(seed, SCARCE);
        world.run(1);
        world.seen
    });
    assert_eq!(one, again);
    assert_ne!(one, other);
}
