//! Counts of the signs of wrong wiring: of fixed size, whatever clients send.
//!
//! Few things can be wrong at once, so each count keeps a few candidates only: one that is met takes a vote away from
//! the others where there is no room, and takes the place of one without votes (Misra and Gries, 1982). What makes up a
//! large part of all requests always stays.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use crate::event::{AccessLogEntry, AttemptRecord, LimitDecision};
use crate::policy::attempt::Client;
use crate::policy::key::KeyPart;

/// The signs of one thread, and which requests it looks at.
#[derive(Debug, Default)]
pub(super) struct SampledSigns {
    attempts: Sampler,
    others: Sampler,
    signs: Mutex<Signs>,
}

/// Looks at the first requests, and then at a part of them. A request that is not looked at costs two plain accesses to
/// memory of its thread; threads that share a copy may lose a count.
#[derive(Debug, Default)]
struct Sampler(AtomicU32);

impl Sampler {
    fn takes_next(&self) -> bool {
        let seen = self.0.load(Relaxed);
        self.0.store(seen.wrapping_add(1).max(seen), Relaxed);
        seen < ALL_OF || seen.is_multiple_of(ONE_IN)
    }
}

impl SampledSigns {
    pub(super) fn add(&self, entry: &AccessLogEntry) {
        let sampler = if entry.attempt.is_some() { &self.attempts } else { &self.others };
        let is_rare = entry.signs.has_own_id || entry.signs.has_uncovered_password;
        if sampler.takes_next() || is_rare {
            self.signs.lock().unwrap_or_else(PoisonError::into_inner).add(entry);
        }
    }

