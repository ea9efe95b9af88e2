//! The pool of idle upstream connections of one worker, and the requests that wait for one.
//!
//! The pool is last in, first out; waiting requests are served in turn, before later ones. An idle connection keeps its
//! slot among `upstream_max`, and waiting requests hand connections on, so a connection is closed now and then to free
//! its slot for a request of another worker. `health` holds the demand that all workers share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::{Health, UpstreamConnection};

/// Idle connections, and requests that wait for one.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: RefCell<Vec<PooledConnection>>,
    waiting: RefCell<VecDeque<oneshot::Sender<UpstreamConnection>>>,
    /// Number of waiting requests; those that have gone are not counted.
    waiter_count: Cell<usize>,
    /// Connections released while other workers needed slots.
    released_on_demand: Cell<u32>,
}

struct PooledConnection {
    connection: UpstreamConnection,
    /// Sweeps since it became idle; cheaper than reading the clock at each request.
    sweeps: u32,
}

impl ConnectionPool {
    /// The youngest idle connection; `None` if only `reserved` ones are left.
    pub(super) fn pop(&self, reserved: usize) -> Option<UpstreamConnection> {
        let mut idle = self.idle.borrow_mut();
        if idle.len() > reserved { idle.pop().map(|pooled| pooled.connection) } else { None }
    }

    /// Releases a connection: to a waiting request, by closing it for another worker, or to the idle ones.
    pub(super) fn put(&self, mut connection: UpstreamConnection, demand: &ConnectionDemand) {
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
        self.idle.borrow_mut().push(PooledConnection { connection, sweeps: 0 });
    }

    /// Whether to close a connection for another worker: rarely, because a new connection costs more than a reused one.
    fn yields_to_other_worker(&self) -> bool {
        self.released_on_demand.set(self.released_on_demand.get().wrapping_add(1));
        self.released_on_demand.get().is_multiple_of(YIELD_EVERY)
    }

    /// Waits for a released connection, behind the requests that wait already.
    pub(super) fn wait(&self) -> oneshot::Receiver<UpstreamConnection> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver
    }

    /// Counts a sweep, and closes connections that were idle for `sweeps` of them or that the upstream has closed.
    pub(super) fn expire(&self, sweeps: u32) {
        self.idle.borrow_mut().retain_mut(|pooled| {
            pooled.sweeps += 1;
            pooled.sweeps < sweeps && pooled.connection.socket.is_idle()
        });
        self.waiting.borrow_mut().retain(|waiter| !waiter.is_closed());
    }

    /// Whether it holds no connection, and no request waits for one.
    pub(super) fn is_empty(&self) -> bool {
        self.idle.borrow().is_empty() && self.waiting.borrow().is_empty()
    }

    /// Closes the `count` oldest idle connections.
    fn close(&self, count: usize) {
        let mut idle = self.idle.borrow_mut();
        let count = count.min(idle.len());
        idle.drain(..count);
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
