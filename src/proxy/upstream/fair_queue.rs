//! Fair queue: a client with more than half of an upstream waits while no more than a quarter is free.
//!
//! A client that reads its answers slowly holds a connection to the upstream for each of them, and would hold all that
//! there are. So whoever has more than half of the places waits while no more than a quarter is left. The surprising
//! thing: nobody is given a place here; who has waited goes on to where they are given out.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::Notify;

/// Those who wait until an upstream is less crowded.
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

    /// Waits until it is not crowded any more.
    pub(super) async fn wait(&self, is_crowded: impl Fn() -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let _waits = QueueGuard(self);
        loop {
            let mut left = std::pin::pin!(self.released.notified());
            // Whoever leaves between the look and the wait is heard of.
            left.as_mut().enable();
            if !is_crowded() {
                return;
            }
            left.await;
        }
    }
}

struct QueueGuard<'c>(&'c FairQueue);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// So long they wait: they keep nobody from anything, and a client that asks for a hundred things at once on each of a
/// hundred connections would rather wait than ask again.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// So many requests of one client are more than its share of `upstream_max` places.
pub(super) fn exceeds_share(neighbours: usize, upstream_max: usize) -> bool {
    neighbours > upstream_max / 2
}

/// With so many requests there, what is left is for those who have less than their share.
pub(super) fn is_congested(busy: usize, upstream_max: usize) -> bool {
    busy >= upstream_max - upstream_max / 4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_enough_have_left() {
        let (crowd, busy) = (Arc::new(FairQueue::default()), Arc::new(AtomicUsize::new(8)));
        let waiting = tokio::spawn({
            let (crowd, busy) = (Arc::clone(&crowd), Arc::clone(&busy));
            async move { crowd.wait(|| is_congested(busy.load(SeqCst), 8)).await }
        });
        for left in [7, 6] {
            tokio::task::yield_now().await;
            busy.store(left, SeqCst);
            crowd.request_done();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished(), "two places of eight are a quarter");
        busy.store(5, SeqCst);
        crowd.request_done();
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(crowd.waiting.load(SeqCst), 0);
    }

    #[test]
    fn an_upstream_for_one_request_is_crowded_by_one_and_one_for_none_by_nobody() {
        assert!(exceeds_share(1, 1) && !is_congested(0, 1) && is_congested(1, 1));
        assert!(!exceeds_share(256, 512) && exceeds_share(257, 512));
        assert!(!is_congested(383, 512) && is_congested(384, 512));
    }
}
