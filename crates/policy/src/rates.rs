//! The rates of some clients of a limit: `[limit.NAME.rates]`.
//!
//! A client belongs to one class. Its account decides first, then a credential in a header, the monitor that signed its
//! request, its certificate, the longest prefix with its address, its autonomous system, its country. What a bucket of a
//! class does is left to its [`Spec`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use super::client_fact::{AddressFact, AddressFacts};
use super::fingerprint::Fingerprint;
use super::network::NetworkMap;
use tollgate_bucket::Spec;

/// The classes of clients with another rate than the limit's, and which clients are in them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// By number, from 1.
    classes: Vec<ClassRate>,
    users: HashMap<Fingerprint, usize>,
    credentials: Vec<CredentialRates>,
    monitors: HashMap<Box<str>, usize>,
    certificates: HashMap<Box<str>, usize>,
    networks: NetworkMap<usize>,
    facts: HashMap<AddressFact, usize>,
}

/// The credentials in one header.
#[derive(Debug, Clone, PartialEq)]
struct CredentialRates {
    header: HeaderName,
    values: HashMap<Fingerprint, usize>,
}

/// The rate of a class of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRate {
    /// The name or prefix in the file, and never a credential: part of the bucket's identity, so that a narrower client
    /// in a wider bucket's prefix keeps its own bucket.
    pub class: Arc<str>,
    /// The number of the class, from 1; clients at the limit's rate are class 0.
    pub number: usize,
    /// `None` means no limit.
    pub spec: Option<Spec>,
}

impl Rates {
    /// Adds a class that nobody belongs to yet, and returns its number.
    pub fn add(&mut self, class: &str, spec: Option<Spec>) -> usize {
        let number = self.classes.len() + 1;
        self.classes.push(ClassRate { class: class.into(), number, spec });
        number
    }

    /// Puts an account into a class. Returns whether it has no other: the first class of an account stays.
    pub fn insert_user(&mut self, account: Fingerprint, class: usize) -> bool {
        *self.users.entry(account).or_insert(class) == class
    }

    /// Puts the clients with this header value into a class. Returns as above.
    pub fn insert_credential(&mut self, header: HeaderName, value: Fingerprint, class: usize) -> bool {
        let known = self.credentials.iter().position(|known| known.header == header);
        let at = known.unwrap_or(self.credentials.len());
        if known.is_none() {
            self.credentials.push(CredentialRates { header, values: HashMap::new() });
        }
        let Some(CredentialRates { values, .. }) = self.credentials.get_mut(at) else { return false };
        *values.entry(value).or_insert(class) == class
    }

    /// Puts a network into a class; the first class of a prefix stays.
    pub fn insert_network(&mut self, network: IpNet, class: usize) {
        self.networks.insert(network, class);
    }

    /// Puts the requests that this monitor signed into a class. Returns as above.
    pub fn insert_monitor(&mut self, name: &str, class: usize) -> bool {
        *self.monitors.entry(name.into()).or_insert(class) == class
    }

    /// Puts the clients with a certificate of this name into a class. Returns as above.
    pub fn insert_certificate(&mut self, name: &str, class: usize) -> bool {
        *self.certificates.entry(name.into()).or_insert(class) == class
    }

    /// Puts the addresses of which this is known into a class. Returns as above.
    pub fn insert_fact(&mut self, fact: AddressFact, class: usize) -> bool {
        *self.facts.entry(fact).or_insert(class) == class
    }

    /// The same classes with other buckets; a class without a limit stays so.
    #[must_use]
    pub fn map(mut self, spec: impl Fn(Spec) -> Spec) -> Self {
        self.classes.iter_mut().for_each(|class| class.spec = class.spec.map(&spec));
        self
    }

    /// All classes, by number from 1.
    #[must_use]
    pub fn classes(&self) -> &[ClassRate] {
        &self.classes
    }

    /// Whether accounts have classes.
    #[must_use]
    pub fn lists_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Whether certificates have classes.
    #[must_use]
    pub fn lists_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// The facts of addresses that have classes.
    pub fn address_facts(&self) -> impl Iterator<Item = &AddressFact> {
        self.facts.keys()
    }

    /// Whether a class has no limit.
    pub(super) fn frees_some(&self) -> bool {
        self.classes.iter().any(|class| class.spec.is_none())
    }

    /// The networks whose clients have no limit.
    pub fn free_networks(&self) -> impl Iterator<Item = IpNet> {
        let is_free = |class: &usize| self.class(Some(class)).is_some_and(|class| class.spec.is_none());
        self.networks.iter().filter(move |(_, class)| is_free(class)).map(|(network, _)| network)
    }

