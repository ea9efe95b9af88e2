//! Looks up the names of DNS in `[networks]` and the SRV records of upstreams, each again when its answer's time is over. A
//! changed answer leads to a reload, so no request waits for DNS and no set of networks is locked.
//!
//! Without an answer the last one counts: of networks for `client.dns_keep`, of upstreams for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::dns::{DnsFound, NameResolver};
use super::lookup_schedule::LookupSchedule;
use super::sandbox::Broker;
use crate::config::names::{DnsNames, MAX_ADDRESSES, NamedAddresses, ServiceTarget, first};
use crate::time::Time;

/// The names of the running configuration, and what is known of each.
pub(super) struct NameLookups {
    dns: DnsNames,
    known: BTreeMap<LookedUpName, LastAnswer>,
    schedule: LookupSchedule<LookedUpName, io::Result<DnsFound<FoundPlaces>>>,
}

/// A name, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LookedUpName {
    /// `"dns:NAME"` in `[networks]`.
    Network(String),
    /// `"srv+http://NAME"` in an `upstream`.
    Service(String),
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundPlaces {
    Addresses(BTreeSet<IpAddr>),
    Targets(Vec<ServiceTarget>),
}

/// A name and its answer.
pub(super) type LookupAnswer = (LookedUpName, io::Result<DnsFound<FoundPlaces>>);

/// The last answer that had an address.
#[derive(Debug, Default)]
struct LastAnswer {
    places: Option<FoundPlaces>,
    at: Time,
    /// Whether there was none since.
    is_failing: bool,
}

impl NameLookups {
    /// For a gate that has just looked them up.
    pub(super) fn new(dns: DnsNames, found: &NamedAddresses, now: Time) -> Self {
        let mut lookups =
            Self { dns: DnsNames::default(), known: BTreeMap::new(), schedule: LookupSchedule::new() };
        lookups.set(dns, found, now);
        lookups
    }

    /// Takes over the names of another configuration, and what was found for new ones.
    pub(super) fn set(&mut self, dns: DnsNames, found: &NamedAddresses, now: Time) {
        let has_other_servers = self.dns.servers != dns.servers;
        let mut former = std::mem::take(&mut self.known);
        let known = |name: LookedUpName| {
            let answer = former.remove(&name);
            let answer = answer.unwrap_or_else(|| LastAnswer {
                places: found.places(&name),
                at: now,
                is_failing: false,
            });
            (name, answer)
        };
        self.known = all_of(&dns).map(known).collect();
        self.schedule.set(all_of(&dns));
        if has_other_servers {
            self.schedule.restart();
        }
        self.dns = dns;
    }

    /// Those names of another configuration that are new.
    pub(super) fn unknown(&self, dns: &DnsNames) -> DnsNames {
        DnsNames {
            names: dns.names.difference(&self.dns.names).cloned().collect(),
            services: dns.services.difference(&self.dns.services).cloned().collect(),
            ..dns.clone()
        }
    }

    /// The answers of the next lookups; never where no name is looked up. May be dropped and called again.
    pub(super) async fn answers(&mut self, broker: &Broker) -> Vec<LookupAnswer> {
        let resolver = NameResolver::new(&self.dns.servers, broker);
        self.schedule.answers(|name| look_up(resolver.clone(), name)).await
    }

    /// Notes answers, and tells what changed in the log; what all names stand for, if that is something else now.
    pub(super) fn note(&mut self, answers: Vec<LookupAnswer>, now: Time) -> Option<NamedAddresses> {
        let before = self.found();
        for (name, answer) in answers {
            // It may have gone with a reload.
            let Some(known) = self.known.get_mut(&name) else { continue };
            self.schedule.again_in(&name, name.pause(&answer));
            match answer {
                Ok(found) => known.found(&name, found.value, now),
                Err(error) => known.missed(&name, &error, &self.dns, now),
            }
        }
        let after = self.found();
        (after != before).then_some(after)
    }

