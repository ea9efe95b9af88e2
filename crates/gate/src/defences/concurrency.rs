//! `in_flight = "auto"`: as many attempts at the application at once as it serves well, over all workers.
//!
//! [`gradient`] finds the number, [`queue`] says who is next. A slot lasts from the end of the request to the head of the answer:
//! an upload, a stream, a tunnel or a client that reads slowly keeps none. Waiting itself is left to the proxy.

mod gradient;
mod queue;

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::policy::slots::{
    ConcurrencyFigures, ConcurrencyLimit, NoSlot, QueuedTurn, SlotEnd, SlotEntry, SlotRequest,
};
use crate::time::{Span, Time};

use self::gradient::Gradient;
use self::queue::{SlotQueue, SlotShare};

/// The limit of one route.
#[derive(Debug)]
pub(super) struct AdaptiveLimit(Arc<Mutex<SlotState>>);

/// The slots of one route.
#[derive(Debug)]
struct SlotState {
    gradient: Gradient,
    in_flight: u32,
    of_prefixes: HashMap<Option<IpAddr>, u32>,
    queue: SlotQueue,
    /// Slots whose clients have left, with the times until when the application works for them.
    abandoned: BinaryHeap<Reverse<(Time, SlotRequest)>>,
    /// When a stranger that is refused next may come again.
    next_turn: Time,
    refused: u64,
}

impl AdaptiveLimit {
    /// The limit of a route before its first request.
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(SlotState {
            gradient: Gradient::new(),
            in_flight: 0,
            of_prefixes: HashMap::new(),
            queue: SlotQueue::default(),
            abandoned: BinaryHeap::new(),
            next_turn: Time::default(),
            refused: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConcurrencyLimit for AdaptiveLimit {
    fn describe(&self) -> String {
        "in flight by the application's latency".to_owned()
    }

    fn enter(&self, request: SlotRequest, now: Time) -> Result<SlotEntry, NoSlot> {
        let mut state = self.state();
        state.end_abandoned(now);
        if state.queue.ahead(request.is_known) == 0 && state.may_take(request) {
            state.take(request, now);
            return Ok(SlotEntry::Slot);
        }
        state.gradient.held_back(now);
        let (turn, most) = (Arc::new(QueuedTurn::default()), state.may_wait());
        let Ok(evicted) = state.queue.push(request, &turn, most) else {
            return Err(state.refuse(request.is_known, now));
        };
        if let Some(evicted) = evicted {
            evicted.end(Err(state.refuse(request.is_known, now)));
        }
        // Those before it may be of prefixes that have all that one may have.
        state.grant(now);
        match turn.ended() {
            Some(Ok(())) => Ok(SlotEntry::Slot),
            _ => Ok(SlotEntry::Queued(turn, state.longest_wait())),
        }
    }

    fn tick(&self, now: Time) {
        self.state().end_abandoned(now);
    }

    fn leave_queue(&self, request: SlotRequest, turn: &Arc<QueuedTurn>) -> bool {
        let mut state = self.state();
        state.queue.remove(request, turn);
        turn.ended() == Some(Ok(()))
    }

    fn refuse(&self, request: SlotRequest, now: Time) -> NoSlot {
        self.state().refuse(request.is_known, now)
    }

    fn end(&self, request: SlotRequest, end: SlotEnd, now: Time) {
        let mut state = self.state();
        if let SlotEnd::Abandoned { sent } = end {
            let until = sent.after(state.latency());
            state.abandoned.push(Reverse((until, request)));
            return state.end_abandoned(now);
        }
        state.give_back(request);
        let in_flight = state.in_flight;
        match end {
            SlotEnd::Answered { sent } => state.gradient.answered(sent, in_flight, now),
            SlotEnd::Unmeasured | SlotEnd::Abandoned { .. } => state.gradient.ended(in_flight, now),
        }
        state.grant(now);
    }

    fn figures(&self) -> ConcurrencyFigures {
        let state = self.state();
        let (limit, waiting) = (state.gradient.limit(), state.queue.len());
        ConcurrencyFigures { limit, in_flight: state.in_flight, waiting, refused: state.refused }
    }

    fn after(&self, former: &dyn ConcurrencyLimit) -> Option<Arc<dyn ConcurrencyLimit>> {
        let former = (former as &dyn Any).downcast_ref::<Self>()?;
        Some(Arc::new(Self(Arc::clone(&former.0))))
    }
}

impl SlotState {
    fn take(&mut self, request: SlotRequest, now: Time) {
        self.in_flight += 1;
        *self.of_prefixes.entry(request.prefix).or_default() += 1;
        self.gradient.sent(self.in_flight, now);
    }

    fn give_back(&mut self, request: SlotRequest) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(own) = self.of_prefixes.get_mut(&request.prefix) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.of_prefixes.remove(&request.prefix);
            }
        }
    }

