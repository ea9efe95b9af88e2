//! A thousand gates on one store of many shards, event by event: the requests to the store, and excess admissions.
//!
//! Buckets are the library's own arithmetic; mirrors, batches, conflicts, the breaker and the fallback follow
//! `crates/store/src/shared/`, in simulated time. Not simulated are queues inside the store (its load is counted, and is to be
//! compared with its capacity), tables that forget, and clocks that differ. Clients are sampled by whole subnets,
//! because a bucket affects no other bucket but those of its own attempts; so the simulated part is exact, and only the
//! sums are scaled up.

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

/// Runs the simulation.
///
/// # Panics
/// If more was admitted than the specs allow.
pub(crate) fn run(settings: &Settings) -> Report {
    let mut world = world::World::new(settings);
    world.run();
    world.into_report()
}
