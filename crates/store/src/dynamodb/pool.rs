//! The connection pool of one server: bounded, filled on demand; a connection stays while it answers.
//!
//! Connections are made one after the other in a separate task, so a caller that gives up does not cancel the
//! attempt. After an error there is at most one attempt in 100 ms, and a request between two of them fails at once with
//! that error. HTTP is left to [`HttpConnection`].

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tollgate_base::http_client::{HttpConnection, Unsent};

use super::connection::{self, HttpPeer, HttpReply};
use crate::StoreError;
use crate::backoff::reconnect_pause;

/// Connections to one server.
pub(super) struct HttpPool {
    peer: HttpPeer,
    permits: Arc<Semaphore>,
    state: Mutex<HttpPoolState>,
    /// A connection is free, or none can be made.
    changed: Notify,
}

#[derive(Default)]
struct HttpPoolState {
    /// The connection that answered last is at the back.
    idle: VecDeque<PooledHttpConnection>,
    is_connecting: bool,
    /// The error since the last complete response.
    last_error: Option<String>,
    /// When the next connection may be made, after an error.
    next: Option<Instant>,
}

struct PooledHttpConnection {
    connection: HttpConnection,
    /// When it was made, or gave its last complete response.
    last_good: Instant,
    _permit: OwnedSemaphorePermit,
}

/// A connection in use. Dropped with an unread response, it closes the connection.
struct HttpLease {
    pool: Arc<HttpPool>,
    pooled: Option<PooledHttpConnection>,
    is_in_use: bool,
}

impl HttpPool {
    /// An empty pool.
    pub(super) fn new(peer: HttpPeer) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Arc::new(Self { peer, permits, state: Mutex::default(), changed: Notify::new() })
    }

    /// Sends a request on the first free connection, and waits for the response at most this long. It tries another
    /// connection only if the request certainly has not been sent. A request that was sent runs to its end, even if its
    /// caller is gone: a new connection costs more than a late response.
    pub(super) async fn call(
        self: &Arc<Self>,
        mut request: Unsent,
        timeout: Duration,
    ) -> Result<HttpReply, StoreError> {
        let mut last = StoreError::NotConnected("every connection had ended".to_owned());
        for _ in 0..=MAX_CONNECTIONS {
            let lease = self.take().await?;
            let ended = tokio::spawn(lease.run(request, timeout)).await;
            let (answer, unsent) = ended.map_err(|_| StoreError::unreachable("the request was dropped"))?;
            match answer {
                Err(error) if unsent.is_some() => (last, request) = (error, unsent),
                answer => return answer,
            }
        }
        Err(last)
    }

    async fn take(self: &Arc<Self>) -> Result<HttpLease, StoreError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.try_take()? {
                Some(lease) => return Ok(lease),
                None => changed.await,
            }
        }
    }

    /// `None` while it is worth waiting for a connection.
    fn try_take(self: &Arc<Self>) -> Result<Option<HttpLease>, StoreError> {
        let now = Instant::now();
        let mut state = self.state();
        state.idle.retain(|pooled| !pooled.connection.is_closed() && now - pooled.last_good < IDLE_TIMEOUT);
        if let Some(pooled) = state.idle.pop_back() {
            return Ok(Some(HttpLease { pool: Arc::clone(self), pooled: Some(pooled), is_in_use: false }));
        }
        if state.is_connecting {
            return Ok(None);
        }
        if let Some(error) = &state.last_error
            && state.next.is_some_and(|next| now < next)
        {
            let others_answer = self.permits.available_permits() < MAX_CONNECTIONS;
            return if others_answer { Ok(None) } else { Err(StoreError::NotConnected(error.clone())) };
        }
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            state.is_connecting = true;
            state.next = Some(now + reconnect_pause());
            tokio::spawn(connect(Arc::clone(self), permit));
        }
        Ok(None)
    }

    fn state(&self) -> MutexGuard<'_, HttpPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(pool: Arc<HttpPool>, permit: OwnedSemaphorePermit) {
    let made = pool.peer.connect().await;
    {
        let mut state = pool.state();
        state.is_connecting = false;
        match made {
            Ok(connection) => state.idle.push_back(PooledHttpConnection {
                connection,
                last_good: Instant::now(),
                _permit: permit,
            }),
            Err(why) => {
                state.last_error = Some(why.to_string());
                drop(permit);
            }
        }
    }
    pool.changed.notify_waiters();
}

impl HttpLease {
    /// Sends a request, and returns the response, and the request if it was not sent.
    async fn run(
        mut self,
        mut request: Unsent,
        timeout: Duration,
    ) -> (Result<HttpReply, StoreError>, Unsent) {
        let answer = self.call(&mut request, timeout).await;
        if answer.is_ok() {
            self.give_back();
        }
        (answer, request)
    }

    async fn call(&mut self, request: &mut Unsent, timeout: Duration) -> Result<HttpReply, StoreError> {
        let Some(pooled) = &mut self.pooled else { return Err(StoreError::WriteConflict) };
        if !pooled.connection.is_ready().await {
            return Err(StoreError::NotConnected("the connection had ended".to_owned()));
        }
        self.is_in_use = true;
        let answer = tokio::time::timeout(timeout, connection::call(&mut pooled.connection, request)).await;
        let answer = answer.unwrap_or_else(|_| Err(StoreError::unreachable("no answer in time")));
        // A pooled connection that ended before the request was sent is not an error.
        self.is_in_use = request.is_none();
        answer
    }

    fn give_back(mut self) {
        self.is_in_use = false;
        if let Some(pooled) = self.pooled.take() {
            let mut state = self.pool.state();
            state.last_error = None;
            state.idle.push_back(PooledHttpConnection { last_good: Instant::now(), ..pooled });
        }
    }
}

impl Drop for HttpLease {
    fn drop(&mut self) {
        let is_lost = self.pooled.take().is_some();
        if self.is_in_use {
            let mut state = self.pool.state();
            state.last_error.get_or_insert_with(|| "it does not answer in time".to_owned());
            // Connections without a recent response may be dead as well, and are easily replaced.
            state.idle.retain(|pooled| pooled.last_good.elapsed() < Duration::from_secs(1));
        }
        if is_lost {
            self.pool.changed.notify_waiters();
        } else {
            self.pool.changed.notify_one();
        }
    }
}

/// The maximum number of requests in flight.
const MAX_CONNECTIONS: usize = 16;
/// Shorter than firewalls on the way usually remember an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
