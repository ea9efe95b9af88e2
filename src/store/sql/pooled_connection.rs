//! One pooled connection and its requests in flight.
//!
//! The surprising thing: a question is carried to its end even if nobody waits for it any more, so an answer that came too
//! late is never taken for the answer to the next question.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::compare_and_swap::StoreError;

/// A connection of one kind of database. Closed when dropped.
pub(in crate::store) trait SqlConnection: Send + Sync + 'static {
    /// Questions that may be on their way through one connection.
    const MAX_IN_FLIGHT: usize;
    /// Connections that one gate has at most.
    const MAX_CONNECTIONS: usize;
    /// A connection on which nothing was answered for so long while somebody was asking is given up. Longer than the
    /// server lets a statement wait for a row: one row that is held is no reason to connect again.
    const SILENCE_TIMEOUT: Duration;

    /// Whether nobody can be asked through it any more.
    fn is_broken(&self) -> bool;

    /// Breaks it, for everybody who is asking through it.
    fn close(&self);
}

/// A connection that is kept.
pub(super) struct PooledSqlConnection<L> {
    pub(super) connection: Arc<L>,
    in_flight: AtomicUsize,
    is_closed: AtomicBool,
    /// When the last answer came.
    last_reply: Mutex<Instant>,
}

impl<L: SqlConnection> PooledSqlConnection<L> {
    pub(super) fn new(link: L) -> Self {
        Self {
            connection: Arc::new(link),
            in_flight: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            last_reply: Mutex::new(Instant::now()),
        }
    }

    /// Questions on their way.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a new question may not be asked here. What nobody has used for minutes may have been forgotten by a
    /// firewall between here and there, which would cost the next question its deadline.
    pub(super) fn is_unusable(&self) -> bool {
        let is_old = self.in_flight() == 0 && self.last_reply().elapsed() > IDLE_TIMEOUT;
        self.is_closed.load(Ordering::Relaxed) || self.connection.is_broken() || is_old
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.connection.close();
    }

    /// Waits for an answer as long as any answer comes through this connection.
    pub(super) async fn wait<T>(
        &self,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut question = std::pin::pin!(question);
        let mut since = Instant::now();
        loop {
            if let Ok(answer) = tokio::time::timeout_at(since + L::SILENCE_TIMEOUT, question.as_mut()).await {
                *self.last_reply.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                return answer;
            }
            if self.last_reply() <= since {
                return Err(StoreError::Unreachable("no answer for too long".to_owned()));
            }
            since = self.last_reply();
        }
    }

    fn last_reply(&self) -> Instant {
        *self.last_reply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that was not used for so long is not trusted; below what load balancers allow as a rule.
const IDLE_TIMEOUT: Duration = Duration::from_secs(240);
