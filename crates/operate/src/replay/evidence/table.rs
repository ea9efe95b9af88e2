//! The routes and limits that lines may name, and what each limit promises.
//!
//! All names come from the configuration, so a log with other ones adds none.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;
use crate::policy::{LimitKind, Policy};
use crate::time::Span;

/// The routes and limits of a policy.
#[derive(Debug)]
pub struct EvidenceTable {
    pub(super) routes: Vec<Arc<str>>,
    pub(super) limits: Vec<WatchedLimit>,
    route_numbers: HashMap<Arc<str>, usize>,
    limit_numbers: HashMap<Arc<str>, usize>,
}

/// A limit, and what a log can show of its promise.
#[derive(Debug, Clone)]
pub struct WatchedLimit {
    /// Its name.
    pub name: Arc<str>,
    /// The promise, or why a log does not show whether it is kept.
    pub promise: Result<LimitPromise, &'static str>,
}

/// What a limit lets through at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPromise {
    /// Attempts in any window of this length, its ends included.
    pub most: u64,
    /// The length.
    pub window: Span,
    /// Whether each client has a bucket.
    pub is_by_client: bool,
    /// Whether each account has a bucket.
    pub is_by_account: bool,
    /// The prefix lengths of addresses that are one client.
    pub prefixes: PrefixLengths,
    /// Whether only failures count.
    pub counts_failures: bool,
    /// Whether a success fills the bucket.
    pub is_reset_by_success: bool,
}

/// Whose bucket it is, as far as a log shows.
pub(super) type WindowKey = (Option<Client>, Option<u64>);

impl LimitPromise {
    /// The bucket of an attempt; `None` if the log does not show it.
    pub(super) fn key_of(&self, client: Option<Client>, account: Option<u64>) -> Option<WindowKey> {
        let client = match self.is_by_client {
            // A person who was forgotten is written as a client without an address.
            true => Some(self.masked(client.filter(|client| client.ip().is_some())?)),
            false => None,
        };
        let account = match self.is_by_account {
            true => Some(account?),
            false => None,
        };
        Some((client, account))
    }

    pub(super) fn masked(&self, client: Client) -> Client {
        client.ip().map_or(client, |ip| Client::Ip(self.prefixes.mask(ip)))
    }
}

impl EvidenceTable {
    /// The routes of a policy with its limits, of which `promise_of` says what they promise.
    #[must_use]
    pub fn new(policy: &Policy, promise_of: impl Fn(usize) -> Result<LimitPromise, &'static str>) -> Self {
        let routes: Vec<Arc<str>> = policy.routes.iter().map(|route| Arc::clone(&route.name)).collect();
        let of_rates = policy.limits.iter().enumerate().filter(|(_, limit)| limit.kind == LimitKind::Rate);
        let limits: Vec<WatchedLimit> = of_rates
            .map(|(at, limit)| WatchedLimit { name: Arc::clone(&limit.name), promise: promise_of(at) })
            .collect();
        let numbered =
            |names: &mut dyn Iterator<Item = Arc<str>>| names.zip(0..).collect::<HashMap<_, usize>>();
        let route_numbers = numbered(&mut routes.iter().cloned());
        let limit_numbers = numbered(&mut limits.iter().map(|limit| Arc::clone(&limit.name)));
        Self { routes, limits, route_numbers, limit_numbers }
    }

    pub(super) fn route(&self, name: &str) -> Option<usize> {
        self.route_numbers.get(name).copied()
    }

    pub(super) fn limit(&self, name: &str) -> Option<usize> {
        self.limit_numbers.get(name).copied()
    }
}
