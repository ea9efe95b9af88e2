//! The summary of refusals among the messages: one line at the first refusal of a client by a limit, one at their end.
//!
//! For limits by account the line names the account's hash. Refusals that an observing limit would make are told
//! likewise. Rate and number of such pairs are bounded, so that a flood costs neither disk nor memory: all other refusals
//! are counted and told together, once a minute. Candidates are left out.
//!
//! A refusal of a known pair takes no lock. One that comes at the very moment of its pair's end may be missing in the
//! line: these counts are for people, exact ones are among the metrics.

mod distinct_clients;
mod refusal_lines;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use self::distinct_clients::DistinctClients;
use super::client_format::ClientFormatter;
use super::log_throttle::LogThrottle;
use super::traces::Traces;
use crate::event::{AccessLogEntry, AttemptRecord, Event, EventListener, LimitDecision, LimitRecord};
use crate::policy::Limit;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// Tells of refusals among the messages.
#[derive(Debug)]
pub struct RefusalSummary {
    clients: ClientFormatter,
    hasher: RandomState,
    /// By the hash of a [`RefusedPair`].
    ongoing: ArcSwap<BTreeMap<u64, Arc<OngoingRefusals>>>,
    /// Held while `ongoing` is replaced.
    replacing: Mutex<()>,
    begins: LogThrottle,
    refused: OtherRefusals,
    observed: OtherRefusals,
}

/// Whom a limit refuses, or would refuse.
#[derive(Debug, Clone, Copy)]
enum RefusedParty {
    /// The prefix that shares a bucket; `None` for a client without an address.
    Client(Option<IpAddr>),
    /// An account: a keyed hash of 48 bits.
    Account(u64),
}

/// The key of one line.
struct RefusedPair<'a> {
    party: RefusedParty,
    limit: &'a str,
    decision: LimitDecision,
}

/// The refusals of one party by one limit, from the first to the last.
#[derive(Debug)]
struct OngoingRefusals {
    /// As the first line shows it.
    party: String,
    is_account: bool,
    limit: Arc<str>,
    is_observed: bool,
    first: Time,
    count: AtomicU64,
    /// In nanoseconds since 1970.
    last: AtomicU64,
    /// In nanoseconds; [`NEVER`] if time does not help.
    longest_wait: AtomicU64,
}

/// Refusals that have no separate line.
#[derive(Debug, Default)]
struct OtherRefusals {
    /// In nanoseconds since 1970; zero if there are none.
    since: AtomicU64,
    count: AtomicU64,
    parties: DistinctClients,
}

impl RefusalSummary {
    /// `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: ClientFormatter) -> Self {
        Self {
            clients,
            hasher: RandomState::new(),
            ongoing: ArcSwap::default(),
            replacing: Mutex::default(),
            begins: LogThrottle::every(BETWEEN_BEGINS).with_burst(BEGINS_AT_ONCE),
            refused: OtherRefusals::default(),
            observed: OtherRefusals::default(),
        }
    }

    /// Tells of the refusals that have ended by now. Call it every few seconds.
    pub fn sweep(&self, now: Time) {
        self.end(|ongoing| now.since(Time::from_nanos(ongoing.last.load(Relaxed))) >= QUIET);
        for (others, is_observed) in self.others() {
            let since = others.since.load(Relaxed);
            if since > 0 && now.since(Time::from_nanos(since)) >= QUIET {
                let (refusals, parties) = others.take();
                refusal_lines::others(refusals, parties, is_observed);
            }
        }
    }

    /// Tells of all refusals: the process ends.
    pub fn finish(&self) {
        self.end(|_| true);
        for (others, is_observed) in self.others() {
            if others.since.load(Relaxed) > 0 {
                let (refusals, parties) = others.take();
                refusal_lines::others(refusals, parties, is_observed);
            }
        }
    }

    /// Forgets refusals of clients and accounts: no line tells their end. A dry run only counts them.
    pub fn forget(&self, traces: &Traces, is_dry_run: bool) -> u64 {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = BTreeMap::clone(&self.ongoing.load());
        let before = left.len();
        left.retain(|_, ongoing| !traces.is_party(&ongoing.party));
        let found = before - left.len();
        if found > 0 && !is_dry_run {
            self.ongoing.store(Arc::new(left));
        }
        found as u64
    }

    fn others(&self) -> [(&OtherRefusals, bool); 2] {
        [(&self.refused, false), (&self.observed, true)]
    }

    fn refusal(&self, entry: &AccessLogEntry, attempt: &AttemptRecord, record: &LimitRecord) {
        let Some(limit) = attempt.policy.limits.get(record.limit) else { return };
        let party = RefusedParty::of(limit, entry.client, attempt.facts.account);
        let pair = RefusedPair { party, limit: &limit.name, decision: record.decision };
        let key = self.hasher.hash_one(&pair);
        if let Some(known) = self.ongoing.load().get(&key) {
            return known.add(entry.at, record.wait);
        }
        let is_observed = record.decision == LimitDecision::Observe;
        let is_full = self.ongoing.load().len() >= MAX_ONGOING;
        if is_full || self.begins.allow(entry.at).is_none() {
            let others = if is_observed { &self.observed } else { &self.refused };
            return others.add(entry.at, self.hasher.hash_one(party));
        }
        self.begin(key, || OngoingRefusals {
            party: match party {
                RefusedParty::Client(_) => self.clients.show(entry.client),
                RefusedParty::Account(hash) => format!("#{hash:012x}"),
            },
            is_account: matches!(party, RefusedParty::Account(_)),
            limit: Arc::clone(&limit.name),
            is_observed,
            first: entry.at,
            count: AtomicU64::new(0),
            last: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
        })
        .add(entry.at, record.wait);
    }

    /// Adds a pair and tells of it, unless another thread was first.
    fn begin(&self, key: u64, first: impl FnOnce() -> OngoingRefusals) -> Arc<OngoingRefusals> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let ongoing = self.ongoing.load_full();
        if let Some(known) = ongoing.get(&key) {
            return Arc::clone(known);
        }
        let new = Arc::new(first());
        refusal_lines::begin(&new);
        let mut grown = BTreeMap::clone(&ongoing);
        grown.insert(key, Arc::clone(&new));
        self.ongoing.store(Arc::new(grown));
        new
    }

    /// Removes pairs and tells of them, in the order of their beginnings.
    fn end(&self, is_over: impl Fn(&OngoingRefusals) -> bool) {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = BTreeMap::clone(&self.ongoing.load());
        let mut ended = Vec::new();
        left.retain(|_, ongoing| {
            let is_over = is_over(ongoing);
            if is_over {
                ended.push(Arc::clone(ongoing));
            }
            !is_over
        });
        if ended.is_empty() {
            return;
        }
        self.ongoing.store(Arc::new(left));
        ended.sort_by_key(|over| over.first);
        ended.iter().for_each(|over| refusal_lines::end(over));
    }
}

