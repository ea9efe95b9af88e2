//! Permits: what an admitted attempt holds until its answer has ended, where only so many may be under way at once.
//!
//! What counts them is a module of a higher layer, like a [`Defence`](super::Defence). Attempts take them by the engine.

pub mod slots;

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use self::slots::{ConcurrencyFigures, ConcurrencyLimit};
use tollgate_bucket::{Key, Time};

/// Counts attempts under way, over all workers, by who holds their permits.
pub trait PermitCounter<H>: Any + Debug + Send + Sync {
    /// Its bound, in words. Two with the same words are one.
    fn describe(&self) -> String;

    /// Takes a permit, if one is free for this holder.
    fn take(&self, holder: &H) -> bool;

    /// Gives one back.
    fn give_back(&self, holder: &H);

    /// The words for a client when none is free.
    fn why(&self) -> &'static str;

    /// The same bound over what this former counter has counted: attempts under way stay counted when the rules change.
    fn after(&self, former: &dyn PermitCounter<H>) -> Option<Arc<dyn PermitCounter<H>>>;
}

/// A request for a permit: the prefix of the client, `None` for all without an address; and the time.
pub type PermitRequest = (Option<IpAddr>, Time);

/// What counts the attempts of a route.
pub type RouteCounter = dyn PermitCounter<PermitRequest>;

/// What counts the attempts of each bucket of a limit.
pub type BucketCounter = dyn PermitCounter<Key>;

/// The counters of a route.
#[derive(Debug, Clone, Default)]
pub struct RouteCounters {
    /// Counts each attempt until its answer has ended.
    pub all: Option<Arc<RouteCounter>>,
    /// Counts each attempt while it is held, if no other does.
    pub held: Option<Arc<RouteCounter>>,
    /// Gives each attempt a slot while it is at the application.
    pub concurrency: Option<Arc<dyn ConcurrencyLimit>>,
}

/// A permit, given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct AttemptPermit<H: Debug + 'static> {
    counter: Arc<dyn PermitCounter<H>>,
    holder: H,
}

/// No permit was free: what the counter says to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPermit(pub &'static str);

impl RouteCounters {
    /// The one that counts an attempt, and whether only while that is held.
    #[must_use]
    pub fn of(&self, is_held: bool) -> Option<(&Arc<RouteCounter>, bool)> {
        let held = || self.held.as_ref().filter(|_| is_held).map(|counter| (counter, true));
        self.all.as_ref().map(|counter| (counter, false)).or_else(held)
    }

    /// Whether an attempt needs a slot.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        self.concurrency.is_some()
    }

    /// The slots of its attempts, in figures; `None` if they need none.
    #[must_use]
    pub fn slots(&self) -> Option<ConcurrencyFigures> {
        self.concurrency.as_ref().map(|limit| limit.figures())
    }

    pub(super) fn carry_over(&mut self, former: &Self) {
        carry_over(&mut self.all, former.all.as_ref());
        carry_over(&mut self.held, former.held.as_ref());
        slots::carry_over(&mut self.concurrency, former.concurrency.as_ref());
    }
}

impl<H: Debug + 'static> AttemptPermit<H> {
    /// # Errors
    /// [`NoPermit`] if none is free for this holder.
    pub fn take(counter: &Arc<dyn PermitCounter<H>>, holder: H) -> Result<Self, NoPermit> {
        match counter.take(&holder) {
            true => Ok(Self { counter: Arc::clone(counter), holder }),
            false => Err(NoPermit(counter.why())),
        }
    }
}

impl<H: Debug + 'static> Drop for AttemptPermit<H> {
    fn drop(&mut self) {
        self.counter.give_back(&self.holder);
    }
}

impl PartialEq for RouteCounters {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all && self.held == other.held && self.concurrency == other.concurrency
    }
}

impl<H: 'static> PartialEq for dyn PermitCounter<H> {
    fn eq(&self, other: &Self) -> bool {
        self.describe() == other.describe()
    }
}

pub(super) fn carry_over<H: 'static>(
    counter: &mut Option<Arc<dyn PermitCounter<H>>>,
    former: Option<&Arc<dyn PermitCounter<H>>>,
) {
    if let (Some(counter), Some(former)) = (counter, former)
        && let Some(after) = counter.after(&**former)
    {
        *counter = after;
    }
}
