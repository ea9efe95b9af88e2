//! Checks the health of upstreams that have a health check, all in one round, again and again.
//!
//! What a result means is left to `proxy::upstream::health_check`. Without a health check nothing runs but a look at the
//! configuration when reloads look at theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Parts;
use super::ticks::next_tick;
use crate::observe::readiness::ReadinessWarning;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::{Health, HealthChange};

impl Parts {
    /// Never ends.
    pub(super) async fn check_upstreams(&self) {
        let mut told = BTreeSet::new();
        loop {
            let config = self.config.load_full();
            check_all(&config).await;
            let ill = ill_groups(&config);
            if ill != told {
                self.tell_of_groups(&ill, &told);
                told = ill;
            }
            self.until_next_round(&config).await;
        }
    }

    /// The next round is due after the interval, or when there is another configuration.
    async fn until_next_round(&self, config: &Arc<RuntimeConfig>) {
        let is_checked = config.upstreams.iter().flatten().any(|health| health.is_checked());
        let due = async {
            match is_checked {
                true => next_tick(config.settings.health.interval.to_std()).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = self.until_replaced(config) => {}
        }
    }

    fn tell_of_groups(&self, ill: &BTreeSet<String>, told: &BTreeSet<String>) {
        for names in ill.difference(told) {
            tracing::error!(
                "all upstreams of a group fail their health checks ({names}): requests go to them as if nothing were checked"
            );
        }
        for names in told.difference(ill) {
            tracing::info!(
                "an upstream of a group has passed its health check, or has none any more ({names})"
            );
        }
        let warning = |names: &String| ReadinessWarning {
            summary: "all upstreams of a group fail their health checks",
            text: format!("all upstreams of a group fail their health checks: {names}"),
        };
        self.readiness.set_warnings("health checks", ill.iter().map(warning).collect());
    }
}

/// Checks each upstream once, and tells what that changed.
async fn check_all(config: &RuntimeConfig) {
    let permits = Arc::new(Semaphore::new(MAX_CHECKS));
    let mut running = JoinSet::new();
    let mut seen: Vec<&Arc<Health>> = config.upstreams.iter().flatten().collect();
    seen.sort_unstable_by_key(|health| Arc::as_ptr(health));
    seen.dedup_by_key(|health| Arc::as_ptr(health));
    for health in seen.into_iter().filter(|health| health.is_checked()) {
        let (health, permits, settings) =
            (Arc::clone(health), Arc::clone(&permits), Arc::clone(&config.settings));
        running.spawn(async move {
            let _permit = permits.acquire_owned().await;
            if let Some(change) = health.check(&settings).await {
                tell(health.name(), &change);
            }
        });
    }
    while running.join_next().await.is_some() {}
}

fn tell(upstream: &str, change: &HealthChange) {
    match change {
        HealthChange::Ill(why) => tracing::warn!(
            "the upstream {upstream} fails its health check: {why}: requests go to others of its group until it passes"
        ),
        HealthChange::Well => tracing::info!("the upstream {upstream} passes its health check again"),
    }
}

/// The groups whose upstreams all fail their checks, by the names of these.
fn ill_groups(config: &RuntimeConfig) -> BTreeSet<String> {
    let is_ill = |group: &&Vec<Arc<Health>>| !group.is_empty() && group.iter().all(|health| health.is_ill());
    let names =
        |group: &Vec<Arc<Health>>| group.iter().map(|health| health.name()).collect::<Vec<_>>().join(", ");
    config.upstreams.iter().filter(is_ill).map(names).collect()
}

/// Checks under way at once.
const MAX_CHECKS: usize = 64;
