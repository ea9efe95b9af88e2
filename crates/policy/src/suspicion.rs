//! Signs that no person makes an attempt: an account that no person uses, and failures that follow each other too
//! quickly. Such an attempt counts as several for the address of its client.
//!
//! It is decided and answered as any other. What it costs besides is left to the engine, which takes as much as is there.

use std::collections::HashSet;

use super::fingerprint::Fingerprint;
use super::key::{KeyHasher, KeyPart, PrefixLengths};
use super::{Limit, LimitKind, Unit};
use crate::attempt::Client;
use tollgate_bucket::Span;

/// Accounts that no person uses: `bait` of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Bait {
    /// The accounts.
    pub accounts: HashSet<Fingerprint>,
    /// As how many attempts one at such an account counts, at least 1.
    pub weight: u32,
}

/// Failures of one client that follow each other too quickly for a person: `quick` of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickFailures {
    /// The longest time between the two.
    pub within: Span,
    /// As how many failures the second one counts, at least 1.
    pub weight: u32,
    /// Addresses of one prefix are one client.
    pub prefixes: PrefixLengths,
}

/// The failure that an attempt may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickFailure {
    /// The hash of its client.
    pub client: u64,
    /// The rule of its route.
    pub rule: QuickFailures,
}

impl QuickFailures {
    /// The failure of an attempt of this client; `None` for one without an address of its own.
    pub(super) fn of(self, hasher: &KeyHasher, client: Client) -> Option<QuickFailure> {
        client.known_ip()?;
        Some(QuickFailure { client: hasher.tag_of_client(self.prefixes, client), rule: self })
    }
}

/// Whether attempts that no person makes count as several under this limit: under those that have a bucket for each
/// address, and none for each account or password.
#[must_use]
pub fn is_charged_for_suspicion(limit: &Limit) -> bool {
    limit.kind == LimitKind::Rate
        && limit.unit == Unit::Attempts
        && limit.key.contains(&KeyPart::Ip)
        && !limit.is_hidden()
}