    pub(super) fn sum_up(&self, sum: &mut SignsSum) {
        sum.add(&self.signs.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn clear(&self) {
        *self.signs.lock().unwrap_or_else(PoisonError::into_inner) = Signs::default();
        self.attempts.0.store(0, Relaxed);
        self.others.0.store(0, Relaxed);
    }
}

/// What was seen of the requests that were looked at.
#[derive(Debug, Default)]
pub(super) struct Signs {
    requests: u64,
    attempts: u64,
    clients: FrequentItems<Client, u64>,
    peers: FrequentItems<IpAddr, PeerCounts>,
    schemeless: FrequentItems<IpAddr, u64>,
    forms: FrequentItems<u64, FormCounts>,
    returned: FrequentItems<u64, u64>,
    refused: FrequentItems<IpAddr, AgentSet>,
}

/// Candidates, and what is counted of each.
#[derive(Debug)]
struct FrequentItems<K, V>(SmallVec<[FrequentItem<K, V>; SLOTS]>);

#[derive(Debug)]
struct FrequentItem<K, V> {
    key: K,
    votes: u64,
    counts: V,
}

#[derive(Debug, Clone, Copy, Default)]
struct PeerCounts {
    requests: u64,
    naming: u64,
}

#[derive(Debug, Clone, Default)]
struct FormCounts {
    path: String,
    sightings: u64,
    first: Option<Client>,
    has_others: bool,
}

/// A set of hashes of `User-Agent`, for counting: linear counting (Whang, Vander-Zanden and Taylor, 1990), which for a
/// tenth of the bits needs no correction.
#[derive(Debug, Clone, Copy, Default)]
struct AgentSet([u64; 4]);

impl<K, V> Default for FrequentItems<K, V> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<K: PartialEq, V: Default> FrequentItems<K, V> {
    /// The counts of a key; `None` if there is no room for it now.
    fn of(&mut self, key: K) -> Option<&mut V> {
        let at = match self.0.iter().position(|slot| slot.key == key) {
            Some(at) => at,
            None if self.0.len() < SLOTS => {
                self.0.push(FrequentItem { key, votes: 0, counts: V::default() });
                self.0.len() - 1
            }
            None => {
                let Some(at) = self.0.iter().position(|slot| slot.votes == 0) else {
                    self.0.iter_mut().for_each(|slot| slot.votes = slot.votes.saturating_sub(1));
                    return None;
                };
                self.0[at] = FrequentItem { key, votes: 0, counts: V::default() };
                at
            }
        };
        let slot = self.0.get_mut(at)?;
        slot.votes += 1;
        Some(&mut slot.counts)
    }
}

impl Signs {
    pub(super) fn add(&mut self, entry: &AccessLogEntry) {
        let signs = &entry.signs;
        self.requests += 1;
        if let Some(counts) = signs.untrusted_peer.and_then(|peer| self.peers.of(peer)) {
            counts.requests += 1;
            counts.naming += u64::from(signs.names_client);
        }
        if let Some(proxy) = signs.schemeless_proxy {
            self.schemeless.of(proxy).into_iter().for_each(|count| *count += 1);
        }
        if let Some(attempt) = &entry.attempt {
            self.attempts += 1;
            self.clients.of(entry.client).into_iter().for_each(|count| *count += 1);
            self.add_refusal(entry, attempt);
        }
        if signs.has_own_id
            && let Some(id) = &entry.request_id
        {
            self.returned.of(hash(id.as_bytes())).into_iter().for_each(|count| *count += 1);
        }
        if signs.has_uncovered_password && could_be_a_sign_in(entry.status.as_u16()) {
            self.add_form(entry);
        }
    }

    /// Refusals by an account's limit say nothing about the client.
    fn add_refusal(&mut self, entry: &AccessLogEntry, attempt: &AttemptRecord) {
        let is_by_address = attempt.limits.iter().any(|record| {
            let limit = attempt.policy.limits.get(record.limit);
            record.decision == LimitDecision::Refuse
                && limit.is_some_and(|limit| limit.key.contains(&KeyPart::Ip) && !limit.is_hidden())
        });
        if let Some(ip) = entry.client.ip().filter(|_| is_by_address)
            && let Some(agents) = self.refused.of(ip)
        {
            agents.insert(hash(entry.user_agent.as_ref().map_or(&b""[..], |agent| agent.as_bytes())));
        }
    }

    fn add_form(&mut self, entry: &AccessLogEntry) {
        let path = entry.target.path();
        let Some(form) = self.forms.of(hash(path.as_bytes())) else { return };
        if form.path.is_empty() {
            form.path = path.chars().take(MAX_PATH).collect();
        }
        form.sightings += 1;
        let first = *form.first.get_or_insert(entry.client);
        form.has_others |= first != entry.client;
    }
}

impl AgentSet {
    fn insert(&mut self, hash: u64) {
        if let Some(bits) = self.0.get_mut((hash >> 6) as usize & 3) {
            *bits |= 1 << (hash & 63);
        }
    }

    fn count(self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }
}

/// The signs of all threads.
#[derive(Debug, Default)]
pub(super) struct SignsSum {
    requests: u64,
    attempts: u64,
    clients: Vec<(Client, u64)>,
    peers: Vec<(IpAddr, PeerCounts)>,
    schemeless: Vec<(IpAddr, u64)>,
    forms: Vec<FormCounts>,
    returned: Vec<(u64, u64)>,
    refused: Vec<(IpAddr, AgentSet)>,
}

impl SignsSum {
    pub(super) fn add(&mut self, signs: &Signs) {
        self.requests += signs.requests;
        self.attempts += signs.attempts;
        for slot in &signs.clients.0 {
            *of(&mut self.clients, slot.key) += slot.counts;
        }
        for slot in &signs.peers.0 {
            let sum = of(&mut self.peers, slot.key);
            sum.requests += slot.counts.requests;
            sum.naming += slot.counts.naming;
        }
        for slot in &signs.schemeless.0 {
            *of(&mut self.schemeless, slot.key) += slot.counts;
        }
        for slot in &signs.refused.0 {
            let sum = of(&mut self.refused, slot.key);
            sum.0.iter_mut().zip(slot.counts.0).for_each(|(sum, bits)| *sum |= bits);
        }
        for slot in &signs.returned.0 {
            *of(&mut self.returned, slot.key) += slot.counts;
        }
        for slot in &signs.forms.0 {
            self.add_form(&slot.counts);
        }
    }

    fn add_form(&mut self, form: &FormCounts) {
        match self.forms.iter_mut().find(|known| known.path == form.path) {
            Some(known) => {
                known.sightings += form.sightings;
                known.has_others |= form.has_others || known.first != form.first;
            }
            None => self.forms.push(form.clone()),
        }
    }

    /// The private address, or the trusted proxy without clients, that nearly all attempts come from.
    pub(super) fn dominant_client(&self) -> Option<Client> {
        let (client, count) = self.clients.iter().max_by_key(|(_, count)| *count)?;
        let is_wrong = match client {
            Client::Ip(ip) => is_private(*ip),
            Client::BehindProxy(_) => true,
            Client::UnixSocket => false,
        };
        let is_most = self.attempts >= MIN_ATTEMPTS && count * 100 >= self.attempts * DOMINANT_PERCENT;
        (is_wrong && is_most).then_some(*client)
    }

    /// Peers that name clients steadily, in a part of all requests that is no accident.
    pub(super) fn forwarding_peers(&self) -> impl Iterator<Item = IpAddr> {
        let is_steady = |counts: &PeerCounts| {
            counts.naming >= MIN_NAMING
                && counts.naming * 2 >= counts.requests
                && counts.naming * NAMING_SHARE >= self.requests
        };
        self.peers.iter().filter(move |(_, counts)| is_steady(counts)).map(|(peer, _)| *peer).take(1)
    }

    /// Trusted proxies that never name the scheme of their clients, in half of all requests or more.
    pub(super) fn schemeless_proxies(&self) -> impl Iterator<Item = IpAddr> {
        let is_steady = |count: u64| count >= MIN_NAMING && count * 2 >= self.requests;
        self.schemeless.iter().filter(move |(_, count)| is_steady(*count)).map(|(proxy, _)| *proxy).take(1)
    }

    /// Paths of forms that several clients posted passwords to.
    pub(super) fn uncovered_forms(&self) -> impl Iterator<Item = &str> {
        let is_steady = |form: &&FormCounts| form.sightings >= MIN_SIGHTINGS && form.has_others;
        self.forms.iter().filter(is_steady).map(|form| form.path.as_str()).take(1)
    }

    /// Whether one generated id came so often that no client sent it again by itself.
    pub(super) fn has_loop(&self) -> bool {
        self.returned.iter().any(|(_, count)| *count >= MIN_RETURNED)
    }

    /// Clients that were refused with many user agents, and their number, rounded down.
    pub(super) fn shared_clients(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        let counts = self.refused.iter().map(|(client, agents)| (*client, agents.count() / 10 * 10));
        counts.filter(|(_, agents)| *agents >= MIN_AGENTS).take(1)
    }
}

fn of<K: PartialEq, V: Default>(sums: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = sums.iter().position(|(known, _)| *known == key).unwrap_or(sums.len());
    if at == sums.len() {
        sums.push((key, V::default()));
    }
    &mut sums[at].1
}

/// Whether an application may have judged a password with this status: not where there is no form.
fn could_be_a_sign_in(status: u16) -> bool {
    matches!(status, 200..=399 | 401 | 422)
}

/// Private, loopback, link-local and shared addresses (RFC 1918, 4193, 4291, 3927, 6598).
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0b1100_0000 == 64;
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// A client that chooses the values gains nothing by collisions.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Requests and attempts of a thread that are all looked at, before a part of them is.
const ALL_OF: u32 = 1000;
const ONE_IN: u32 = 16;
/// Candidates of each count and thread.
const SLOTS: usize = 8;
const MAX_PATH: usize = 100;
const MIN_ATTEMPTS: u64 = 100;
const DOMINANT_PERCENT: u64 = 95;
const MIN_NAMING: u64 = 20;
/// One in so many requests.
const NAMING_SHARE: u64 = 10;
const MIN_SIGHTINGS: u64 = 5;
const MIN_RETURNED: u64 = 16;
const MIN_AGENTS: u32 = 20;