    fn found(&self) -> NamedAddresses {
        let mut found = NamedAddresses::default();
        for (name, known) in &self.known {
            match (name, &known.places) {
                (LookedUpName::Network(name), Some(FoundPlaces::Addresses(addresses))) => {
                    found.networks.insert(name.clone(), addresses.clone());
                }
                (LookedUpName::Service(name), Some(FoundPlaces::Targets(targets))) => {
                    found.services.insert(name.clone(), targets.clone());
                }
                _ => {}
            }
        }
        found
    }
}

fn all_of(dns: &DnsNames) -> impl Iterator<Item = LookedUpName> {
    let networks = dns.names.iter().cloned().map(LookedUpName::Network);
    networks.chain(dns.services.iter().cloned().map(LookedUpName::Service))
}

async fn look_up(resolver: NameResolver, name: LookedUpName) -> io::Result<DnsFound<FoundPlaces>> {
    match name {
        LookedUpName::Network(name) => {
            let DnsFound { value, ttl } = resolver.addresses(&name).await?;
            Ok(DnsFound { value: FoundPlaces::Addresses(value), ttl })
        }
        LookedUpName::Service(name) => {
            let DnsFound { value, ttl } = resolver.service(&name).await?;
            Ok(DnsFound { value: FoundPlaces::Targets(value), ttl })
        }
    }
}

impl NamedAddresses {
    fn places(&self, name: &LookedUpName) -> Option<FoundPlaces> {
        match name {
            LookedUpName::Network(name) => self.networks.get(name).cloned().map(FoundPlaces::Addresses),
            LookedUpName::Service(name) => self.services.get(name).cloned().map(FoundPlaces::Targets),
        }
    }
}

impl LookedUpName {
    /// When to look it up again.
    fn pause(&self, answer: &io::Result<DnsFound<FoundPlaces>>) -> Duration {
        let ttl = answer.as_ref().map(|found| found.ttl);
        match (self, ttl) {
            (Self::Network(_), Ok(Some(ttl))) => ttl.clamp(SHORTEST, LONGEST),
            (Self::Network(_), Ok(None)) => PERIOD,
            (Self::Network(_), Err(_)) => RETRY,
            (Self::Service(_), Ok(Some(ttl))) => ttl.clamp(SHORTEST_OF_SERVICE, LONGEST_OF_SERVICE),
            (Self::Service(_), Ok(None) | Err(_)) => RETRY_OF_SERVICE,
        }
    }
}

impl FoundPlaces {
    /// As many as count.
    fn first(self) -> Self {
        match self {
            Self::Addresses(addresses) => Self::Addresses(first(addresses)),
            targets @ Self::Targets(_) => targets,
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Addresses(addresses) => addresses.len(),
            Self::Targets(targets) => targets.len(),
        }
    }

    fn shown(&self) -> String {
        let shown: Vec<String> = match self {
            Self::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect(),
            Self::Targets(targets) => targets.iter().map(|target| target.address.to_string()).collect(),
        };
        shown.join(", ")
    }
}

impl LastAnswer {
    fn found(&mut self, name: &LookedUpName, places: FoundPlaces, now: Time) {
        let count = places.count();
        let places = places.first();
        let (is_other, shown) = (self.places.as_ref() != Some(&places), places.shown());
        match name {
            LookedUpName::Network(name) if is_other => {
                tracing::info!("[networks]: {name} is {shown} now");
                if count > places.count() {
                    tracing::warn!(
                        "[networks]: {name} has {count} addresses, and only {MAX_ADDRESSES} count"
                    );
                }
            }
            LookedUpName::Network(name) if self.is_failing => {
                tracing::info!("[networks]: {name} has an answer again");
            }
            LookedUpName::Service(name) if is_other => tracing::info!("upstream: {name} is {shown} now"),
            LookedUpName::Service(name) if self.is_failing => {
                tracing::info!("upstream: {name} has an answer again");
            }
            LookedUpName::Network(_) | LookedUpName::Service(_) => {}
        }
        *self = Self { places: Some(places), at: now, is_failing: false };
    }

