//! One connection and who is asking through it.
//!
//! The surprising thing: a question is carried to its end even if nobody waits for it any more, so an answer that came too
//! late is never taken for the answer to the next question.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::compare_and_swap::StoreError;

/// A connection of one kind of database. Closed when dropped.
pub(in crate::store) trait Link: Send + Sync + 'static {
    /// Questions that may be on their way through one connection.
    const AT_ONCE: usize;
    /// Connections that one gate has at most.
    const MOST: usize;
    /// A connection on which nothing was answered for so long while somebody was asking is given up. Longer than the
    /// server lets a statement wait for a row: one row that is held is no reason to connect again.
    const SILENCE: Duration;

    /// Whether nobody can be asked through it any more.
    fn is_broken(&self) -> bool;

    /// Breaks it, for everybody who is asking through it.
    fn cut(&self);
}

/// A connection that is kept.
pub(super) struct Line<L> {
    pub(super) link: Arc<L>,
    asking: AtomicUsize,
    is_cut: AtomicBool,
    /// When the last answer came.
    heard: Mutex<Instant>,
}

impl<L: Link> Line<L> {
    pub(super) fn new(link: L) -> Self {
        Self {
            link: Arc::new(link),
            asking: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            heard: Mutex::new(Instant::now()),
        }
    }

    /// Questions on their way.
    pub(super) fn asking(&self) -> usize {
        self.asking.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self) {
        self.asking.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.asking.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a new question may not be asked here. What nobody has used for minutes may have been forgotten by a
    /// firewall between here and there, which would cost the next question its deadline.
    pub(super) fn is_over(&self) -> bool {
        let is_old = self.asking() == 0 && self.heard().elapsed() > IDLE;
        self.is_cut.load(Ordering::Relaxed) || self.link.is_broken() || is_old
    }

    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.link.cut();
    }

    /// Waits for an answer as long as any answer comes through this connection.
    pub(super) async fn wait<T>(
        &self,
        question: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut question = std::pin::pin!(question);
        let mut since = Instant::now();
        loop {
            if let Ok(answer) = tokio::time::timeout_at(since + L::SILENCE, question.as_mut()).await {
                *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                return answer;
            }
            if self.heard() <= since {
                return Err(StoreError::Unreachable("no answer for too long".to_owned()));
            }
            since = self.heard();
        }
    }

    fn heard(&self) -> Instant {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that was not used for so long is not trusted; below what load balancers allow as a rule.
const IDLE: Duration = Duration::from_secs(240);
