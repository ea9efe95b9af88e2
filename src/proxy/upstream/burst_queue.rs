//! Burst queue: bursts from one client are queued before an upstream.
//!
//! An upstream with hundreds of one client before it answers everybody else later, and none of the hundreds sooner. So one
//! of them goes on when another has come back. The surprising thing: it is no bound. An upstream that takes its time, and
//! would do hundreds side by side, is given some more every few milliseconds.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;

/// One worker's, before one upstream.
#[derive(Debug, Default)]
pub(super) struct BurstQueue {
    in_flight: Cell<usize>,
    waiting: RefCell<VecDeque<oneshot::Sender<BurstPermit>>>,
}

/// A request on its way; the next may go when it is dropped.
#[derive(Debug)]
pub(super) struct BurstPermit(Rc<BurstQueue>);

/// Whether a client has so many requests at upstreams that one more goes at a pace.
pub(super) fn is_burst(neighbours: usize) -> bool {
    neighbours > MAX_IN_FLIGHT
}

/// So many connections that rest are not for such requests: a server that is given hundreds of new ones takes them up one by
/// one, and whoever else wanted one would be the last.
pub(super) fn reserved_for_others(upstream_max: usize) -> usize {
    (upstream_max / CONNECTIONS_PER_RESERVED).min(MAX_RESERVED)
}

impl BurstQueue {
    /// Waits for its turn.
    pub(super) async fn acquire(self: &Rc<Self>) -> BurstPermit {
        if self.in_flight.get() < MAX_IN_FLIGHT {
            return self.grant();
        }
        let (sender, receiver) = oneshot::channel();
        self.drop_cancelled();
        self.waiting.borrow_mut().push_back(sender);
        let waiting = u32::try_from(self.waiting.borrow().len()).unwrap_or(u32::MAX);
        let patience = RELEASE_INTERVAL.saturating_mul(waiting).min(MAX_WAIT);
        let turn = tokio::time::timeout(patience, receiver).await;
        turn.ok().and_then(Result::ok).unwrap_or_else(|| self.grant())
    }

    fn drop_cancelled(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(oneshot::Sender::is_closed) {
            waiting.pop_front();
        }
    }

    fn grant(self: &Rc<Self>) -> BurstPermit {
        self.in_flight.set(self.in_flight.get() + 1);
        BurstPermit(Rc::clone(self))
    }

    fn wake_next(self: &Rc<Self>) {
        while self.in_flight.get() < MAX_IN_FLIGHT {
            let Some(next) = self.waiting.borrow_mut().pop_front() else { return };
            // Others have gone on meanwhile, or have gone.
            if !next.is_closed() {
                let _ = next.send(self.grant());
            }
        }
    }
}

impl Drop for BurstPermit {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.wake_next();
    }
}

/// Enough to keep an upstream busy that answers in milliseconds.
const MAX_IN_FLIGHT: usize = 32;
/// The time in which one of those who wait goes on though nobody has come back: 3,200 in a second.
const RELEASE_INTERVAL: Duration = Duration::from_micros(312);
/// Clients that have many are not all of one kind: nobody is to stand behind a hundred thousand of somebody else's.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// By each worker: all of them together spare a part of the places that nobody misses.
const CONNECTIONS_PER_RESERVED: usize = 64;
const MAX_RESERVED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many that wait, in this order.
    fn waiting(pace: &Rc<BurstQueue>, count: usize) -> Vec<tokio::task::JoinHandle<BurstPermit>> {
        let one = |_| {
            let pace = Rc::clone(pace);
            tokio::task::spawn_local(async move { pace.acquire().await })
        };
        (0..count).map(one).collect()
    }

    fn gone_on(waiting: &[tokio::task::JoinHandle<BurstPermit>]) -> usize {
        waiting.iter().filter(|task| task.is_finished()).count()
    }

    async fn all_others() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn one_goes_on_for_one_that_has_come_back() {
        let pace = Rc::new(BurstQueue::default());
        let mut tasks = waiting(&pace, MAX_IN_FLIGHT + 3);
        all_others().await;
        assert_eq!(gone_on(&tasks), MAX_IN_FLIGHT);
        drop(tasks.remove(0).await);
        all_others().await;
        assert_eq!(gone_on(&tasks), MAX_IN_FLIGHT, "another one");
        assert!(
            tasks[MAX_IN_FLIGHT - 1].is_finished() && !tasks[MAX_IN_FLIGHT].is_finished(),
            "who has waited longest"
        );
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn an_upstream_that_takes_its_time_is_given_more() {
        let pace = Rc::new(BurstQueue::default());
        let tasks = waiting(&pace, MAX_IN_FLIGHT + 300);
        all_others().await;
        assert_eq!(gone_on(&tasks), MAX_IN_FLIGHT);
        tokio::time::sleep(RELEASE_INTERVAL * 150).await;
        let more = gone_on(&tasks) - MAX_IN_FLIGHT;
        assert!((130..=150).contains(&more), "{more} of 150");
        tokio::time::sleep(RELEASE_INTERVAL * 150 + Duration::from_millis(2)).await;
        assert_eq!(gone_on(&tasks), MAX_IN_FLIGHT + 300);
        // Nobody waits any more: the next one does not wait longer than one.
        let since = tokio::time::Instant::now();
        let _step = pace.acquire().await;
        assert!(since.elapsed() <= Duration::from_millis(2), "{:?}", since.elapsed());
    }

    #[test]
    fn few_connections_are_spared_and_none_where_there_are_few() {
        assert_eq!([1, 63, 64, 128, 512, 100_000].map(reserved_for_others), [0, 0, 1, 2, 8, 8]);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn nobody_waits_longer_than_a_second() {
        let pace = Rc::new(BurstQueue::default());
        let tasks = waiting(&pace, 10_000);
        tokio::time::sleep(MAX_WAIT + Duration::from_millis(2)).await;
        assert_eq!(gone_on(&tasks), 10_000);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn who_has_gone_keeps_nobody_from_going_on() {
        let pace = Rc::new(BurstQueue::default());
        let mut tasks = waiting(&pace, MAX_IN_FLIGHT + 3);
        all_others().await;
        tasks[MAX_IN_FLIGHT].abort();
        tasks[MAX_IN_FLIGHT + 1].abort();
        drop(tasks.remove(0).await);
        all_others().await;
        assert!(tasks[MAX_IN_FLIGHT + 1].is_finished());
        drop(tasks);
        all_others().await;
        assert_eq!(pace.in_flight.get(), 0, "and all have come back");
    }
}
