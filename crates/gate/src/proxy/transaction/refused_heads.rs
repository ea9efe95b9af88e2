//! The heads that a worker has refused more than once, and what it found out about them: a flood sends the same head again
//! and again.
//!
//! A head may hold passwords and cookies, so only its keyed hash is kept, and what logs and answers show of it. What is kept is valid under one configuration. It is dropped when another is in force, and before the worker
//! rests. A head is kept at its second refusal, so that a flood of different heads costs a hash each.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::rc::{Rc, Weak};

use siphasher::sip128::SipHasher13;

use super::request_summary::RequestSummary;
use crate::engine::KnownAttempt;
use crate::event::{AccessLogEntry, AttemptRecord};
use crate::net::listener::{Callers, ListenerKind};
use crate::net::stream::PeerAddr;
use crate::policy::attempt::TlsClient;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::request::response_terms::ResponseTerms;
use crate::proxy::respond::PageLanguage;
use crate::proxy::runtime_config::WorkerConfig;

/// The refused heads of one worker.
pub struct RefusedHeads {
    state: RefCell<KeptHeads>,
    hasher: SipHasher13,
}

/// What the refusals of one head have in common.
pub(super) struct RefusedHead {
    pub(super) source: HeadSource,
    pub(super) attempt: KnownAttempt,
    /// Its access record; what differs from refusal to refusal is that of the latest.
    pub(super) entry: RefCell<AccessLogEntry>,
    pub(super) summary: RequestSummary,
    pub(super) language: PageLanguage,
    pub(super) terms: ResponseTerms,
    /// Bytes of its body.
    pub(super) body_len: u64,
}

/// A head, and what the gate knows of the connection that sent it.
#[derive(PartialEq)]
pub(super) struct HeadSource {
    /// The keyed hash of its bytes.
    hash: u128,
    peer: Option<IpAddr>,
    listener_kind: ListenerKind,
    callers: Callers,
    tls: Option<Box<TlsClient>>,
}

#[derive(Default)]
struct KeptHeads {
    /// The configuration that they are valid under.
    config: Weak<WorkerConfig>,
    slots: Vec<KeptHead>,
    /// Estimated bytes of all that is kept.
    size: usize,
}

#[derive(Clone, Default)]
enum KeptHead {
    #[default]
    Empty,
    /// The hash of a head that was refused once.
    Once(u128),
    /// The hash of one of which nothing can be kept.
    Unfit(u128),
    Known(Rc<RefusedHead>),
}

impl Default for RefusedHeads {
    fn default() -> Self {
        // The standard library seeds each `RandomState` from the operating system's randomness.
        let [one, two] = [0_u8, 1].map(|number| RandomState::new().hash_one(number));
        Self { state: RefCell::default(), hasher: SipHasher13::new_with_keys(one, two) }
    }
}

impl RefusedHeads {
    pub(super) fn is_empty(&self) -> bool {
        self.state.borrow().slots.is_empty()
    }

    /// What is known of this head; `None` if nothing is.
    pub(super) fn find(
        &self,
        config: &Rc<WorkerConfig>,
        connection: &DownstreamConnection,
        head: &[u8],
    ) -> Option<Rc<RefusedHead>> {
        let state = self.state.borrow();
        if !state.is_of(config) || !is_kept(head) {
            return None;
        }
        let hash = self.hash(head);
        match state.slots.get(slot_of(hash))? {
            KeptHead::Known(known) if known.source.is(connection, hash) => Some(Rc::clone(known)),
            _ => None,
        }
    }

    /// A head was refused. At its second refusal `known` says what to keep; `None` keeps nothing, and is not asked again.
    pub(super) fn refused(
        &self,
        config: &Rc<WorkerConfig>,
        connection: &DownstreamConnection,
        head: &[u8],
        known: impl FnOnce(HeadSource) -> Option<RefusedHead>,
    ) {
        if !is_kept(head) {
            return;
        }
        let (state, hash) = (&mut *self.state.borrow_mut(), self.hash(head));
        state.follow(config);
        let new = match state.slots.get(slot_of(hash)) {
            Some(KeptHead::Unfit(unfit)) if *unfit == hash => return,
            Some(KeptHead::Once(seen)) if *seen == hash => {
                let known = known(HeadSource::of(connection, hash)).filter(|known| known.size() <= MAX_ONE);
                known.map_or(KeptHead::Unfit(hash), |known| KeptHead::Known(Rc::new(known)))
            }
            _ => KeptHead::Once(hash),
        };
        state.put(slot_of(hash), new);
    }

