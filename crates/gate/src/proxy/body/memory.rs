//! Memory limit for buffered bodies: one for the process, a quarter of it per client prefix.
//!
//! A body reserves memory before it is read, and returns it with its last byte. If none is free, a body that would
//! still be the smaller one evicts a larger one: one of the same prefix if that holds its quarter, otherwise one of the
//! prefix that holds most. So large bodies do not delay small ones. Waiting bodies are served in turn, prefix by
//! prefix. If all other bodies wait already, the last one is refused: no body could finish. `buffer` reads the bodies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The memory of all buffered bodies.
#[derive(Debug)]
pub struct BodyMemory(Mutex<BodyMemoryState>);

/// The memory of both directions.
#[derive(Debug, Clone)]
pub struct BodyMemories {
    /// For what is buffered of requests.
    pub(in crate::proxy) requests: Arc<BodyMemory>,
    /// For what is read ahead of responses.
    pub(in crate::proxy) responses: Arc<BodyMemory>,
}

impl BodyMemories {
    /// A limit of `max_bytes` bytes for each.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { requests: BodyMemory::new(max_bytes), responses: BodyMemory::new(max_bytes) }
    }

    /// Changes the limit to `max_bytes` bytes for each; memory in use stays reserved.
    pub fn resize(&self, max_bytes: usize) {
        self.requests.resize(max_bytes);
        self.responses.resize(max_bytes);
    }
}

/// A client's prefix; all clients without a known address share `None`.
type Owner = Option<IpAddr>;

#[derive(Debug, Default)]
struct BodyMemoryState {
    max_bytes: usize,
    used: usize,
    next: u64,
    shares: BTreeMap<Owner, PrefixShare>,
    by_size: BTreeSet<(usize, Owner)>,
    /// Prefixes with a waiting body, each once.
    queue: VecDeque<Owner>,
    counts: BodyCounts,
}

/// The memory of one prefix.
#[derive(Debug, Default)]
struct PrefixShare {
    used: usize,
    bodies: BTreeMap<u64, BodyEntry>,
    /// Bodies that can be evicted, by size; of equal ones the youngest goes first.
    by_size: BTreeSet<(usize, u64)>,
    /// Bodies that wait, in order; may name bodies that are gone.
    waiting: VecDeque<u64>,
    is_queued: bool,
    counts: BodyCounts,
}

/// Bodies that hold memory, and how many of them wait for more.
#[derive(Debug, Default, Clone, Copy)]
struct BodyCounts {
    count: usize,
    waiting: usize,
}

#[derive(Debug, Default)]
struct BodyEntry {
    reserved: usize,
    /// Bytes that it waits for; 0 if it does not wait.
    awaited: usize,
    /// It was read completely, and cannot be evicted any more.
    is_pinned: bool,
    waker: Option<Waker>,
}

/// The memory of one body; returned when it is dropped.
#[derive(Debug)]
pub(in crate::proxy) struct MemoryReservation {
    memory: Arc<BodyMemory>,
    owner: Owner,
    number: u64,
    waits: bool,
}

/// No memory is free, or the body was evicted for a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMemory;

impl BodyMemory {
    /// Client prefixes that can hold their full share at once.
    pub const SHARES: usize = 4;