    fn missed(&mut self, name: &LookedUpName, error: &io::Error, dns: &DnsNames, now: Time) {
        let count = self.places.as_ref().map_or(0, FoundPlaces::count);
        match name {
            LookedUpName::Network(name) if now.since(self.at) >= dns.keep && self.places.is_some() => {
                self.places = None;
                tracing::warn!(
                    "[networks]: {name} has had no answer for client.dns_keep ({error}): its addresses are dropped"
                );
            }
            _ if self.is_failing => {}
            LookedUpName::Network(name) => {
                tracing::warn!(
                    "[networks]: {name} has no answer ({error}): {count} earlier addresses are kept"
                );
            }
            LookedUpName::Service(name) => {
                tracing::warn!("upstream: {name} has no answer ({error}): its last addresses are used");
            }
        }
        self.is_failing = true;
    }
}

/// Between two lookups of a network whose answer has no TTL.
const PERIOD: Duration = Duration::from_secs(60);
/// The same while it has no answer.
const RETRY: Duration = Duration::from_secs(10);
/// A shorter TTL of a network counts as this one.
const SHORTEST: Duration = Duration::from_secs(5);
/// A longer one counts as this one.
const LONGEST: Duration = Duration::from_secs(3600);
/// A shorter TTL of SRV records counts as this one.
const SHORTEST_OF_SERVICE: Duration = Duration::from_secs(1);
/// A longer one counts as this one.
const LONGEST_OF_SERVICE: Duration = Duration::from_secs(300);
/// Between two lookups of SRV records without an answer.
const RETRY_OF_SERVICE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::upstream::TargetShare;
    use crate::time::Span;

    const NAME: &str = "home.example.org";

    fn addresses(last: &[u8]) -> BTreeSet<IpAddr> {
        last.iter().map(|last| IpAddr::from([203, 0, 113, *last])).collect()
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// With a name that is kept for an hour, found at the start.
    fn lookups(found: &[u8]) -> NameLookups {
        let names = BTreeSet::from([NAME.to_owned()]);
        let dns = DnsNames { names, keep: Span::from_secs(3600), ..DnsNames::default() };
        let networks = BTreeMap::from([(NAME.to_owned(), addresses(found))]);
        NameLookups::new(dns, &NamedAddresses { networks, ..NamedAddresses::default() }, at(0))
    }

    /// The addresses of the name, if they changed.
    fn note(
        lookups: &mut NameLookups,
        answer: io::Result<BTreeSet<IpAddr>>,
        seconds: u64,
    ) -> Option<BTreeSet<IpAddr>> {
        let answer = answer.map(|addresses| DnsFound { value: FoundPlaces::Addresses(addresses), ttl: None });
        let changed = lookups.note(vec![(LookedUpName::Network(NAME.to_owned()), answer)], at(seconds));
        changed.map(|names| names.addresses(NAME))
    }

    fn error() -> io::Result<BTreeSet<IpAddr>> {
        Err(io::Error::other("no such name"))
    }

    #[tokio::test]
    async fn only_another_answer_is_a_change() {
        let mut lookups = lookups(&[1, 2]);
        assert_eq!(note(&mut lookups, Ok(addresses(&[2, 1])), 60), None);
        assert_eq!(note(&mut lookups, Ok(addresses(&[3])), 120), Some(addresses(&[3])));
        let other = DnsFound { value: FoundPlaces::Addresses(addresses(&[9])), ttl: None };
        let other = (LookedUpName::Network("other.example.org".to_owned()), Ok(other));
        assert_eq!(lookups.note(vec![other], at(130)), None);
    }

    #[tokio::test]
    async fn without_an_answer_the_last_one_counts_until_its_time_is_over() {
        let mut lookups = lookups(&[1]);
        assert_eq!(note(&mut lookups, Ok(addresses(&[1])), 100), None);
        assert_eq!(note(&mut lookups, error(), 3699), None);
        assert_eq!(note(&mut lookups, error(), 3700), Some(addresses(&[])));
        assert_eq!(note(&mut lookups, error(), 3800), None);
        assert_eq!(note(&mut lookups, Ok(addresses(&[1])), 3900), Some(addresses(&[1])));
    }

    #[tokio::test]
    async fn of_many_addresses_the_same_16_count() {
        let mut lookups = lookups(&[]);
        let many: Vec<u8> = (1..=40).collect();
        assert_eq!(note(&mut lookups, Ok(addresses(&many)), 0).unwrap(), addresses(&many[..16]));
        assert_eq!(note(&mut lookups, Ok(addresses(&many[..39])), 60), None);
    }

    #[tokio::test]
    async fn without_an_answer_the_targets_of_a_service_stay() {
        let services = BTreeSet::from([NAME.to_owned()]);
        let dns = DnsNames { services, keep: Span::from_secs(60), ..DnsNames::default() };
        let mut lookups = NameLookups::new(dns, &NamedAddresses::default(), at(0));
        let name = || LookedUpName::Service(NAME.to_owned());
        let share = TargetShare { priority: 1, weight: 2 };
        let target = ServiceTarget { share, address: ([203, 0, 113, 1], 8080).into() };
        let found = DnsFound { value: FoundPlaces::Targets(vec![target]), ttl: None };
        let changed = lookups.note(vec![(name(), Ok(found))], at(1)).unwrap();
        assert_eq!(changed.targets(NAME), [target]);
        assert_eq!(lookups.note(vec![(name(), Err(io::Error::other("gone")))], at(9_999)), None);
    }

    #[test]
    fn a_ttl_is_followed_within_bounds() {
        let pause = |name: &LookedUpName, ttl: Option<u64>| {
            let (value, ttl) = (FoundPlaces::Targets(Vec::new()), ttl.map(Duration::from_secs));
            name.pause(&Ok(DnsFound { value, ttl })).as_secs()
        };
        let (network, service) = (LookedUpName::Network(String::new()), LookedUpName::Service(String::new()));
        let ttls = [Some(0), Some(2), Some(7), Some(900), Some(86_400), None];
        assert_eq!(ttls.map(|ttl| pause(&network, ttl)), [5, 5, 7, 900, 3600, 60]);
        assert_eq!(ttls.map(|ttl| pause(&service, ttl)), [1, 2, 7, 300, 300, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_only_the_system_knows_are_looked_up_every_minute_and_new_ones_at_once() {
        let keep = Span::from_secs(60);
        let names =
            |name: &str| DnsNames { names: BTreeSet::from([name.to_owned()]), keep, ..DnsNames::default() };
        let mut lookups = NameLookups::new(names("127.0.0.1"), &NamedAddresses::default(), at(0));
        let broker = Broker::not_needed();
        let start = tokio::time::Instant::now();
        let names_at = async |lookups: &mut NameLookups, seconds: u64| {
            let answers = lookups.answers(&broker).await;
            assert_eq!(start.elapsed().as_secs(), seconds);
            let count = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
            lookups.note(answers, at(seconds));
            count
        };
        assert_eq!(names_at(&mut lookups, 0).await, 1);
        let unknown = lookups.unknown(&names("localhost"));
        assert_eq!(unknown, names("localhost"));
        lookups.set(unknown, &NamedAddresses::default(), at(0));
        assert_eq!(names_at(&mut lookups, 0).await, 1);
        assert_eq!(names_at(&mut lookups, 60).await, 1);
        lookups.set(DnsNames::default(), &NamedAddresses::default(), at(60));
        let waited = tokio::time::timeout(Duration::from_secs(900), lookups.answers(&broker)).await;
        assert!(waited.is_err(), "there is nothing to look up");
    }
}
