//! One pooled connection and its requests in flight.
//!
//! A request runs to its end even if its caller has given up, so a late reply is never taken for the reply to the next
//! request. The choice of a connection is left to [`pool`](super::pool).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::compare_and_swap::StoreError;

/// A connection of one kind of database. Closed when dropped.
pub(crate) trait SqlConnection: Send + Sync + 'static {
    /// The maximum number of requests in flight on one connection.
    const MAX_UNANSWERED: usize;
    /// The maximum number of connections of one gate.
    const MAX_CONNECTIONS: usize;
    /// A connection is given up if no reply came for this long while requests were in flight. Longer than the server
    /// lets a statement wait for a row, because one locked row is no reason to connect again.
    const SILENCE_TIMEOUT: Duration;

    /// Whether it takes no more requests.
    fn is_broken(&self) -> bool;

    /// Breaks it, for all requests in flight.
    fn close(&self);
}

/// A connection of the pool.
pub(super) struct PooledSqlConnection<L> {
    pub(super) connection: Arc<L>,
    unanswered: AtomicUsize,
    is_closed: AtomicBool,
    /// When the last reply came.
    last_reply: Mutex<Instant>,
}

impl<L: SqlConnection> PooledSqlConnection<L> {
    pub(super) fn new(connection: L) -> Self {
        Self {
            connection: Arc::new(connection),
            unanswered: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            last_reply: Mutex::new(Instant::now()),
        }
    }

    /// The number of requests in flight.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the connection takes no new request. A firewall on the way may have forgotten a connection that was idle
    /// for minutes, which would cost the next request its deadline.
    pub(super) fn is_unusable(&self) -> bool {
        let is_old = self.unanswered() == 0 && self.last_reply().elapsed() > IDLE_TIMEOUT;
        self.is_closed.load(Ordering::Relaxed) || self.connection.is_broken() || is_old
    }

    /// Takes no new request.
    pub(super) fn retire(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.connection.close();
    }

    /// Waits for a reply as long as any reply comes on this connection.
    pub(super) async fn wait<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut request = std::pin::pin!(request);
        let mut since = Instant::now();
        loop {
            if let Ok(answer) = tokio::time::timeout_at(since + L::SILENCE_TIMEOUT, request.as_mut()).await {
                *self.last_reply.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                return answer;
            }
            if self.last_reply() <= since {
                return Err(StoreError::unreachable("no answer for too long"));
            }
            since = self.last_reply();
        }
    }

    fn last_reply(&self) -> Instant {
        *self.last_reply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that was idle for longer is not trusted; usually below what load balancers allow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(240);