impl EventListener for RefusalSummary {
    fn on_event(&self, event: &Event<'_>) {
        let Event::RequestCompleted(entry) = event else { return };
        let Some(attempt) = entry.attempt.as_deref() else { return };
        for record in attempt.live_limits() {
            if matches!(record.decision, LimitDecision::Refuse | LimitDecision::Observe) {
                self.refusal(entry, attempt, record);
            }
        }
    }
}

impl RefusedParty {
    fn of(limit: &Limit, client: Client, account: Option<u64>) -> Self {
        match (account, client) {
            (Some(account), _) if limit.is_account() => Self::Account(account),
            (_, Client::Ip(ip) | Client::BehindProxy(ip)) => Self::Client(Some(limit.prefixes.mask(ip))),
            (_, Client::UnixSocket) => Self::Client(None),
        }
    }

    /// Its kind, and which it is of them.
    fn parts(self) -> (u8, u128) {
        match self {
            Self::Client(None) => (0, 0),
            Self::Client(Some(IpAddr::V4(ip))) => (1, ip.to_bits().into()),
            Self::Client(Some(IpAddr::V6(ip))) => (2, ip.to_bits()),
            Self::Account(hash) => (3, hash.into()),
        }
    }
}

/// In few pieces, because many small ones take several times as long to hash.
impl Hash for RefusedPair<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (kind, bits) = self.party.parts();
        state.write_u128(bits);
        state.write_u64(u64::from(kind) << 8 | self.decision as u64);
        state.write(self.limit.as_bytes());
    }
}

impl Hash for RefusedParty {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (kind, bits) = self.parts();
        state.write_u128(bits);
        state.write_u64(kind.into());
    }
}

impl OngoingRefusals {
    fn add(&self, at: Time, wait: Option<Span>) {
        self.count.fetch_add(1, Relaxed);
        self.last.fetch_max(at.as_nanos(), Relaxed);
        let wait = wait.map_or(NEVER, Span::as_nanos);
        // Most waits are no longer than the longest, and a load is cheaper.
        if wait > self.longest_wait.load(Relaxed) {
            self.longest_wait.fetch_max(wait, Relaxed);
        }
    }
}

impl OtherRefusals {
    fn add(&self, at: Time, party: u64) {
        if self.since.load(Relaxed) == 0 {
            let _ = self.since.compare_exchange(0, at.as_nanos(), Relaxed, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.parties.add(party);
    }

    /// The number of refusals and the estimated number of parties, which begin again at zero.
    fn take(&self) -> (u64, u64) {
        self.since.store(0, Relaxed);
        (self.count.swap(0, Relaxed), self.parties.take())
    }
}

const NEVER: u64 = u64::MAX;
/// Pairs with their own lines at a time.
const MAX_ONGOING: usize = 1024;
/// Pairs that may begin at once after a quiet minute ...
const BEGINS_AT_ONCE: u32 = 60;
/// ... and at most one more in this time.
const BETWEEN_BEGINS: Span = Span::from_secs(1);
/// A pair ends after this time without a refusal; others are told together once in it.
const QUIET: Span = Span::from_secs(60);

#[cfg(test)]
mod tests;