    /// A limit of `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(BodyMemoryState { max_bytes, ..BodyMemoryState::default() })))
    }

    /// The share in bytes of one client prefix, of `max_bytes` bytes in all.
    #[must_use]
    pub const fn of_one_client(max_bytes: usize) -> usize {
        max_bytes / Self::SHARES
    }

    /// Changes the limit to `max_bytes` bytes; memory in use stays reserved.
    pub fn resize(&self, max_bytes: usize) {
        let mut state = self.state();
        state.max_bytes = max_bytes;
        state.serve_queue();
    }

    /// A reservation of 0 bytes for a new body of this prefix.
    pub(in crate::proxy) fn reserve(self: &Arc<Self>, owner: Owner) -> MemoryReservation {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.shares.entry(owner).or_default().bodies.insert(number, BodyEntry::default());
        drop(state);
        MemoryReservation { memory: Arc::clone(self), owner, number, waits: false }
    }

    fn state(&self) -> MutexGuard<'_, BodyMemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryReservation {
    /// A reservation of 0 bytes for another body of the same prefix.
    pub(in crate::proxy) fn another(&self) -> Self {
        self.memory.reserve(self.owner)
    }

    /// Reserves more bytes; waits for them if need be.
    pub(super) fn poll_reserve(&mut self, bytes: usize, cx: &Context<'_>) -> Poll<Result<(), NoMemory>> {
        let mut state = self.memory.state();
        let Some(body) = state.body(self.owner, self.number) else { return Poll::Ready(Err(NoMemory)) };
        body.waker = Some(cx.waker().clone());
        if self.waits {
            self.waits = body.awaited > 0;
            return if self.waits { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
        if state.try_grow(self.owner, self.number, bytes) {
            return Poll::Ready(Ok(()));
        }
        if !state.enqueue(self.owner, self.number, bytes) {
            return Poll::Ready(Err(NoMemory));
        }
        self.waits = true;
        Poll::Pending
    }

    /// Reserves more bytes if they are free at once. Returns whether they are.
    pub(super) fn try_reserve(&self, bytes: usize) -> bool {
        let mut state = self.memory.state();
        state.body(self.owner, self.number).is_some() && state.try_grow(self.owner, self.number, bytes)
    }

    /// Ready when the body was evicted.
    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        match self.memory.state().body(self.owner, self.number) {
            Some(body) => {
                body.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// The body is complete: it cannot be evicted from now on.
    pub(super) fn pin(&self) {
        let mut state = self.memory.state();
        let Some(share) = state.shares.get_mut(&self.owner) else { return };
        let Some(body) = share.bodies.get_mut(&self.number) else { return };
        body.is_pinned = true;
        share.by_size.remove(&(body.reserved, self.number));
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.remove(self.owner, self.number).is_some() {
            state.serve(self.owner);
            state.serve_queue();
        }
    }
}

/// The limit that a reservation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverLimit {
    OfPrefix,
    OfProcess,
}

impl BodyMemoryState {
    fn body(&mut self, owner: Owner, number: u64) -> Option<&mut BodyEntry> {
        self.shares.get_mut(&owner)?.bodies.get_mut(&number)
    }

    /// The limit that `bytes` more of this prefix would exceed.
    fn missing(&self, owner: Owner, bytes: usize) -> Option<OverLimit> {
        let used = self.shares.get(&owner).map_or(0, |share| share.used);
        match used + bytes > BodyMemory::of_one_client(self.max_bytes) {
            true => Some(OverLimit::OfPrefix),
            false => (self.used + bytes > self.max_bytes).then_some(OverLimit::OfProcess),
        }
    }

    /// Gives a body more bytes, if need be those of larger ones. Returns whether that was possible.
    fn try_grow(&mut self, owner: Owner, number: u64, bytes: usize) -> bool {
        while let Some(missing) = self.missing(owner, bytes) {
            let Some((from, victim)) = self.pick_victim(missing, owner, number, bytes) else { return false };
            if let Some(waker) = self.remove(from, victim).and_then(|body| body.waker) {
                waker.wake();
            }
        }
        self.grow(owner, number, bytes);
        true
    }

    /// A body to evict: the largest of a prefix that holds more than this prefix would, or a body of the same prefix
    /// that is larger than this one would be.
    fn pick_victim(
        &self,
        missing: OverLimit,
        owner: Owner,
        number: u64,
        bytes: usize,
    ) -> Option<(Owner, u64)> {
        let share = self.shares.get(&owner)?;
        if missing == OverLimit::OfProcess {
            let shares = self.by_size.iter().rev().take(MAX_PREFIXES_CHECKED);
            let mut larger = shares.filter(|(used, other)| *other != owner && *used > share.used + bytes);
            let found =
                larger.find_map(|(_, other)| Some((*other, self.shares.get(other)?.by_size.last()?.1)));
            if found.is_some() {
                return found;
            }
        }
        let will_hold = share.bodies.get(&number)?.reserved + bytes;
        let &(reserved, other) = share.by_size.last()?;
        (reserved > will_hold && other != number).then_some((owner, other))
    }

    fn grow(&mut self, owner: Owner, number: u64, bytes: usize) {
        let Some(share) = self.shares.get_mut(&owner) else { return };
        let Some(body) = share.bodies.get_mut(&number) else { return };
        if body.reserved == 0 {
            share.counts.count += 1;
            self.counts.count += 1;
        }
        share.by_size.remove(&(body.reserved, number));
        body.reserved += bytes;
        if !body.is_pinned {
            share.by_size.insert((body.reserved, number));
        }
        self.by_size.remove(&(share.used, owner));
        share.used += bytes;
        self.by_size.insert((share.used, owner));
        self.used += bytes;
    }

    /// Enqueues a body for more bytes. Refused if every body with memory would then wait.
    fn enqueue(&mut self, owner: Owner, number: u64, bytes: usize) -> bool {
        let missing = self.missing(owner, bytes);
        let Some(share) = self.shares.get_mut(&owner) else { return false };
        let Some(body) = share.bodies.get_mut(&number) else { return false };
        let counts = if missing == Some(OverLimit::OfPrefix) { share.counts } else { self.counts };
        let own = usize::from(body.reserved > 0);
        if counts.waiting + own >= counts.count {
            return false;
        }
        share.counts.waiting += own;
        self.counts.waiting += own;
        body.awaited = bytes;
        share.waiting.push_back(number);
        if !std::mem::replace(&mut share.is_queued, true) {
            self.queue.push_back(owner);
        }
        true
    }

    /// Removes a body and returns its memory.
    fn remove(&mut self, owner: Owner, number: u64) -> Option<BodyEntry> {
        let share = self.shares.get_mut(&owner)?;
        let body = share.bodies.remove(&number)?;
        share.by_size.remove(&(body.reserved, number));
        if body.reserved > 0 {
            for counts in [&mut share.counts, &mut self.counts] {
                counts.count -= 1;
                counts.waiting -= usize::from(body.awaited > 0);
            }
            self.by_size.remove(&(share.used, owner));
            share.used -= body.reserved;
            self.used -= body.reserved;
            if share.used > 0 {
                self.by_size.insert((share.used, owner));
            }
        }
        if share.bodies.is_empty() {
            self.shares.remove(&owner);
        }
        Some(body)
    }

    /// Serves the waiting bodies of one prefix in turn. If none can be served and every body with memory waits, the
    /// largest is evicted.
    fn serve(&mut self, owner: Owner) {
        loop {
            while self.serve_first(owner) {}
            let Some(share) = self.shares.get(&owner) else { return };
            let all_wait = share.counts.count > 1 && share.counts.waiting == share.counts.count;
            let mut others =
                share.by_size.iter().rev().filter(|(_, number)| share.waiting.front() != Some(number));
            let Some(&(_, victim)) = others.next().filter(|_| all_wait) else { return };
            if let Some(waker) = self.remove(owner, victim).and_then(|body| body.waker) {
                waker.wake();
            }
        }
    }

    /// Serves the first waiting body of a prefix. Returns whether that was possible.
    fn serve_first(&mut self, owner: Owner) -> bool {
        let Some(share) = self.shares.get_mut(&owner) else { return false };
        while share.waiting.front().is_some_and(|number| !share.bodies.contains_key(number)) {
            share.waiting.pop_front();
        }
        let Some(&number) = share.waiting.front() else { return false };
        let Some(awaited) = self.body(owner, number).map(|body| body.awaited) else { return false };
        if self.missing(owner, awaited).is_some() {
            return false;
        }
        let Some(share) = self.shares.get_mut(&owner) else { return false };
        share.waiting.pop_front();
        if let Some(body) = share.bodies.get_mut(&number) {
            body.awaited = 0;
            let own = usize::from(body.reserved > 0);
            share.counts.waiting -= own;
            self.counts.waiting -= own;
            if let Some(waker) = body.waker.take() {
                waker.wake();
            }
        }
        self.grow(owner, number, awaited);
        true
    }

    /// Serves one waiting body of each prefix.
    fn serve_queue(&mut self) {
        for _ in 0..self.queue.len().min(MAX_PREFIXES_CHECKED) {
            let Some(owner) = self.queue.pop_front() else { return };
            self.serve_first(owner);
            let Some(share) = self.shares.get_mut(&owner) else { continue };
            share.is_queued = !share.waiting.is_empty();
            if share.is_queued {
                self.queue.push_back(owner);
            }
        }
    }
}

/// Prefixes checked per call, so that the work for one body is bounded.
const MAX_PREFIXES_CHECKED: usize = 32;

#[cfg(test)]
mod tests;
