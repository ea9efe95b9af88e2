//! Distinct clients and the worst of them, in bounded memory.
//!
//! Up to a bound all is exact. Beyond it distinct clients are estimated by HyperLogLog (Flajolet et al., AofA 2007), and
//! of the refused clients those with few refusals are forgotten, as in lossy counting (Manku and Motwani, VLDB 2002), so
//! that the worst keep their counts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use cardinality_estimator::CardinalityEstimator;

use crate::policy::attempt::Client;
use crate::replay::report::{CountedClient, DistinctCount};
use crate::time::{Span, Time};

/// 2^14 registers: a standard error of 1.04 / 2^7 = 0.8 %.
type Estimator = CardinalityEstimator<u64, DefaultHasher, 14, 6>;

/// A number of distinct clients.
#[derive(Debug, Default)]
pub(in crate::replay) struct CountedClients {
    exact: HashSet<Client>,
    /// Without a seed: the same log gives the same report.
    hashes: BuildHasherDefault<DefaultHasher>,
    estimate: Option<Box<Estimator>>,
}

impl CountedClients {
    pub(in crate::replay) fn insert(&mut self, client: Client) {
        match &mut self.estimate {
            Some(estimate) => estimate.insert_hash(self.hashes.hash_one(client)),
            None => {
                self.exact.insert(client);
                if self.exact.len() > MAX_EXACT {
                    let mut estimate = Box::<Estimator>::default();
                    let known = std::mem::take(&mut self.exact);
                    known.iter().for_each(|client| estimate.insert_hash(self.hashes.hash_one(client)));
                    self.estimate = Some(estimate);
                }
            }
        }
    }

    pub(in crate::replay) fn count(&self) -> DistinctCount {
        let count = self.estimate.as_ref().map_or(self.exact.len(), |estimate| estimate.estimate());
        DistinctCount { count: u64::try_from(count).unwrap_or(u64::MAX), exact: self.estimate.is_none() }
    }
}

/// Clients that were refused.
#[derive(Debug, Default)]
pub(in crate::replay) struct RefusedClients {
    distinct: CountedClients,
    known: HashMap<Client, RefusedClient>,
}

#[derive(Debug)]
struct RefusedClient {
    refused: u64,
    last: Time,
    /// Failures since the first refusal.
    failures: u64,
    is_person: bool,
}

impl RefusedClients {
    pub(in crate::replay) fn refuse(&mut self, client: Client, now: Time) {
        self.distinct.insert(client);
        if self.known.len() >= MAX_EXACT && !self.known.contains_key(&client) {
            self.forget_half();
        }
        let new = || RefusedClient { refused: 0, last: now, failures: 0, is_person: false };
        let known = self.known.entry(client).or_insert_with(new);
        (known.refused, known.last) = (known.refused + 1, now);
    }

    pub(in crate::replay) fn failed(&mut self, client: Client) {
        if let Some(known) = self.known.get_mut(&client) {
            known.failures += 1;
        }
    }

    pub(in crate::replay) fn signed_in(&mut self, client: Client, now: Time) {
        if let Some(known) = self.known.get_mut(&client) {
            known.is_person |= is_person(known.failures, known.last, now);
        }
    }

    pub(in crate::replay) fn likely_false_positives(&self) -> u64 {
        u64::try_from(self.persons().count()).unwrap_or(u64::MAX)
    }

    /// Those of them with the most refusals.
    pub(in crate::replay) fn worst_false_positives(&self) -> Vec<CountedClient> {
        worst_of(self.persons())
    }

    fn persons(&self) -> impl Iterator<Item = (&Client, &RefusedClient)> {
        self.known.iter().filter(|(_, known)| known.is_person)
    }

    pub(in crate::replay) fn distinct(&self) -> DistinctCount {
        self.distinct.count()
    }

