//! The liveness of a connection: how long the server has been silent while a request waits.
//!
//! A server that vanishes leaves a connection that looks open. Replies are not matched with requests, because a caller
//! may have given up: any byte is a sign of life. Closing the connection is left to [`connection`](super::connection).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The signs of life of one connection.
pub(super) struct Liveness {
    born: Instant,
    /// When the first request was sent since something was read, in milliseconds since `born`; 0 if no request waits.
    waiting: AtomicU64,
    sent: Notify,
}

impl Liveness {
    /// For a new connection.
    pub(super) fn new() -> Self {
        Self { born: Instant::now(), waiting: AtomicU64::new(0), sent: Notify::new() }
    }

    /// Records that a request is sent.
    pub(super) fn mark_sent(&self) {
        if self.waiting.load(Relaxed) == 0
            && self.waiting.compare_exchange(0, self.now(), Relaxed, Relaxed).is_ok()
        {
            self.sent.notify_one();
        }
    }

    /// Records that something was read.
    pub(super) fn mark_received(&self) {
        self.waiting.store(0, Relaxed);
    }

    /// Returns once nothing was read for this long while a request waited.
    pub(super) async fn wait_for_silence(&self, silence: Duration) {
        loop {
            self.sent.notified().await;
            while let waiting @ 1.. = self.waiting.load(Relaxed) {
                let left = silence.saturating_sub(Duration::from_millis(self.now().saturating_sub(waiting)));
                if left.is_zero() {
                    return;
                }
                sleep(left).await;
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}
