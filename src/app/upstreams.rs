//! The upstreams of a file, and which of them the next file still names.
//!
//! An address that is in several groups is one upstream, with one load and one health in all of them. Under another
//! name (`upstream_host`) it is another one: connections are verified for a name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use super::ticks::next_tick;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::{Health, HealthProbe, UpstreamTarget};

/// The health of each upstream, by group.
pub(super) type UpstreamGroups = Vec<Vec<Arc<Health>>>;

impl Parts {
    /// Waits until there is another configuration than this one.
    pub(super) async fn until_replaced(&self, config: &Arc<RuntimeConfig>) {
        while Arc::ptr_eq(&self.config.load(), config) {
            next_tick(PERIOD).await;
        }
    }
}

/// The health of these upstreams. A target that is not among the `known` gets a `fresh` one.
pub(super) fn resolve(
    groups: Vec<Vec<UpstreamTarget>>,
    known: &UpstreamGroups,
    fresh: impl Fn(UpstreamTarget) -> Arc<Health>,
) -> UpstreamGroups {
    let mut seen: HashMap<UpstreamTarget, Arc<Health>> =
        known.iter().flatten().map(|health| (health.target().clone(), Arc::clone(health))).collect();
    let mut health = |target: UpstreamTarget| {
        Arc::clone(seen.entry(target).or_insert_with_key(|target| fresh(target.clone())))
    };
    groups.into_iter().map(|group| group.into_iter().map(&mut health).collect()).collect()
}

/// The upstreams of `groups` that `others` lack.
pub(super) fn added<'g>(
    others: &'g UpstreamGroups,
    groups: &'g UpstreamGroups,
) -> impl Iterator<Item = &'g Health> {
    let known: HashSet<*const Health> = others.iter().flatten().map(Arc::as_ptr).collect();
    let is_new = move |health: &&'g Arc<Health>| !known.contains(&Arc::as_ptr(health));
    groups.iter().flatten().filter(is_new).map(Arc::as_ref)
}

/// Gives each upstream its health check, and takes that of others away.
pub(super) fn set_probes(groups: &UpstreamGroups, probes: &HashMap<UpstreamTarget, HealthProbe>) {
    groups.iter().flatten().for_each(|health| health.set_probe(probes.get(health.target())));
}

/// How often to look for another configuration: when reloads look for other files.
const PERIOD: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Events;
    use crate::proxy::upstream::UpstreamAddress;
    use crate::time::Clock;

    fn groups(names: &[&[&str]], known: &UpstreamGroups) -> UpstreamGroups {
        let address = |name: &&str| UpstreamAddress::Unix(name.into()).into();
        let names = names.iter().map(|group| group.iter().map(address).collect()).collect();
        resolve(names, known, |target| Health::new(target, 1, Clock::system(), Events::default()))
    }

    #[test]
    fn an_address_is_one_upstream_in_all_groups_and_files() {
        let first = groups(&[&["a", "b"], &["b"]], &UpstreamGroups::new());
        assert!(Arc::ptr_eq(&first[0][1], &first[1][0]));
        let second = groups(&[&["c"], &["b"]], &first);
        assert!(Arc::ptr_eq(&second[1][0], &first[0][1]));
        let names = |old, new| added(old, new).map(|health| health.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&first, &second), ["unix:c"]);
        assert_eq!(names(&second, &first), ["unix:a"]);
    }
}
