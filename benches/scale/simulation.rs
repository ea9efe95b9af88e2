//! A thousand gates on one store of many shards, event by event: what the store is asked, and what is admitted too much.
//!
//! Buckets are the library's own arithmetic; mirrors, combining, lost races, the breaker and the fallback are followed as
//! `src/store/shared/` does them, in simulated time. Not simulated: queues inside the store (its load is counted, and is to be
//! held against what it can carry), tables that forget, clocks that differ. The surprising thing: clients are sampled by
//! whole subnets, since a bucket meets no other bucket but those of its own attempts; so what is simulated is exact, and
//! only the sums are scaled up.

#[path = "../../tests/simulation/dice.rs"]
#[allow(dead_code, reason = "the simulation of one gate uses the rest")]
mod dice;
mod gate;
mod observer;
mod report;
mod round;
mod settings;
mod store;
mod world;

pub(crate) use self::settings::{Routing, Settings};
#[allow(unused_imports, reason = "the program and its test use different parts")]
pub(crate) use self::{
    observer::Admissions,
    report::{Phase, Report},
};

/// Runs it to its end.
///
/// # Panics
/// If more was admitted than was promised.
pub(crate) fn run(settings: &Settings) -> Report {
    let mut world = world::World::new(settings);
    world.run();
    world.into_report()
}
