//! Looks up the names of upstreams again and again, so that connections go to the addresses that a name has now, those to
//! addresses that it has no longer are not used again, and a name without an answer is noticed before a request waits for one.
//!
//! What an answer means is left to `proxy::upstream::addresses`, SRV records to `name_lookups`.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use super::dns::{DnsFound, NameResolver};
use super::lookup_schedule::LookupSchedule;
use crate::proxy::downstream::heartbeat::until_any_works;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::{Health, NameAnswer};
use crate::time::Span;

type UpstreamLookups = LookupSchedule<String, io::Result<DnsFound<BTreeSet<IpAddr>>>>;

impl Parts {
    /// Never ends.
    pub(super) async fn look_up_upstreams(&self) {
        let mut lookups = UpstreamLookups::new();
        let mut servers: Vec<SocketAddr> = Vec::new();
        loop {
            let config = self.config.load_full();
            lookups.set(named(&config).map(|(name, _)| name.to_owned()));
            if servers != config.settings.resolver {
                servers.clone_from(&config.settings.resolver);
                lookups.restart();
            }
            // A name that is known may be that of a new upstream, at another port.
            let new = named(&config).filter(|(_, health)| health.was_never_looked_up());
            new.for_each(|(name, _)| lookups.renew(&name.to_owned()));
            let has_names = named(&config).next().is_some();
            let answers = async {
                if !has_names {
                    return std::future::pending().await;
                }
                lookups.until_due().await;
                if !lookups.has_new() {
                    until_any_works(&self.serving.heartbeats).await;
                }
                let resolver = NameResolver::new(&servers, self.sandbox.broker());
                lookups.answers(|name| resolver.clone().addresses_of(name)).await
            };
            tokio::select! {
                answers = answers => for (name, answer) in answers {
                    let pause = note(&name, &answer, &config);
                    lookups.again_in(&name, pause);
                },
                () = self.until_replaced(&config) => {}
            }
        }
    }
}

fn named(config: &RuntimeConfig) -> impl Iterator<Item = (&str, &Arc<Health>)> {
    config.upstreams.iter().flatten().filter_map(|health| Some((health.looked_up_name()?, health)))
}

/// Tells the upstreams of this name the answer. When to look it up again.
fn note(name: &str, answer: &io::Result<DnsFound<BTreeSet<IpAddr>>>, config: &RuntimeConfig) -> Duration {
    let found = answer.as_ref().ok();
    let addresses: Vec<IpAddr> = found.map_or_else(Vec::new, |found| found.value.iter().copied().collect());
    let has_resolver = !config.settings.resolver.is_empty();
    let longest = if has_resolver { LONGEST } else { PERIOD };
    let ttl = found.and_then(|found| found.ttl).map(|ttl| ttl.clamp(SHORTEST, longest));
    // Without a TTL the system's resolver is asked for each connection, unless the configuration names another one.
    let holds = ttl.or(has_resolver.then_some(PERIOD));
    let holds = holds.map(|holds| Span::from_nanos(u64::try_from(holds.as_nanos()).unwrap_or(u64::MAX)));
    let mut has_changed = false;
    for (_, health) in named(config).filter(|(named, _)| *named == name) {
        has_changed |= health.looked_up(found.map(|_| NameAnswer { addresses: &addresses, holds }));
    }
    match answer {
        Ok(_) if has_changed => tracing::info!("upstream: {name} has an answer again"),
        Err(error) if has_changed => {
            tracing::warn!("upstream: {name} has no answer ({error}): its last addresses are used");
        }
        Ok(_) | Err(_) => {}
    }
    ttl.unwrap_or(PERIOD)
}

/// Between two lookups of a name whose answer has no TTL. Without `proxy.resolver` also the longest pause: the system's servers,
/// as those of containers, may give another address before the time that they named is over.
const PERIOD: Duration = Duration::from_secs(5);
/// A shorter TTL counts as this one.
const SHORTEST: Duration = Duration::from_secs(1);
/// A longer TTL counts as this one, with `proxy.resolver`.
const LONGEST: Duration = Duration::from_secs(300);
