//! A limit: how often, and for which clients.
//!
//! It counts nothing: its buckets live in a store. The surprising thing: what the file calls one limit may be several here,
//! which follow each other and share a name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attempt::{Attempt, Client};
use super::key::{KeyPart, PrefixLengths};
use super::network::{NetworkMap, NetworkSet};
use crate::bucket::Spec;

/// How often: `[limit.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The identity in metrics, headers, admin paths and buckets.
    pub name: Arc<str>,
    /// What the bucket is kept for, joined by `+` in the file.
    pub key: Vec<KeyPart>,
    /// How many leading bits of an address make a bucket.
    pub prefixes: PrefixLengths,
    /// The bucket of everybody who has no other rate.
    pub spec: Spec,
    /// Other rates for some clients; the longest prefix wins.
    pub rates: NetworkMap<ClassRate>,
    /// Clients that this limit does not see.
    pub exempt: NetworkSet,
    /// Whether a refusal of this limit refuses.
    pub mode: Mode,
    /// What its tokens are spent on in the end.
    pub charge_on: ChargeOn,
    /// What is counted once.
    pub unit: Unit,
    /// What it is of the limit of its name.
    pub kind: LimitKind,
}

/// What tokens are spent on: `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeOn {
    /// On every attempt.
    Attempts,
    /// On attempts that failed: the others get theirs back.
    Failures,
}

/// What is counted once: `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: every attempt counts.
    Attempts,
    /// An account that was tried lately.
    Users,
    /// A password that was tried lately for its account.
    Passwords,
}

/// A limit may keep several buckets for each key: each is a limit of the same name, and follows the one with the rate.
///
/// Their order is part of the names of buckets in shared stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// What `rate` says.
    Rate,
    /// What `max_failures` says: tokens that only a success brings back.
    Cap,
    /// What `escalate` says: waits that grow.
    Escalation,
}

/// The rate of clients who have another one than the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassRate {
    /// The name or prefix in the file: part of the bucket's identity, so that a narrower client in a wider
    /// bucket's prefix keeps a bucket of its own.
    pub class: Arc<str>,
    /// Counts the limit's classes, from 1; clients without another rate are class 0.
    pub number: usize,
    /// `None` means no limit.
    pub spec: Option<Spec>,
}

/// What a limit does with what it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses.
    Enforce,
    /// Decides, logs and counts, but never refuses.
    Observe,
    /// Is not there.
    Off,
}

impl Limit {
    /// A limit that keeps such a bucket for each client; all else as it is where the file says nothing.
    #[must_use]
    pub fn new(name: &str, spec: Spec) -> Self {
        Self {
            name: name.into(),
            key: vec![KeyPart::Ip],
            prefixes: PrefixLengths::default(),
            spec,
            rates: NetworkMap::default(),
            exempt: NetworkSet::default(),
            mode: Mode::Enforce,
            charge_on: ChargeOn::Attempts,
            unit: Unit::Attempts,
            kind: LimitKind::Rate,
        }
    }

    /// The number and name of the class that this client belongs to, and the bucket that its members have; `None`:
    /// this limit does not see it.
    #[must_use]
    pub fn rate_of(&self, attempt: &Attempt<'_>) -> Option<(usize, &str, Spec)> {
        self.rate_of_client(attempt.client)
    }

    /// The same for a client of whom no more is known.
    pub(super) fn rate_of_client(&self, client: Client) -> Option<(usize, &str, Spec)> {
        let Some(ip) = client.known_ip() else { return Some((0, "", self.spec)) };
        if self.exempt.find_translated(ip).is_some() {
            return None;
        }
        match self.rates.find_translated(ip) {
            Some(rate) => rate.spec.map(|spec| (rate.number, &*rate.class, spec)),
            None => Some((0, "", self.spec)),
        }
    }

    /// Names and buckets of all classes of clients, by number.
    #[must_use]
    pub fn classes(&self) -> Vec<(Arc<str>, Option<Spec>)> {
        let others: BTreeMap<usize, &ClassRate> =
            self.rates.iter().map(|(_, rate)| (rate.number, rate)).collect();
        let mut classes = vec![("".into(), Some(self.spec))];
        for (number, rate) in others {
            // A class that resolves to no network has no clients.
            classes.resize(number, ("".into(), None));
            classes.push((Arc::clone(&rate.class), rate.spec));
        }
        classes
    }

    /// Whether it is about single accounts: such a limit never shows itself to clients, so that nobody learns which
    /// accounts there are, or are under attack.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.key.iter().any(|part| matches!(part, KeyPart::User | KeyPart::Device))
    }

    /// Whether its numbers are told to clients.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.kind == LimitKind::Rate && !self.is_hidden()
    }

    /// Whether one client can empty what others pay from for the same account.
    #[must_use]
    pub fn is_account(&self) -> bool {
        self.key.contains(&KeyPart::User)
            && !self.key.iter().any(|part| matches!(part, KeyPart::Ip | KeyPart::Device))
    }

    /// Whether it matters to it whom an attempt is about.
    #[must_use]
    pub fn needs_accounts(&self) -> bool {
        self.is_hidden() || self.unit != Unit::Attempts
    }
}
