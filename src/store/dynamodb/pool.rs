//! A bounded number of connections to the server, made when they are needed and kept while they answer.
//!
//! Connections are made one after the other in a task of their own, so that a caller who gives up does not undo what was
//! begun. The surprising thing: while something is wrong, there is at most one attempt in 100 ms, and whoever asks between
//! two of them is told at once what the last one met.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::connection::{Connection, Peer, Reply, Unsent};
use crate::store::StoreError;
use crate::time::{Clock, Span, Time};

/// Connections to one server.
pub(super) struct Pool {
    peer: Peer,
    clock: Clock,
    places: Arc<Semaphore>,
    state: Mutex<State>,
    /// A connection is free, or none can be had.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The last one answered last.
    idle: VecDeque<Kept>,
    is_dialing: bool,
    /// What went wrong since the last whole answer.
    trouble: Option<String>,
    /// When the next connection may be made, in trouble.
    next: Time,
}

struct Kept {
    connection: Connection,
    /// It was made, or gave a whole answer.
    good: Time,
    _place: OwnedSemaphorePermit,
}

/// A connection in use. Dropped with an unread answer, it takes the connection along.
struct Lease<'a> {
    pool: &'a Pool,
    kept: Option<Kept>,
    is_asking: bool,
}

impl Pool {
    /// Without a connection yet.
    pub(super) fn new(peer: Peer, clock: Clock) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(MOST));
        Arc::new(Self { peer, clock, places, state: Mutex::default(), changed: Notify::new() })
    }

    /// Asks once, over whatever connection is free first, and waits for the answer at most this long; again only what
    /// provably has not left.
    pub(super) async fn ask(
        self: &Arc<Self>,
        mut question: Unsent,
        patience: Duration,
    ) -> Result<Reply, StoreError> {
        let mut last = StoreError::Unreachable("every connection had ended".to_owned());
        for _ in 0..=MOST {
            let mut lease = self.take().await?;
            match lease.ask(&mut question, patience).await {
                Ok(reply) => {
                    lease.give_back();
                    return Ok(reply);
                }
                Err(error) if question.is_none() => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn take(self: &Arc<Self>) -> Result<Lease<'_>, StoreError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.try_take()? {
                Some(lease) => return Ok(lease),
                None => changed.await,
            }
        }
    }

    /// `None` if it is worth waiting for a connection.
    fn try_take(self: &Arc<Self>) -> Result<Option<Lease<'_>>, StoreError> {
        let now = self.clock.now();
        let mut state = self.state();
        state.idle.retain(|kept| !kept.connection.is_closed() && now.since(kept.good) < KEPT);
        if let Some(kept) = state.idle.pop_back() {
            return Ok(Some(Lease { pool: self, kept: Some(kept), is_asking: false }));
        }
        if state.is_dialing {
            return Ok(None);
        }
        if let Some(trouble) = &state.trouble
            && now < state.next
        {
            let others_answer = self.places.available_permits() < MOST;
            return if others_answer { Ok(None) } else { Err(StoreError::Unreachable(trouble.clone())) };
        }
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            state.is_dialing = true;
            state.next = now.after(PAUSE).after(jitter());
            tokio::spawn(dial(Arc::clone(self), place));
        }
        Ok(None)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn dial(pool: Arc<Pool>, place: OwnedSemaphorePermit) {
    let made = Connection::open(&pool.peer).await;
    let good = pool.clock.now();
    {
        let mut state = pool.state();
        state.is_dialing = false;
        match made {
            Ok(connection) => state.idle.push_back(Kept { connection, good, _place: place }),
            Err(why) => {
                state.trouble = Some(why);
                drop(place);
            }
        }
    }
    pool.changed.notify_waiters();
}

impl Lease<'_> {
    async fn ask(&mut self, question: &mut Unsent, patience: Duration) -> Result<Reply, StoreError> {
        let Some(kept) = &mut self.kept else { return Err(StoreError::Contended) };
        if !kept.connection.is_ready().await {
            return Err(StoreError::Unreachable("the connection had ended".to_owned()));
        }
        self.is_asking = true;
        let answer = tokio::time::timeout(patience, kept.connection.ask(question)).await;
        let answer = answer.unwrap_or_else(|_| Err(StoreError::Unreachable("no answer in time".to_owned())));
        // A kept connection that ended before the question left is no trouble.
        self.is_asking = question.is_none();
        answer
    }

    fn give_back(mut self) {
        self.is_asking = false;
        if let Some(kept) = self.kept.take() {
            let good = self.pool.clock.now();
            let mut state = self.pool.state();
            state.trouble = None;
            state.idle.push_back(Kept { good, ..kept });
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let is_lost = self.kept.take().is_some();
        if self.is_asking {
            let now = self.pool.clock.now();
            let mut state = self.pool.state();
            state.trouble.get_or_insert_with(|| "it does not answer in time".to_owned());
            // Those that have not answered for a while may be dead as well, and can be had anew.
            state.idle.retain(|kept| now.since(kept.good) < Span::from_secs(1));
        }
        if is_lost {
            self.pool.changed.notify_waiters();
        } else {
            self.pool.changed.notify_one();
        }
    }
}

fn jitter() -> Span {
    Span::from_nanos(RandomState::new().hash_one(0_u8) % PAUSE.as_nanos())
}

/// As many questions at once.
const MOST: usize = 16;
/// Between two attempts to connect, in trouble.
const PAUSE: Span = Span::from_millis(100);
/// Idle; shorter than what lies between usually keeps a connection in mind.
const KEPT: Span = Span::from_secs(60);
