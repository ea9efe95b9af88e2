//! What waits to be looked at by the thread that speaks with the kernel.
//!
//! Workers never wait here: one that meets another leaves its client to the next refused attempt.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::engine::Engine;
use crate::event::{AccessLogEntry, AttemptRecord, BucketOwner, Event, EventListener, Events, LimitDecision};
use crate::policy::LimitKind;
use crate::policy::key::KeyPart;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::time::Span;

/// Clients and changes that wait, and the way to stop the thread for a while.
#[derive(Default)]
pub(in crate::app) struct DropQueue {
    waiting: Mutex<WaitingDrops>,
    changed: Condvar,
    sources: OnceLock<KernelSources>,
    /// Held while the thread speaks with the kernel.
    turn: Mutex<()>,
}

/// What the thread decides by.
pub(in crate::app) struct KernelSources {
    /// Weak, because the engine's events lead here.
    pub(in crate::app) engine: Weak<Engine>,
    pub(in crate::app) config: Arc<ArcSwap<RuntimeConfig>>,
    pub(in crate::app) events: Events,
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct WaitingDrops {
    /// Clients that were refused for long and connect directly.
    pub(super) refused: HashSet<IpAddr>,
    /// Clients whose buckets operators changed.
    pub(super) changed: HashSet<IpAddr>,
    /// Whether operators changed more than these.
    pub(super) all: bool,
    /// The newest rules that were heard of.
    pub(super) generation: Option<u64>,
    /// Whether another process may speak with the kernel instead.
    is_paused: bool,
    /// Whether the kernel may have something else in its sets than this process knows.
    pub(super) is_unsure: bool,
}

impl DropQueue {
    /// Lets the thread begin.
    pub(in crate::app) fn connect(&self, sources: KernelSources) {
        // It is called once.
        let _ = self.sources.set(sources);
        self.tell(|waiting| waiting.generation = waiting.generation.or(Some(0)));
    }

    /// Keeps the thread from speaking with the kernel from when this returns: a new process takes over.
    pub(in crate::app) fn pause(&self) {
        self.tell(|waiting| waiting.is_paused = true);
        drop(lock(&self.turn));
    }

    /// Undoes [`pause`](Self::pause).
    pub(in crate::app) fn resume(&self) {
        self.tell(|waiting| (waiting.is_paused, waiting.is_unsure) = (false, true));
    }

    /// Has these clients looked at again: their buckets have changed.
    pub(in crate::app) fn look_again_at(&self, clients: &[IpAddr]) {
        self.tell(|waiting| waiting.add_changed(clients.iter().copied()));
    }

    pub(super) fn sources(&self) -> Option<&KernelSources> {
        self.sources.get()
    }

    /// What has come, once something has or the time is over.
    pub(super) fn wait(&self, at_most: Duration) -> WaitingDrops {
        let waiting = lock(&self.waiting);
        let is_idle = |waiting: &mut WaitingDrops| !waiting.has_any() || self.sources.get().is_none();
        let waited = self.changed.wait_timeout_while(waiting, at_most, is_idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if self.sources.get().is_none() {
            return WaitingDrops::default();
        }
        let is_paused = waiting.is_paused;
        let taken = std::mem::take(&mut *waiting);
        waiting.is_paused = is_paused;
        taken
    }

    /// Runs this unless the thread is paused.
    pub(super) fn in_turn(&self, act: impl FnOnce()) {
        let _turn = lock(&self.turn);
        let is_paused = lock(&self.waiting).is_paused;
        if !is_paused {
            act();
        }
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut WaitingDrops)) {
        change(&mut lock(&self.waiting));
        self.changed.notify_one();
    }

    /// The request of a client: whether it may be one to drop.
    fn completed(&self, entry: &AccessLogEntry) {
        let Some(attempt) = &entry.attempt else { return };
        // One that names another client may be a proxy that nobody trusts yet.
        let Some(ip) = entry.signs.untrusted_peer.filter(|_| !entry.signs.names_client) else { return };
        if !is_refused_for_long(attempt) {
            return;
        }
        let mut waiting = match self.waiting.try_lock() {
            Ok(waiting) => waiting,
            Err(TryLockError::Poisoned(waiting)) => waiting.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if waiting.refused.len() < MAX_WAITING && waiting.refused.insert(ip) {
            drop(waiting);
            self.changed.notify_one();
        }
    }
}

impl EventListener for DropQueue {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::RequestCompleted(entry) => self.completed(entry),
            Event::Rules { generation, .. } => self.tell(|waiting| waiting.generation = Some(*generation)),
            Event::BucketsChanged(changed) => {
                let BucketOwner::Client(client) = changed.owner else { return };
                self.tell(|waiting| waiting.add_changed(client.ip().into_iter()));
            }
            _ => {}
        }
    }
}

impl WaitingDrops {
    /// Adds clients whose buckets have changed.
    pub(super) fn add_changed(&mut self, clients: impl Iterator<Item = IpAddr>) {
        for ip in clients {
            self.all |= self.changed.len() >= MAX_WAITING;
            if !self.all {
                self.changed.insert(ip);
            }
        }
    }

    fn has_any(&self) -> bool {
        let has_clients = !self.refused.is_empty() || !self.changed.is_empty();
        has_clients || self.all || self.generation.is_some() || self.is_unsure
    }
}

/// Whether a limit of addresses refuses the attempt, by a ban or growing waits as far as the record shows.
fn is_refused_for_long(attempt: &AttemptRecord) -> bool {
    let limits = &attempt.policy.limits;
    let grows = |at: usize| {
        let beside = limits.iter().skip(at + 1).take_while(|limit| limit.kind != LimitKind::Rate);
        beside.into_iter().any(|limit| limit.kind == LimitKind::Escalation)
    };
    attempt.limits.iter().any(|record| {
        record.decision == LimitDecision::Refuse
            && record.wait.is_some_and(|wait| wait >= LONG || (wait >= SHORTEST && grows(record.limit)))
            && limits.get(record.limit).is_some_and(|limit| limit.key == [KeyPart::Ip])
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Less is not worth a change of the kernel's sets.
pub(super) const SHORTEST: Span = Span::from_secs(10);
/// A wait that a ban may have caused, where waits do not grow.
const LONG: Span = Span::from_secs(600);
/// Clients that wait, of each kind. The next refused attempt offers one again that finds no room.
const MAX_WAITING: usize = 8_192;