    /// Forgets what is not valid under this configuration.
    pub(in crate::proxy) fn follow(&self, config: &Rc<WorkerConfig>) {
        let state = &mut *self.state.borrow_mut();
        if !state.slots.is_empty() {
            state.follow(config);
        }
    }

    /// Forgets everything.
    pub(in crate::proxy) fn clear(&self) {
        self.state.take();
    }

    fn hash(&self, head: &[u8]) -> u128 {
        self.hasher.hash(head).as_u128()
    }
}

impl KeptHeads {
    fn is_of(&self, config: &Rc<WorkerConfig>) -> bool {
        std::ptr::eq(self.config.as_ptr(), Rc::as_ptr(config))
    }

    fn follow(&mut self, config: &Rc<WorkerConfig>) {
        if !self.is_of(config) {
            *self = Self { config: Rc::downgrade(config), ..Self::default() };
        }
    }

    fn put(&mut self, slot: usize, new: KeptHead) {
        if self.size + new.size() > MAX_SIZE {
            (self.slots, self.size) = (Vec::new(), 0);
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, KeptHead::Empty);
        }
        if let Some(slot) = self.slots.get_mut(slot) {
            self.size = self.size - slot.size() + new.size();
            *slot = new;
        }
    }
}

impl KeptHead {
    fn size(&self) -> usize {
        match self {
            Self::Empty | Self::Once(_) | Self::Unfit(_) => 0,
            Self::Known(known) => known.size(),
        }
    }
}

impl RefusedHead {
    /// Estimated bytes of it.
    fn size(&self) -> usize {
        let AccessLogEntry { target, host, referer, user_agent, .. } = &*self.entry.borrow();
        let shown = [host, referer, user_agent].into_iter().flatten().map(http::HeaderValue::len);
        let tls = self.source.tls.iter().flat_map(|tls| [&tls.certificate, &tls.fingerprint]).flatten();
        size_of::<Self>()
            + size_of::<AttemptRecord>()
            + target.path().len()
            + target.query().map_or(0, str::len)
            + shown.sum::<usize>()
            + self.summary.size()
            + tls.map(String::len).sum::<usize>()
            + self.attempt.size()
    }
}

impl HeadSource {
    fn of(connection: &DownstreamConnection, hash: u128) -> Self {
        Self {
            hash,
            peer: ip_of(connection.peer),
            listener_kind: connection.listener_kind,
            callers: connection.callers,
            tls: connection.tls.get().cloned(),
        }
    }

    fn is(&self, connection: &DownstreamConnection, hash: u128) -> bool {
        self.hash == hash
            && self.peer == ip_of(connection.peer)
            && self.listener_kind == connection.listener_kind
            && self.callers == connection.callers
            && self.tls.as_ref() == connection.tls.get()
    }
}

impl std::fmt::Debug for RefusedHeads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RefusedHeads")
    }
}

fn is_kept(head: &[u8]) -> bool {
    (1..=MAX_HEAD).contains(&head.len())
}

fn slot_of(hash: u128) -> usize {
    // The remainder fits.
    usize::try_from(hash % SLOTS as u128).unwrap_or_default()
}

/// The port of a connection says nothing about its requests.
fn ip_of(peer: PeerAddr) -> Option<IpAddr> {
    match peer {
        PeerAddr::Ip(address) => Some(address.ip()),
        PeerAddr::Unix => None,
    }
}

/// Heads of which a worker keeps something.
const SLOTS: usize = 4_096;
/// Bytes of a head that is looked up.
const MAX_HEAD: usize = 4 * 1024;
/// Estimated bytes of what a worker keeps of one head, and of all.
const MAX_ONE: usize = 8 * 1024;
const MAX_SIZE: usize = 4 * 1024 * 1024;
