//! Looks up the names of upstreams again and again, so that connections to addresses that a name has no longer are not used
//! again, and a name without an answer is noticed before a request waits for one.
//!
//! What an answer means is left to `proxy::upstream::addresses`. The system's resolver tells no TTL, so the pause is fixed.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Parts;
use super::sandbox::Broker;
use super::ticks::next_tick;
use crate::proxy::downstream::heartbeat::until_any_works;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::Health;

impl Parts {
    /// Never ends.
    pub(super) async fn look_up_upstreams(&self) {
        loop {
            let config = self.config.load_full();
            look_up_all(&config, self.sandbox.broker()).await;
            let has_names = named(&config).next().is_some();
            let due = async {
                match has_names {
                    true => next_tick(PERIOD).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => until_any_works(&self.serving.heartbeats).await,
                () = self.until_replaced(&config) => {}
            }
        }
    }
}

fn named(config: &RuntimeConfig) -> impl Iterator<Item = (&str, &Arc<Health>)> {
    config.upstreams.iter().flatten().filter_map(|health| Some((health.looked_up_name()?, health)))
}

/// Looks up each name once, on the broker's threads: a confined thread may not read the resolver's files.
async fn look_up_all(config: &RuntimeConfig, broker: &Broker) {
    let mut by_name: BTreeMap<&str, Vec<&Arc<Health>>> = BTreeMap::new();
    named(config).for_each(|(name, health)| by_name.entry(name).or_default().push(health));
    let permits = Arc::new(Semaphore::new(MAX_LOOKUPS));
    let mut running = JoinSet::new();
    for name in by_name.keys().map(|name| (*name).to_owned()) {
        let (broker, permits) = (broker.clone(), Arc::clone(&permits));
        running.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let asked = name.clone();
            let answer = broker.run(move || look_up(&asked)).await;
            (name, answer.and_then(|answer| answer))
        });
    }
    while let Some(done) = running.join_next().await {
        let Ok((name, answer)) = done else { continue };
        note(&name, &answer, by_name.get(&*name).map_or(&[][..], Vec::as_slice));
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    let found: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    match found.is_empty() {
        true => Err(io::Error::other("it has no address")),
        false => Ok(found),
    }
}

fn note(name: &str, answer: &io::Result<Vec<IpAddr>>, upstreams: &[&Arc<Health>]) {
    let mut has_changed = false;
    for health in upstreams {
        has_changed |= health.looked_up(answer.as_deref().ok());
    }
    match answer {
        Ok(_) if has_changed => tracing::info!("upstream: {name} has an answer again"),
        Err(error) if has_changed => {
            tracing::warn!("upstream: {name} has no answer ({error}): its last addresses are used");
        }
        Ok(_) | Err(_) => {}
    }
}

/// Between two lookups of a name.
const PERIOD: Duration = Duration::from_secs(5);
/// Lookups under way at once.
const MAX_LOOKUPS: usize = 16;
