//! The connection pool of one server: bounded, filled on demand; a connection stays while it answers.
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

use super::connection::{HttpConnection, HttpPeer, HttpReply, Unsent};
use crate::store::StoreError;
use crate::time::{Clock, Span, Time};

/// Connections to one server.
pub(super) struct HttpPool {
    peer: HttpPeer,
    clock: Clock,
    permits: Arc<Semaphore>,
    state: Mutex<HttpPoolState>,
    /// A connection is free, or none can be had.
    changed: Notify,
}

#[derive(Default)]
struct HttpPoolState {
    /// The last one answered last.
    idle: VecDeque<PooledHttpConnection>,
    is_connecting: bool,
    /// What went wrong since the last whole answer.
    last_error: Option<String>,
    /// When the next connection may be made, in trouble.
    next: Time,
}

struct PooledHttpConnection {
    connection: HttpConnection,
    /// It was made, or gave a whole answer.
    last_good: Time,
    _permit: OwnedSemaphorePermit,
}

/// A connection in use. Dropped with an unread answer, it takes the connection along.
struct HttpLease<'a> {
    pool: &'a HttpPool,
    pooled: Option<PooledHttpConnection>,
    is_in_use: bool,
}

impl HttpPool {
    /// Without a connection yet.
    pub(super) fn new(peer: HttpPeer, clock: Clock) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Self { peer, clock, permits: places, state: Mutex::default(), changed: Notify::new() })
    }

    /// Asks once, over whatever connection is free first, and waits for the answer at most this long; again only what
    /// provably has not left.
    pub(super) async fn call(
        self: &Arc<Self>,
        mut question: Unsent,
        patience: Duration,
    ) -> Result<HttpReply, StoreError> {
        let mut last = StoreError::Unreachable("every connection had ended".to_owned());
        for _ in 0..=MAX_CONNECTIONS {
            let mut lease = self.take().await?;
            match lease.call(&mut question, patience).await {
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

    async fn take(self: &Arc<Self>) -> Result<HttpLease<'_>, StoreError> {
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
    fn try_take(self: &Arc<Self>) -> Result<Option<HttpLease<'_>>, StoreError> {
        let now = self.clock.now();
        let mut state = self.state();
        state.idle.retain(|kept| !kept.connection.is_closed() && now.since(kept.last_good) < IDLE_TIMEOUT);
        if let Some(kept) = state.idle.pop_back() {
            return Ok(Some(HttpLease { pool: self, pooled: Some(kept), is_in_use: false }));
        }
        if state.is_connecting {
            return Ok(None);
        }
        if let Some(trouble) = &state.last_error
            && now < state.next
        {
            let others_answer = self.permits.available_permits() < MAX_CONNECTIONS;
            return if others_answer { Ok(None) } else { Err(StoreError::Unreachable(trouble.clone())) };
        }
        if let Ok(place) = Arc::clone(&self.permits).try_acquire_owned() {
            state.is_connecting = true;
            state.next = now.after(RECONNECT_PAUSE).after(jitter());
            tokio::spawn(connect(Arc::clone(self), place));
        }
        Ok(None)
    }

    fn state(&self) -> MutexGuard<'_, HttpPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(pool: Arc<HttpPool>, place: OwnedSemaphorePermit) {
    let made = HttpConnection::open(&pool.peer).await;
    let good = pool.clock.now();
    {
        let mut state = pool.state();
        state.is_connecting = false;
        match made {
            Ok(connection) => {
                state.idle.push_back(PooledHttpConnection { connection, last_good: good, _permit: place })
            }
            Err(why) => {
                state.last_error = Some(why);
                drop(place);
            }
        }
    }
    pool.changed.notify_waiters();
}

impl HttpLease<'_> {
    async fn call(&mut self, question: &mut Unsent, patience: Duration) -> Result<HttpReply, StoreError> {
        let Some(kept) = &mut self.pooled else { return Err(StoreError::WriteConflict) };
        if !kept.connection.is_ready().await {
            return Err(StoreError::Unreachable("the connection had ended".to_owned()));
        }
        self.is_in_use = true;
        let answer = tokio::time::timeout(patience, kept.connection.call(question)).await;
        let answer = answer.unwrap_or_else(|_| Err(StoreError::Unreachable("no answer in time".to_owned())));
        // A kept connection that ended before the question left is no trouble.
        self.is_in_use = question.is_none();
        answer
    }

    fn give_back(mut self) {
        self.is_in_use = false;
        if let Some(kept) = self.pooled.take() {
            let good = self.pool.clock.now();
            let mut state = self.pool.state();
            state.last_error = None;
            state.idle.push_back(PooledHttpConnection { last_good: good, ..kept });
        }
    }
}

impl Drop for HttpLease<'_> {
    fn drop(&mut self) {
        let is_lost = self.pooled.take().is_some();
        if self.is_in_use {
            let now = self.pool.clock.now();
            let mut state = self.pool.state();
            state.last_error.get_or_insert_with(|| "it does not answer in time".to_owned());
            // Those that have not answered for a while may be dead as well, and can be had anew.
            state.idle.retain(|kept| now.since(kept.last_good) < Span::from_secs(1));
        }
        if is_lost {
            self.pool.changed.notify_waiters();
        } else {
            self.pool.changed.notify_one();
        }
    }
}

fn jitter() -> Span {
    Span::from_nanos(RandomState::new().hash_one(0_u8) % RECONNECT_PAUSE.as_nanos())
}

/// As many questions at once.
const MAX_CONNECTIONS: usize = 16;
/// Between two attempts to connect, in trouble.
const RECONNECT_PAUSE: Span = Span::from_millis(100);
/// Idle; shorter than what lies between usually keeps a connection in mind.
const IDLE_TIMEOUT: Span = Span::from_secs(60);
