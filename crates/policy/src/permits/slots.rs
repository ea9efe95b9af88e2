//! The concurrency limit of a route: how many of its attempts may be at the application at once, where the file leaves the
//! number to the gate.
//!
//! What finds the number is a module of a higher layer, like a [`Defence`](crate::Defence). The proxy asks for a slot before it
//! sends an attempt, waits for it, and gives it back when the answer begins.

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tollgate_bucket::{Span, Time};

/// Bounds the attempts of a route that are at the application at once, over all workers.
pub trait ConcurrencyLimit: Any + Debug + Send + Sync {
    /// Its bound, in words. Two with the same words are one.
    fn describe(&self) -> String;

    /// Takes a slot, or a place in the queue for one.
    ///
    /// # Errors
    /// [`NoSlot`] if the queue is full.
    fn enter(&self, request: SlotRequest, now: Time) -> Result<SlotEntry, NoSlot>;

    /// Gives slots to those who wait, if some have become free by time alone.
    fn tick(&self, now: Time);

    /// Gives up a place in the queue. Returns whether its slot came meanwhile.
    fn leave_queue(&self, request: SlotRequest, turn: &Arc<QueuedTurn>) -> bool;

    /// Counts a request that has waited in vain.
    fn refuse(&self, request: SlotRequest, now: Time) -> NoSlot;

    /// Gives back a slot.
    fn end(&self, request: SlotRequest, end: SlotEnd, now: Time);

    /// What it allows now, and what it bounds.
    fn figures(&self) -> ConcurrencyFigures;

    /// The same limit with what this former one has learned and counted.
    fn after(&self, former: &dyn ConcurrencyLimit) -> Option<Arc<dyn ConcurrencyLimit>>;
}

/// A request for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRequest {
    /// The prefix of the client; `None` for all without an address.
    pub prefix: Option<IpAddr>,
    /// Whether the client is known as the owner of its account.
    pub is_known: bool,
}

/// What a request for a slot got.
#[derive(Debug)]
pub enum SlotEntry {
    /// A slot.
    Slot,
    /// A place in the queue, for this long at most.
    Queued(Arc<QueuedTurn>, Span),
}

/// How a slot was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotEnd {
    /// The answer to a request sent then has begun; its time tells how busy the application is.
    Answered {
        /// When the request was sent.
        sent: Time,
    },
    /// There was no answer, or one that tells nothing.
    Unmeasured,
    /// The client left before the answer. Most applications work on.
    Abandoned {
        /// When the request was sent.
        sent: Time,
    },
}

/// No slot within reach: the wait after which one may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the application is busy: in_flight")]
pub struct NoSlot(pub Span);

/// A concurrency limit in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConcurrencyFigures {
    /// Attempts that may be at the application.
    pub limit: u32,
    /// Attempts that are there.
    pub in_flight: u32,
    /// Attempts that wait in the gate.
    pub waiting: u32,
    /// Attempts that found no slot so far.
    pub refused: u64,
}

impl ConcurrencyFigures {
    /// What an attempt meets, as in `3 of 8 at the application, by its latency; 0 wait`.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { limit, in_flight, waiting, .. } = self;
        format!("{in_flight} of {limit} at the application, by its latency; {waiting} wait")
    }
}

/// A place in the queue for a slot.
#[derive(Debug)]
pub struct QueuedTurn(Mutex<TurnState>);

#[derive(Debug)]
enum TurnState {
    Waiting(Option<Waker>),
    Ended(Result<(), NoSlot>),
}

impl QueuedTurn {
    /// Ends the wait, with a slot or without one. Only the first end counts.
    pub fn end(&self, result: Result<(), NoSlot>) {
        let mut state = self.state();
        if let TurnState::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = TurnState::Ended(result);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// How the wait ended; `None` while it lasts.
    pub fn ended(&self) -> Option<Result<(), NoSlot>> {
        match *self.state() {
            TurnState::Waiting(_) => None,
            TurnState::Ended(result) => Some(result),
        }
    }

    /// Waits for the end.
    pub fn poll_end(&self, cx: &Context<'_>) -> Poll<Result<(), NoSlot>> {
        match &mut *self.state() {
            TurnState::Ended(result) => Poll::Ready(*result),
            TurnState::Waiting(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for QueuedTurn {
    fn default() -> Self {
        Self(Mutex::new(TurnState::Waiting(None)))
    }
}

impl PartialEq for dyn ConcurrencyLimit {
    fn eq(&self, other: &Self) -> bool {
        self.describe() == other.describe()
    }
}

pub(super) fn carry_over(
    limit: &mut Option<Arc<dyn ConcurrencyLimit>>,
    former: Option<&Arc<dyn ConcurrencyLimit>>,
) {
    if let (Some(limit), Some(former)) = (limit, former)
        && let Some(after) = limit.after(&**former)
    {
        *limit = after;
    }
}
