//! The pool of idle upstream connections of one worker, and the requests that wait for one.
//!
//! The pool is last in, first out; waiting requests are served in turn, before later ones. An idle connection keeps its
//! slot among `upstream_max`, and waiting requests hand connections on, so a connection is closed now and then to free
//! its slot for a request of another worker. `health` holds the demand that all workers share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::bound::{BoundConnections, PoolKey};
use super::reuse::ReuseLimit;
use super::{Health, UpstreamConnection};

/// Idle connections, and requests that wait for one.
#[derive(Default)]
pub(super) struct ConnectionPool {
    pub(super) key: PoolKey,
    idle: RefCell<Vec<PooledConnection>>,
    waiting: RefCell<VecDeque<oneshot::Sender<Box<UpstreamConnection>>>>,
    /// Holders of connections that belong to one client, in the order in which they were last used.
    bound: RefCell<VecDeque<Weak<BoundConnections>>>,
    /// Number of waiting requests; those that have gone are not counted.
    waiter_count: Cell<usize>,
    /// Connections released while other workers needed slots.
    released_on_demand: Cell<u32>,
}

struct PooledConnection {
    connection: Box<UpstreamConnection>,
    since: Instant,
}

impl ConnectionPool {
    /// The youngest idle connection whose rest is safe, and how long it was; `None` if only `reserved` ones are
    /// left.
    pub(super) fn pop(
        &self,
        reserved: usize,
        is_safe: impl Fn(Duration) -> bool,
    ) -> Option<(Box<UpstreamConnection>, Duration)> {
        let mut idle = self.idle.borrow_mut();
        let rested = idle.last().filter(|_| idle.len() > reserved)?.since.elapsed();
        // All others have rested longer.
        let pooled = if is_safe(rested) { idle.pop() } else { None };
        pooled.map(|pooled| (pooled.connection, rested))
    }

    /// Releases a connection: to a waiting request, by closing it for another worker, or to the idle ones.
    pub(super) fn put(&self, mut connection: Box<UpstreamConnection>, demand: &ConnectionDemand) {
        let is_needed_elsewhere = demand.count() > self.waiter_count.get();
        if is_needed_elsewhere && (self.waiter_count.get() == 0 || self.yields_to_other_worker()) {
            return;
        }
        while let Some(waiter) = self.waiting.borrow_mut().pop_front() {
            match waiter.send(connection) {
                Ok(()) => return,
                // The waiting request is gone.
                Err(returned) => connection = returned,
            }
        }
        self.idle.borrow_mut().push(PooledConnection { connection, since: Instant::now() });
    }

    /// Whether to close a connection for another worker: rarely, because a new connection costs more than a reused one.
    fn yields_to_other_worker(&self) -> bool {
        self.released_on_demand.set(self.released_on_demand.get().wrapping_add(1));
        self.released_on_demand.get().is_multiple_of(YIELD_EVERY)
    }

    /// Waits for a released connection, behind the requests that wait already.
    pub(super) fn wait(&self) -> oneshot::Receiver<Box<UpstreamConnection>> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver
    }

    /// Closes connections that were idle for `longest`, or that the upstream has closed, and notes which it was.
    pub(super) fn expire(&self, longest: Duration, limit: &ReuseLimit) {
        self.idle.borrow_mut().retain_mut(|pooled| {
            let rested = pooled.since.elapsed();
            if !pooled.connection.socket.is_idle() {
                limit.was_closed(rested);
                return false;
            }
            let stays = rested < longest;
            if !stays {
                limit.was_open(rested);
            }
            stays
        });
        self.waiting.borrow_mut().retain(|waiter| !waiter.is_closed());
    }

    /// Whether it holds no connection, and no request waits for one.
    pub(super) fn is_empty(&self) -> bool {
        self.idle.borrow().is_empty() && self.waiting.borrow().is_empty()
    }

    /// Notes that this client holds its own connection.
    pub(super) fn note_bound(&self, owner: &Rc<BoundConnections>) {
        let mut bound = self.bound.borrow_mut();
        bound.retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Rc::as_ptr(owner)));
        bound.push_back(Rc::downgrade(owner));
    }

    /// Closes the `count` oldest idle connections, and then those that belong to one client.
    fn close(&self, count: usize) {
        let mut idle = self.idle.borrow_mut();
        let from_idle = count.min(idle.len());
        idle.drain(..from_idle);
        drop(idle);
        for _ in from_idle..count {
            self.close_bound();
        }
    }

    /// Closes the connection of a client that was not used for longest. Returns whether there was one.
    pub(super) fn close_bound(&self) -> bool {
        loop {
            let Some(oldest) = self.bound.borrow_mut().pop_front() else { return false };
            if oldest.upgrade().is_some_and(|owner| owner.take(&self.key).is_some()) {
                return true;
            }
        }
    }
}

/// The number of requests of all workers that wait for a slot at an upstream.
#[derive(Debug, Default)]
pub(super) struct ConnectionDemand {
    count: AtomicUsize,
    changed: Notify,
}

impl ConnectionDemand {
    fn count(&self) -> usize {
        self.count.load(SeqCst)
    }
}

/// Counts a waiting request while it lives.
pub(super) struct DemandGuard<'w> {
    demand: &'w ConnectionDemand,
    pool: &'w ConnectionPool,
}

impl<'w> DemandGuard<'w> {
    /// Counts a request of the worker with this pool.
    pub(super) fn begin(demand: &'w ConnectionDemand, pool: &'w ConnectionPool) -> Self {
        pool.waiter_count.set(pool.waiter_count.get() + 1);
        demand.count.fetch_add(1, SeqCst);
        demand.changed.notify_waiters();
        Self { demand, pool }
    }
}

impl Drop for DemandGuard<'_> {
    fn drop(&mut self) {
        self.pool.waiter_count.set(self.pool.waiter_count.get() - 1);
        self.demand.count.fetch_sub(1, SeqCst);
    }
}

/// Closes idle connections when other requests need their slots, until it is dropped.
pub(super) struct IdleCloser(AbortHandle);

impl IdleCloser {
    /// Starts a task on this thread.
    pub(super) fn begin(pool: &Rc<ConnectionPool>, health: &Arc<Health>) -> Self {
        let (pool, health) = (Rc::clone(pool), Arc::clone(health));
        let task = tokio::task::spawn_local(async move {
            loop {
                let mut changed = pin!(health.demand.changed.notified());
                // Enabled before the check, so no change is missed between check and wait.
                changed.as_mut().enable();
                pool.close(health.demand.count());
                changed.await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for IdleCloser {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// While other workers need slots, one in this many released connections is closed for them.
const YIELD_EVERY: u32 = 8;