    /// Whether there is a slot for it.
    fn may_take(&self, request: SlotRequest) -> bool {
        self.in_flight < self.gradient.allowed(request.is_known)
            && share_of(request, &self.of_prefixes, &self.gradient) != SlotShare::All
    }

    /// Gives free slots to those who wait.
    fn grant(&mut self, now: Time) {
        while self.in_flight < self.gradient.allowed(true) {
            let strangers_may = self.in_flight < self.gradient.allowed(false);
            let Self { queue, of_prefixes, gradient, .. } = &mut *self;
            let next = queue.pop(strangers_may, |request| share_of(request, of_prefixes, gradient));
            let Some((request, turn)) = next else { return };
            self.gradient.held_back(now);
            self.take(request, now);
            turn.end(Ok(()));
        }
    }

    /// Gives back the slots of clients that have left, once the application is done with them.
    fn end_abandoned(&mut self, now: Time) {
        self.gradient.end_long_probe(now);
        while let Some(&Reverse((until, request))) = self.abandoned.peek() {
            if until > now {
                break;
            }
            self.abandoned.pop();
            self.give_back(request);
            self.gradient.ended(self.in_flight, now);
        }
        self.grant(now);
    }

    fn latency(&self) -> Span {
        self.gradient.latency().unwrap_or(UNKNOWN_LATENCY)
    }

    fn longest_wait(&self) -> Span {
        LONGEST_WAIT.max(self.latency()).min(SLOWEST_WAIT)
    }

    /// So many of each kind may wait: as many as have their turn within the longest wait, as far as that is known.
    fn may_wait(&self) -> u32 {
        if self.gradient.latency().is_none() {
            return MOST_WAITING;
        }
        let served = self.longest_wait().as_nanos() / self.interval().as_nanos().max(1);
        u32::try_from(served).unwrap_or(u32::MAX).clamp(LEAST_WAITING, MOST_WAITING)
    }

    /// The time from one answer to the next, under full load.
    fn interval(&self) -> Span {
        Span::from_nanos(self.latency().as_nanos() / u64::from(self.gradient.limit().max(1)))
    }

    /// When a refused request may come again: when those who wait have had their turn. Strangers are told one time after the other,
    /// as many in a second as the application answers, so that those who keep to it do not meet again.
    fn refuse(&mut self, is_known: bool, now: Time) -> NoSlot {
        self.refused = self.refused.saturating_add(1);
        let interval = self.interval();
        let ahead = u64::from(self.queue.ahead(is_known)).saturating_add(1);
        let soonest = now.after(interval.times(ahead));
        let told = if is_known { soonest } else { soonest.max(self.next_turn) }.min(now.after(LONGEST_TOLD));
        if !is_known {
            self.next_turn = told.after(interval);
        }
        NoSlot(told.since(now))
    }
}

/// How much the prefix of a request has of what is allowed for its kind. A quarter is left to others, so that those who come
/// next need not wait for the slow requests of one client. Clients without an address are many.
fn share_of(
    SlotRequest { prefix, is_known }: SlotRequest,
    of_prefixes: &HashMap<Option<IpAddr>, u32>,
    gradient: &Gradient,
) -> SlotShare {
    let own = of_prefixes.get(&prefix).copied().unwrap_or_default();
    let allowed = gradient.allowed(is_known);
    let most = allowed.saturating_sub((allowed / 4).max(1)).max(1);
    match own {
        _ if own >= most && prefix.is_some() => SlotShare::All,
        _ if own >= gradient.limit().div_ceil(2) => SlotShare::Half,
        _ => SlotShare::Less,
    }
}

/// A request waits so long at most, or as long as an answer takes, up to [`SLOWEST_WAIT`].
const LONGEST_WAIT: Span = Span::from_secs(1);
const SLOWEST_WAIT: Span = Span::from_secs(10);
/// The requests of known clients that may wait, and those of strangers.
const LEAST_WAITING: u32 = 4;
const MOST_WAITING: u32 = 256;
/// For an application that has not answered yet.
const UNKNOWN_LATENCY: Span = Span::from_secs(1);
/// The longest `Retry-After`.
const LONGEST_TOLD: Span = Span::from_secs(60);

#[cfg(test)]
mod tests;
