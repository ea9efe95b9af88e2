//! Fair queue: a client with more than half of an upstream waits while no more than a quarter is free.
//!
//! A client that reads its responses slowly holds an upstream connection for each of them, and could hold all of them.
//! The queue only delays requests; `upstream` gives out the connection slots.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::Notify;

/// Requests that wait until an upstream is less busy.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    waiting: AtomicUsize,
    released: Notify,
}

impl FairQueue {
    /// A request has left the upstream.
    pub(super) fn request_done(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.released.notify_one();
        }
    }

    /// Waits until the upstream is not congested.
    pub(super) async fn wait(&self, is_congested: impl Fn() -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let _guard = QueueGuard(self);
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            // Enabled before the check, so no release is missed between check and wait.
            released.as_mut().enable();
            if !is_congested() {
                return;
            }
            released.await;
        }
    }
}

struct QueueGuard<'c>(&'c FairQueue);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// Long, because a waiting request holds no connection, and a client with a hundred requests on each of a hundred
/// connections is served better by waiting than by retrying.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a client with `in_flight` requests has more than half of the `upstream_max` connections.
pub(super) fn exceeds_share(in_flight: usize, upstream_max: usize) -> bool {
    in_flight > upstream_max / 2
}

/// Whether no more than a quarter of the connections is free. They are for clients below their share.
pub(super) fn is_congested(busy: usize, upstream_max: usize) -> bool {
    busy >= upstream_max - upstream_max / 4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_enough_have_left() {
        let (queue, busy) = (Arc::new(FairQueue::default()), Arc::new(AtomicUsize::new(8)));
        let waiting = tokio::spawn({
            let (queue, busy) = (Arc::clone(&queue), Arc::clone(&busy));
            async move { queue.wait(|| is_congested(busy.load(SeqCst), 8)).await }
        });
        for left in [7, 6] {
            tokio::task::yield_now().await;
            busy.store(left, SeqCst);
            queue.request_done();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished(), "two of eight are a quarter");
        busy.store(5, SeqCst);
        queue.request_done();
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(queue.waiting.load(SeqCst), 0);
    }

    #[test]
    fn one_request_fills_an_upstream_for_one_and_none_fills_an_upstream_for_none() {
        assert!(exceeds_share(1, 1) && !is_congested(0, 1) && is_congested(1, 1));
        assert!(!exceeds_share(256, 512) && exceeds_share(257, 512));
        assert!(!is_congested(383, 512) && is_congested(384, 512));
    }
}
