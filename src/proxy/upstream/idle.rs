//! One worker's connections to an upstream that nobody uses, and the requests that wait for one.
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

use super::{Connection, Health};

/// The connections that rest, and those who would like one.
#[derive(Default)]
pub(super) struct Idle {
    resting: RefCell<Vec<Resting>>,
    waiting: RefCell<VecDeque<oneshot::Sender<Connection>>>,
    /// How many wait, without those who have gone.
    wanting: Cell<usize>,
    /// Connections that came free while places were wanted elsewhere.
    turn: Cell<u32>,
}

struct Resting {
    connection: Connection,
    /// Sweeps that it has seen: telling the time at each request would cost more.
    sweeps: u32,
}

impl Idle {
    /// The youngest, but not one of the last `spared`.
    pub(super) fn pop(&self, spared: usize) -> Option<Connection> {
        let mut resting = self.resting.borrow_mut();
        if resting.len() > spared { resting.pop().map(|resting| resting.connection) } else { None }
    }

    /// A connection is free: for whoever waits here, for a place elsewhere, or to rest.
    pub(super) fn put(&self, mut connection: Connection, want: &Want) {
        let is_wanted_elsewhere = want.count() > self.wanting.get();
        if is_wanted_elsewhere && (self.wanting.get() == 0 || self.is_others_turn()) {
            return;
        }
        while let Some(waiting) = self.waiting.borrow_mut().pop_front() {
            match waiting.send(connection) {
                Ok(()) => return,
                // Gone meanwhile.
                Err(back) => connection = back,
            }
        }
        self.resting.borrow_mut().push(Resting { connection, sweeps: 0 });
    }

    /// Sometimes, because a new connection costs more than one that is handed on.
    fn is_others_turn(&self) -> bool {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.turn.get().is_multiple_of(TURNS)
    }

    /// The next one that is free and that nobody waits for who was here before.
    pub(super) fn wait(&self) -> oneshot::Receiver<Connection> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver
    }

    /// Closes those that have seen so many sweeps.
    pub(super) fn expire(&self, sweeps: u32) {
        self.resting.borrow_mut().retain_mut(|resting| {
            resting.sweeps += 1;
            resting.sweeps < sweeps && !resting.connection.sender.is_closed()
        });
        self.waiting.borrow_mut().retain(|waiting| !waiting.is_closed());
    }

    /// Closes the oldest, this many.
    fn close(&self, count: usize) {
        let mut resting = self.resting.borrow_mut();
        let count = count.min(resting.len());
        resting.drain(..count);
    }
}

/// How many requests have no place at an upstream, and who hears of them: all workers.
#[derive(Debug, Default)]
pub(super) struct Want {
    count: AtomicUsize,
    more: Notify,
}

impl Want {
    fn count(&self) -> usize {
        self.count.load(SeqCst)
    }
}

/// Counts one of them as long as it lives.
pub(super) struct Wanted<'w> {
    want: &'w Want,
    here: &'w Idle,
}

impl<'w> Wanted<'w> {
    /// A request of this worker.
    pub(super) fn begin(want: &'w Want, here: &'w Idle) -> Self {
        here.wanting.set(here.wanting.get() + 1);
        want.count.fetch_add(1, SeqCst);
        want.more.notify_waiters();
        Self { want, here }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.here.wanting.set(self.here.wanting.get() - 1);
        self.want.count.fetch_sub(1, SeqCst);
    }
}

/// Closes resting connections where their places are wanted, until it is dropped.
pub(super) struct MakingRoom(AbortHandle);

impl MakingRoom {
    /// In a task of this thread.
    pub(super) fn begin(idle: &Rc<Idle>, health: &Arc<Health>) -> Self {
        let (idle, health) = (Rc::clone(idle), Arc::clone(health));
        let task = tokio::task::spawn_local(async move {
            loop {
                let mut more = pin!(health.want.more.notified());
                // Whoever comes between the look and the wait is heard of.
                more.as_mut().enable();
                idle.close(health.want.count());
                more.await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for MakingRoom {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One of so many connections that come free goes where another worker wants its place.
const TURNS: u32 = 8;
