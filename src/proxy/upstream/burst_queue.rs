//! Burst queue: bursts from one client are queued before an upstream.
//!
//! Hundreds of requests of one client at an upstream delay all other clients, and finish no sooner. So a queued request
//! is sent when another one is done. The queue is no limit: every few milliseconds it releases more requests, for an
//! upstream that is slow but works on hundreds at once. `upstream` gives out the connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;

/// The queue of one worker for one upstream.
#[derive(Debug, Default)]
pub(super) struct BurstQueue {
    in_flight: Cell<usize>,
    waiting: RefCell<VecDeque<oneshot::Sender<BurstPermit>>>,
}

/// A request in flight; the next one is released when it is dropped.
#[derive(Debug)]
pub(super) struct BurstPermit(Rc<BurstQueue>);

/// Whether a client with `in_flight` requests at upstreams has to queue the next one.
pub(super) fn is_burst(in_flight: usize) -> bool {
    in_flight > MAX_IN_FLIGHT
}

/// Idle connections that queued requests leave to other clients: a server accepts hundreds of new connections one by
/// one, and another client's would be the last.
pub(super) fn reserved_for_others(upstream_max: usize) -> usize {
    (upstream_max / CONNECTIONS_PER_RESERVED).min(MAX_RESERVED)
}

impl BurstQueue {
    /// Waits until the request may be sent.
    pub(super) async fn acquire(self: &Rc<Self>) -> BurstPermit {
        if self.in_flight.get() < MAX_IN_FLIGHT {
            return self.grant();
        }
        let (sender, receiver) = oneshot::channel();
        self.drop_cancelled();
        self.waiting.borrow_mut().push_back(sender);
        let waiting = u32::try_from(self.waiting.borrow().len()).unwrap_or(u32::MAX);
        let max_wait = RELEASE_INTERVAL.saturating_mul(waiting).min(MAX_WAIT);
        let permit = tokio::time::timeout(max_wait, receiver).await;
        permit.ok().and_then(Result::ok).unwrap_or_else(|| self.grant())
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
            // A closed sender belongs to a request that timed out or is gone.
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
/// Interval at which a queued request is released even if none is done: 3,200 a second.
const RELEASE_INTERVAL: Duration = Duration::from_micros(312);
/// All bursting clients share the queue, so no request waits behind a hundred thousand of another client.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Per worker: all workers together reserve a small part of the connections.
const CONNECTIONS_PER_RESERVED: usize = 64;
const MAX_RESERVED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks that wait, in this order.
    fn waiting(queue: &Rc<BurstQueue>, count: usize) -> Vec<tokio::task::JoinHandle<BurstPermit>> {
        let task = |_| {
            let queue = Rc::clone(queue);
            tokio::task::spawn_local(async move { queue.acquire().await })
        };
        (0..count).map(task).collect()
    }

    fn released(waiting: &[tokio::task::JoinHandle<BurstPermit>]) -> usize {
        waiting.iter().filter(|task| task.is_finished()).count()
    }

    async fn run_others() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn one_goes_on_for_one_that_has_come_back() {
        let queue = Rc::new(BurstQueue::default());
        let mut tasks = waiting(&queue, MAX_IN_FLIGHT + 3);
        run_others().await;
        assert_eq!(released(&tasks), MAX_IN_FLIGHT);
        drop(tasks.remove(0).await);
        run_others().await;
        assert_eq!(released(&tasks), MAX_IN_FLIGHT, "another one");
        assert!(
            tasks[MAX_IN_FLIGHT - 1].is_finished() && !tasks[MAX_IN_FLIGHT].is_finished(),
            "the one that waited longest"
        );
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn an_upstream_that_takes_its_time_is_given_more() {
        let queue = Rc::new(BurstQueue::default());
        let tasks = waiting(&queue, MAX_IN_FLIGHT + 300);
        run_others().await;
        assert_eq!(released(&tasks), MAX_IN_FLIGHT);
        tokio::time::sleep(RELEASE_INTERVAL * 150).await;
        let more = released(&tasks) - MAX_IN_FLIGHT;
        assert!((130..=150).contains(&more), "{more} of 150");
        tokio::time::sleep(RELEASE_INTERVAL * 150 + Duration::from_millis(2)).await;
        assert_eq!(released(&tasks), MAX_IN_FLIGHT + 300);
        // The queue is empty: the next request waits for one interval at most.
        let since = tokio::time::Instant::now();
        let _permit = queue.acquire().await;
        assert!(since.elapsed() <= Duration::from_millis(2), "{:?}", since.elapsed());
    }

    #[test]
    fn few_connections_are_spared_and_none_where_there_are_few() {
        assert_eq!([1, 63, 64, 128, 512, 100_000].map(reserved_for_others), [0, 0, 1, 2, 8, 8]);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn no_request_waits_longer_than_a_second() {
        let queue = Rc::new(BurstQueue::default());
        let tasks = waiting(&queue, 10_000);
        tokio::time::sleep(MAX_WAIT + Duration::from_millis(2)).await;
        assert_eq!(released(&tasks), 10_000);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn a_request_that_has_gone_holds_up_no_other() {
        let queue = Rc::new(BurstQueue::default());
        let mut tasks = waiting(&queue, MAX_IN_FLIGHT + 3);
        run_others().await;
        tasks[MAX_IN_FLIGHT].abort();
        tasks[MAX_IN_FLIGHT + 1].abort();
        drop(tasks.remove(0).await);
        run_others().await;
        assert!(tasks[MAX_IN_FLIGHT + 1].is_finished());
        drop(tasks);
        run_others().await;
        assert_eq!(queue.in_flight.get(), 0, "all are done");
    }
}
