//! Looks up the names of DNS in `[networks]` again and again. A changed answer leads to a reload, so no request waits for
//! DNS and no set of networks is locked.
//!
//! Without an answer the last one counts for `client.dns_keep`. The system's resolver tells no TTL, so the pause is
//! fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::sandbox::Broker;
use crate::config::names::{DnsNames, MAX_ADDRESSES, NamedAddresses, first, look_up};
use crate::time::Time;

/// The names of the running configuration, and what is known of each.
pub(super) struct NameLookups {
    dns: DnsNames,
    known: BTreeMap<String, LastAnswer>,
    ticks: Interval,
    running: Option<JoinHandle<Vec<NameAnswer>>>,
}

/// A name and its answer.
pub(super) type NameAnswer = (String, io::Result<BTreeSet<IpAddr>>);

/// The last answer that had an address.
#[derive(Debug, Default)]
struct LastAnswer {
    addresses: BTreeSet<IpAddr>,
    at: Time,
    /// Whether there was none since.
    is_failing: bool,
}

impl NameLookups {
    /// For a gate that has just looked them up.
    pub(super) fn new(dns: DnsNames, addresses: &NamedAddresses, now: Time) -> Self {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let known = dns.names.iter().map(|name| {
            let addresses = addresses.addresses(name);
            (name.clone(), LastAnswer { addresses, at: now, is_failing: false })
        });
        Self { known: known.collect(), dns, ticks, running: None }
    }

    /// Takes over the names of another configuration.
    pub(super) fn set(&mut self, dns: DnsNames) {
        if self.dns.names != dns.names {
            self.known.retain(|name, _| dns.names.contains(name));
            self.ticks.reset_immediately();
        }
        self.dns = dns;
    }

    /// The answers of the next lookup; never where no name is looked up. May be dropped and called again.
    pub(super) async fn answers(&mut self, broker: &Broker) -> Vec<NameAnswer> {
        if self.dns.names.is_empty() {
            return std::future::pending().await;
        }
        if self.running.is_none() {
            self.ticks.tick().await;
        }
        let running = self.running.get_or_insert_with(|| tokio::spawn(look_up_on(broker, &self.dns.names)));
        let answers = running.await.unwrap_or_default();
        self.running = None;
        answers
    }

    /// Notes answers, and tells what changed in the log; the addresses of all names, if they are other ones now.
    pub(super) fn note(&mut self, answers: Vec<NameAnswer>, now: Time) -> Option<NamedAddresses> {
        let before = self.addresses();
        for (name, answer) in answers {
            // It may have gone with a reload.
            if self.dns.names.contains(&name) {
                let known = self.known.entry(name.clone()).or_default();
                match answer {
                    Ok(addresses) => known.found(&name, addresses, now),
                    Err(error) => known.missed(&name, &error, &self.dns, now),
                }
            }
        }
        if self.known.values().any(|known| known.addresses.is_empty()) {
            self.ticks.reset_after(RETRY);
        }
        let after = self.addresses();
        (after != before).then_some(after)
    }

    fn addresses(&self) -> NamedAddresses {
        self.known.iter().map(|(name, known)| (name.clone(), known.addresses.clone())).collect()
    }
}

impl LastAnswer {
    fn found(&mut self, name: &str, addresses: BTreeSet<IpAddr>, now: Time) {
        let count = addresses.len();
        let addresses = first(addresses);
        if self.addresses != addresses {
            let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            tracing::info!("[networks]: {name} is {} now", shown.join(", "));
            if count > addresses.len() {
                tracing::warn!("[networks]: {name} has {count} addresses, and only {MAX_ADDRESSES} count");
            }
        } else if self.is_failing {
            tracing::info!("[networks]: {name} has an answer again");
        }
        *self = Self { addresses, at: now, is_failing: false };
    }

    fn missed(&mut self, name: &str, error: &io::Error, dns: &DnsNames, now: Time) {
        let is_over = now.since(self.at) >= dns.keep && !self.addresses.is_empty();
        if is_over {
            self.addresses.clear();
            tracing::warn!(
                "[networks]: {name} has had no answer for client.dns_keep ({error}): its addresses are dropped"
            );
        } else if !self.is_failing {
            let count = self.addresses.len();
            tracing::warn!("[networks]: {name} has no answer ({error}): {count} earlier addresses are kept");
        }
        self.is_failing = true;
    }
}

/// Each on its own thread of the broker: a confined thread may not read the resolver's files.
fn look_up_on(broker: &Broker, names: &BTreeSet<String>) -> impl Future<Output = Vec<NameAnswer>> + use<> {
    let mut lookups = JoinSet::new();
    for name in names.clone() {
        let broker = broker.clone();
        lookups.spawn(async move {
            let asked = name.clone();
            let answer = broker.run(move || look_up(&asked)).await;
            (name, answer.and_then(|answer| answer))
        });
    }
    lookups.join_all()
}

/// Between two lookups of a name.
const PERIOD: Duration = Duration::from_secs(60);
/// The same while a name has no address.
const RETRY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
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
        let dns = DnsNames { names: BTreeSet::from([NAME.to_owned()]), keep: Span::from_secs(3600) };
        let known = NamedAddresses::from_iter([(NAME.to_owned(), addresses(found))]);
        NameLookups::new(dns, &known, at(0))
    }

    /// The addresses of the name, if they changed.
    fn note(
        lookups: &mut NameLookups,
        answer: io::Result<BTreeSet<IpAddr>>,
        seconds: u64,
    ) -> Option<BTreeSet<IpAddr>> {
        let changed = lookups.note(vec![(NAME.to_owned(), answer)], at(seconds));
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
        assert_eq!(lookups.note(vec![("other.example.org".to_owned(), Ok(addresses(&[9])))], at(130)), None);
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

    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_at_once_again_when_they_change_and_else_every_minute() {
        let keep = Span::from_secs(60);
        let names = |name: &str| DnsNames { names: BTreeSet::from([name.to_owned()]), keep };
        let mut lookups = NameLookups::new(names("127.0.0.1"), &NamedAddresses::default(), at(0));
        let broker = Broker::not_needed();
        let start = tokio::time::Instant::now();
        let names_at = async |lookups: &mut NameLookups, seconds: u64| {
            let answers = lookups.answers(&broker).await;
            assert_eq!(start.elapsed().as_secs(), seconds);
            answers.into_iter().map(|(name, answer)| (name, answer.is_ok())).collect::<Vec<_>>()
        };
        assert_eq!(names_at(&mut lookups, 0).await.len(), 1);
        lookups.set(names("localhost"));
        assert_eq!(names_at(&mut lookups, 0).await, [("localhost".to_owned(), true)]);
        assert_eq!(names_at(&mut lookups, 60).await.len(), 1);
        lookups.set(DnsNames { names: BTreeSet::new(), keep });
        let waited = tokio::time::timeout(Duration::from_secs(900), lookups.answers(&broker)).await;
        assert!(waited.is_err(), "there is nothing to look up");
    }
}
