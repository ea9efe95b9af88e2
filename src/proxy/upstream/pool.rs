//! The pool of idle upstream connections of one worker, and the requests that wait for one.
//!
//! Last in, first out; whoever waits is served in turn, before whoever comes next. The surprising thing: a connection keeps
//! its place among `upstream_max` while it rests, and goes from request to request while some wait, so one is closed now and
//! then where a request of another worker has no place.

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

/// The connections that rest, and those who would like one.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: RefCell<Vec<PooledConnection>>,
    waiting: RefCell<VecDeque<oneshot::Sender<UpstreamConnection>>>,
    /// How many wait, without those who have gone.
    waiter_count: Cell<usize>,
    /// Connections that came free while places were wanted elsewhere.
    released_on_demand: Cell<u32>,
}

struct PooledConnection {
    connection: UpstreamConnection,
    /// Sweeps that it has seen: telling the time at each request would cost more.
    sweeps: u32,
}

impl ConnectionPool {
    /// The youngest, but not one of the last `spared`.
    pub(super) fn pop(&self, spared: usize) -> Option<UpstreamConnection> {
        let mut resting = self.idle.borrow_mut();
        if resting.len() > spared { resting.pop().map(|resting| resting.connection) } else { None }
    }

    /// A connection is free: for whoever waits here, for a place elsewhere, or to rest.
    pub(super) fn put(&self, mut connection: UpstreamConnection, want: &ConnectionDemand) {
        let is_wanted_elsewhere = want.count() > self.waiter_count.get();
        if is_wanted_elsewhere && (self.waiter_count.get() == 0 || self.yields_to_other_worker()) {
            return;
        }
        while let Some(waiting) = self.waiting.borrow_mut().pop_front() {
            match waiting.send(connection) {
                Ok(()) => return,
                // Gone meanwhile.
                Err(back) => connection = back,
            }
        }
        self.idle.borrow_mut().push(PooledConnection { connection, sweeps: 0 });
    }

    /// Sometimes, because a new connection costs more than one that is handed on.
    fn yields_to_other_worker(&self) -> bool {
        self.released_on_demand.set(self.released_on_demand.get().wrapping_add(1));
        self.released_on_demand.get().is_multiple_of(YIELD_EVERY)
    }

    /// The next one that is free and that nobody waits for who was here before.
    pub(super) fn wait(&self) -> oneshot::Receiver<UpstreamConnection> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver
    }

    /// Closes those that have seen so many sweeps.
    pub(super) fn expire(&self, sweeps: u32) {
        self.idle.borrow_mut().retain_mut(|resting| {
            resting.sweeps += 1;
            resting.sweeps < sweeps && !resting.connection.sender.is_closed()
        });
        self.waiting.borrow_mut().retain(|waiting| !waiting.is_closed());
    }

    /// Closes the oldest, this many.
    fn close(&self, count: usize) {
        let mut resting = self.idle.borrow_mut();
        let count = count.min(resting.len());
        resting.drain(..count);
    }
}

/// How many requests have no place at an upstream, and who hears of them: all workers.
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

/// Counts one of them as long as it lives.
pub(super) struct DemandGuard<'w> {
    demand: &'w ConnectionDemand,
    pool: &'w ConnectionPool,
}

impl<'w> DemandGuard<'w> {
    /// A request of this worker.
    pub(super) fn begin(want: &'w ConnectionDemand, here: &'w ConnectionPool) -> Self {
        here.waiter_count.set(here.waiter_count.get() + 1);
        want.count.fetch_add(1, SeqCst);
        want.changed.notify_waiters();
        Self { demand: want, pool: here }
    }
}

impl Drop for DemandGuard<'_> {
    fn drop(&mut self) {
        self.pool.waiter_count.set(self.pool.waiter_count.get() - 1);
        self.demand.count.fetch_sub(1, SeqCst);
    }
}

/// Closes resting connections where their places are wanted, until it is dropped.
pub(super) struct IdleCloser(AbortHandle);

impl IdleCloser {
    /// In a task of this thread.
    pub(super) fn begin(idle: &Rc<ConnectionPool>, health: &Arc<Health>) -> Self {
        let (idle, health) = (Rc::clone(idle), Arc::clone(health));
        let task = tokio::task::spawn_local(async move {
            loop {
                let mut more = pin!(health.demand.changed.notified());
                // Whoever comes between the look and the wait is heard of.
                more.as_mut().enable();
                idle.close(health.demand.count());
                more.await;
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

/// One of so many connections that come free goes where another worker wants its place.
const YIELD_EVERY: u32 = 8;
