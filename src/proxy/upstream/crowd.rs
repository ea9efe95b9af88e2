//! Room at an upstream for those who are few, while one client has half of it.
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
pub(super) struct Crowd {
    waiting: AtomicUsize,
    left: Notify,
}

impl Crowd {
    /// A request has left the upstream.
    pub(super) fn leaves(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.left.notify_one();
        }
    }

    /// Waits until it is not crowded any more.
    pub(super) async fn thins(&self, is_crowded: impl Fn() -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let _waits = Waits(self);
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            // Whoever leaves between the look and the wait is heard of.
            left.as_mut().enable();
            if !is_crowded() {
                return;
            }
            left.await;
        }
    }
}

struct Waits<'c>(&'c Crowd);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// So long they wait: they keep nobody from anything, and a client that asks for a hundred things at once on each of a
/// hundred connections would rather wait than ask again.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// So many requests of one client are more than its share of `upstream_max` places.
pub(super) fn is_more_than_its_share(neighbours: usize, upstream_max: usize) -> bool {
    neighbours > upstream_max / 2
}

/// With so many requests there, what is left is for those who have less than their share.
pub(super) fn is_crowded(busy: usize, upstream_max: usize) -> bool {
    busy >= upstream_max - upstream_max / 4
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_enough_have_left() {
        let (crowd, busy) = (Arc::new(Crowd::default()), Arc::new(AtomicUsize::new(8)));
        let waiting = tokio::spawn({
            let (crowd, busy) = (Arc::clone(&crowd), Arc::clone(&busy));
            async move { crowd.thins(|| is_crowded(busy.load(SeqCst), 8)).await }
        });
        for left in [7, 6] {
            tokio::task::yield_now().await;
            busy.store(left, SeqCst);
            crowd.leaves();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished(), "two places of eight are a quarter");
        busy.store(5, SeqCst);
        crowd.leaves();
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(crowd.waiting.load(SeqCst), 0);
    }

    #[test]
    fn an_upstream_for_one_request_is_crowded_by_one_and_one_for_none_by_nobody() {
        assert!(is_more_than_its_share(1, 1) && !is_crowded(0, 1) && is_crowded(1, 1));
        assert!(!is_more_than_its_share(256, 512) && is_more_than_its_share(257, 512));
        assert!(!is_crowded(383, 512) && is_crowded(384, 512));
    }
}