    /// The class of an account.
    #[must_use]
    pub fn of_user(&self, account: Fingerprint) -> Option<&ClassRate> {
        self.class(self.users.get(&account))
    }

    /// The class of the longest prefix with this address.
    #[must_use]
    pub fn of_address(&self, ip: IpAddr) -> Option<&ClassRate> {
        self.class(self.networks.find_translated(ip))
    }

    /// The class of the requests that this monitor signed.
    pub(super) fn of_monitor(&self, name: &str) -> Option<&ClassRate> {
        self.class(self.monitors.get(name))
    }

    /// The class of a certificate of this name.
    pub(super) fn of_certificate(&self, name: &str) -> Option<&ClassRate> {
        self.class(self.certificates.get(name))
    }

    /// The class of an address of which this is known.
    pub(super) fn of_facts(&self, known: AddressFacts) -> Option<&ClassRate> {
        self.class(known.iter().find_map(|fact| self.facts.get(&fact)))
    }

    /// The class of a request by its headers: of several credentials the first in the file counts.
    pub(super) fn of_headers(&self, headers: &HeaderMap) -> Option<&ClassRate> {
        let known = self.credentials.iter().flat_map(|CredentialRates { header, values }| {
            let sent = headers.get_all(header).iter();
            sent.filter_map(|value| values.get(&Fingerprint::of(value.as_bytes())))
        });
        self.class(known.min())
    }

    /// The classes that an address and headers which nobody knows may have.
    pub(super) fn of_unknown(&self, ip: Option<IpAddr>) -> Vec<&ClassRate> {
        let credentials = self.credentials.iter().flat_map(|known| known.values.values());
        let networks = self.networks.iter().map(|(_, class)| class);
        let of_addresses = networks.chain(self.facts.values());
        let of_addresses = of_addresses.filter(|_| ip.is_none());
        let proven = credentials.chain(self.monitors.values()).chain(self.certificates.values());
        let mut numbers: Vec<&usize> = proven.chain(of_addresses).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter_map(|number| self.class(Some(number))).collect()
    }

    fn class(&self, number: Option<&usize>) -> Option<&ClassRate> {
        self.classes.get(number?.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;
    use tollgate_bucket::{Continuous, Span};

    fn rates() -> Rates {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(1), 9).unwrap());
        let mut rates = Rates::default();
        for class in ["partner", "backup", "office"] {
            rates.add(class, Some(spec));
        }
        let key = HeaderName::from_static("x-api-key");
        assert!(rates.insert_credential(key.clone(), Fingerprint::of(b"planted"), 1));
        assert!(!rates.insert_credential(key, Fingerprint::of(b"planted"), 3), "the first stays");
        assert!(rates.insert_user(account("Backup "), 2));
        assert!(!rates.insert_user(account("backup"), 3), "another spelling of the same name");
        rates.insert_network("192.0.2.0/24".parse().unwrap(), 3);
        rates
    }

    fn account(name: &str) -> Fingerprint {
        Fingerprint::of_account(&Account::fold(name.as_bytes()))
    }

    fn name(class: Option<&ClassRate>) -> Option<&str> {
        class.map(|rate| &*rate.class)
    }

    #[test]
    fn names_and_credentials_are_found_as_they_are_written_and_not_shown() {
        let rates = rates();
        assert_eq!(name(rates.of_user(account("BACKUP"))), Some("backup"));
        assert_eq!(rates.of_user(account("alice")), None);
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append("X-Api-Key", value.parse().unwrap());
            });
            name(rates.of_headers(&headers))
        };
        assert_eq!([of(&["planted"]), of(&["junk", "planted"])], [Some("partner"); 2]);
        assert_eq!([of(&[]), of(&[""]), of(&["Planted"])], [None; 3]);
        assert!(!format!("{rates:?}").contains("planted"), "{rates:?}");
    }

    #[test]
    fn a_class_keeps_its_number_and_its_name_with_other_buckets() {
        let waits = Spec::Continuous(Continuous::new(1, Span::from_secs(60), 1).unwrap());
        let mut mixed = rates();
        mixed.add("free", None);
        let classes: Vec<_> =
            mixed.map(|_| waits).classes().iter().map(|class| (class.number, class.spec)).collect();
        assert_eq!(classes, [(1, Some(waits)), (2, Some(waits)), (3, Some(waits)), (4, None)]);
    }
}