    /// The clients with the most refusals.
    pub(in crate::replay) fn worst(&self) -> Vec<CountedClient> {
        worst_of(self.known.iter())
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<u64> = self.known.values().map(|known| known.refused).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.known.retain(|_, known| known.refused > median);
    }
}

/// The most refusals first, of equal ones the smaller address.
fn worst_of<'c>(clients: impl Iterator<Item = (&'c Client, &'c RefusedClient)>) -> Vec<CountedClient> {
    let mut all: Vec<(u64, Client)> = clients.map(|(client, known)| (known.refused, *client)).collect();
    all.sort_by_key(|&(refused, client)| (std::cmp::Reverse(refused), client.ip()));
    let counted = |&(refused, client): &(u64, Client)| CountedClient { client: name(client), refused };
    all.iter().take(MAX_WORST).map(counted).collect()
}

/// Whether who signs in now is a person who was refused: soon after it, and without the failures of a program.
pub(super) fn is_person(failures: u64, refused_at: Time, now: Time) -> bool {
    failures <= FAILURES_OF_A_PERSON && now.since(refused_at) <= SOON
}

fn name(client: Client) -> String {
    client.ip().map_or_else(|| "-".to_owned(), |ip| ip.to_string())
}

/// Clients that are counted exactly, and refused clients that are known by name.
const MAX_EXACT: usize = 65_536;

/// The longest list of clients in a report.
const MAX_WORST: usize = 10;

/// A client that signs in this soon after a refusal is probably a person.
const SOON: Span = Span::from_secs(3_600);

/// Nobody types more wrong passwords before the right one.
const FAILURES_OF_A_PERSON: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> Client {
        Client::from_ip(std::net::Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn few_clients_are_counted_exactly_and_many_within_three_standard_errors() {
        let mut clients = CountedClients::default();
        (0..60_000).chain(0..60_000).for_each(|number| clients.insert(client(number)));
        assert_eq!((clients.count().count, clients.count().exact), (60_000, true));
        (60_000..500_000).for_each(|number| clients.insert(client(number)));
        let count = clients.count();
        assert!(!count.exact && count.count.abs_diff(500_000) < 12_500, "{count:?}");
    }

    #[test]
    fn the_worst_keep_their_counts_among_more_clients_than_are_known() {
        let mut refused = RefusedClients::default();
        let now = Time::from_nanos(1);
        for number in 0..200_000 {
            refused.refuse(client(1_000_000 + number), now);
            if number % 100 == 0 {
                (0..3).for_each(|bad| refused.refuse(client(bad), now));
            }
        }
        let worst = refused.worst();
        assert_eq!(worst.iter().map(|one| one.refused).take(4).collect::<Vec<_>>(), [2_000, 2_000, 2_000, 1]);
        assert_eq!(worst.len(), 10);
        assert!(refused.known.len() <= MAX_EXACT);
    }

    #[test]
    fn a_client_that_signs_in_within_the_hour_is_counted_once() {
        let mut refused = RefusedClients::default();
        let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
        refused.signed_in(client(1), at(0));
        [1, 2, 3].into_iter().for_each(|number| refused.refuse(client(number), at(10)));
        refused.signed_in(client(1), at(10 + 3_600));
        refused.signed_in(client(1), at(10 + 3_600));
        refused.signed_in(client(2), at(11 + 3_600));
        assert_eq!(refused.likely_false_positives(), 1);
        assert_eq!(refused.worst_false_positives()[0].client, "0.0.0.1");
    }

    #[test]
    fn a_program_that_guesses_right_is_no_false_positive() {
        let mut refused = RefusedClients::default();
        let now = Time::from_nanos(1);
        for (number, failures) in [(1, 20), (2, 21)] {
            refused.refuse(client(number), now);
            (0..failures).for_each(|_| refused.failed(client(number)));
            refused.signed_in(client(number), now);
        }
        assert_eq!(refused.worst_false_positives().len(), 1);
        assert_eq!(refused.worst_false_positives()[0].client, "0.0.0.1");
    }
}
