//! Fair queue: requests of clients that have many at an upstream wait, and go on in turn, one client after the other.
//!
//! Hundreds of requests of one client delay all others and finish no sooner, and a client that reads its responses
//! slowly could hold all connections. So the next queued request is sent when another one is done. The queue is no
//! limit: every few hundred microseconds it releases one more, for an upstream that is slow but works on hundreds at
//! once. Only the last quarter of an upstream is closed to clients with more than their share of it. `pool` gives out the
//! connections.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Health;
use crate::net::connection_limit::ClientLoad;

/// The queue of one worker for one upstream.
pub(super) struct FairQueue {
    health: Arc<Health>,
    waiting: RefCell<WaitingRequests>,
    /// Requests at the upstream that came through the queue.
    released: Cell<usize>,
    /// Whether a task releases a request at each interval.
    is_paced: Cell<bool>,
}

/// A request at the upstream, until it is dropped; then the next one is released.
pub(super) struct FairQueuePermit {
    queue: Rc<FairQueue>,
    was_queued: bool,
}

impl FairQueue {
    pub(super) fn new(health: &Arc<Health>) -> Rc<Self> {
        let (waiting, released, is_paced) = Default::default();
        Rc::new(Self { health: Arc::clone(health), waiting, released, is_paced })
    }

    /// Whether a client has so many requests at upstreams that this one has to wait for its turn.
    pub(super) fn has_to_wait(&self, client: &ClientLoad) -> bool {
        let upstream_max = self.health.upstream_max();
        let has_many = client.requests > MAX_RELEASED.min(upstream_max / 2);
        let exceeds_share = client.requests > share(upstream_max, client.clients);
        has_many || exceeds_share && is_congested(self.health.busy(), upstream_max)
    }

    /// A request of a client that does not have to wait.
    pub(super) fn pass(self: &Rc<Self>) -> FairQueuePermit {
        self.enter(false)
    }

    /// Waits for the turn of a request; `None` if it does not come within [`QUEUE_TIMEOUT`].
    pub(super) async fn wait(self: &Rc<Self>, client: ClientLoad) -> Option<FairQueuePermit> {
        let (sender, receiver) = oneshot::channel();
        let exceeds_share = client.requests > share(self.health.upstream_max(), client.clients);
        self.waiting.borrow_mut().push(client.prefix, WaitingRequest { exceeds_share, sender });
        self.release();
        self.pace();
        tokio::time::timeout(QUEUE_TIMEOUT, receiver).await.ok()?.ok()
    }

    fn enter(self: &Rc<Self>, was_queued: bool) -> FairQueuePermit {
        self.health.request_begins();
        self.released.update(|count| count + usize::from(was_queued));
        FairQueuePermit { queue: Rc::clone(self), was_queued }
    }

    /// Releases as many requests as may be at the upstream.
    fn release(self: &Rc<Self>) {
        while self.released.get() < MAX_RELEASED && self.release_next() {}
    }

    /// Releases one request. Returns whether there was one that may go.
    fn release_next(self: &Rc<Self>) -> bool {
        let is_congested = || is_congested(self.health.busy(), self.health.upstream_max());
        let Some(sender) = self.waiting.borrow_mut().pop(is_congested) else { return false };
        // A request that is gone drops its guard.
        let _ = sender.send(self.enter(true));
        true
    }

    /// Releases one request at each interval, even if none is done, while any wait. This also finds out that requests
    /// of other workers are done.
    fn pace(self: &Rc<Self>) {
        if self.waiting.borrow().is_empty() || self.is_paced.replace(true) {
            return;
        }
        let queue = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let mut interval = tokio::time::interval(RELEASE_INTERVAL);
            // The first tick is immediate.
            interval.tick().await;
            while !queue.waiting.borrow().is_empty() {
                interval.tick().await;
                queue.release_next();
            }
            queue.is_paced.set(false);
        });
    }
}

impl FairQueuePermit {
    /// Idle connections that a queued request leaves to other clients: a server accepts hundreds of new connections
    /// one by one, and another client's would be the last.
    pub(super) fn reserved_for_others(&self) -> usize {
        if self.was_queued { reserved(self.queue.health.upstream_max()) } else { 0 }
    }
}

impl Drop for FairQueuePermit {
    fn drop(&mut self) {
        self.queue.health.request_ends();
        self.queue.released.update(|count| count - usize::from(self.was_queued));
        self.queue.release();
    }
}

/// Queued requests, round robin over the clients.
#[derive(Default)]
struct WaitingRequests {
    /// The clients in `by_client`, in the order of their turns.
    turns: VecDeque<IpAddr>,
    by_client: HashMap<IpAddr, VecDeque<WaitingRequest>>,
}

struct WaitingRequest {
    /// Whether its client has more than its share of the last quarter.
    exceeds_share: bool,
    sender: oneshot::Sender<FairQueuePermit>,
}

impl WaitingRequests {
    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn push(&mut self, client: IpAddr, request: WaitingRequest) {
        let requests = self.by_client.entry(client).or_default();
        if requests.is_empty() {
            self.turns.push_back(client);
        }
        requests.push_back(request);
    }

    /// The next request that may go.
    fn pop(&mut self, is_congested: impl Fn() -> bool) -> Option<oneshot::Sender<FairQueuePermit>> {
        for _ in 0..self.turns.len() {
            let client = self.turns.pop_front()?;
            let requests = self.by_client.get_mut(&client)?;
            // A closed sender belongs to a request that timed out or is gone.
            while requests.front().is_some_and(|request| request.sender.is_closed()) {
                requests.pop_front();
            }
            let may_go = requests.front().is_some_and(|request| !(request.exceeds_share && is_congested()));
            let next = if may_go { requests.pop_front() } else { None };
            if requests.is_empty() {
                self.by_client.remove(&client);
            } else {
                self.turns.push_back(client);
            }
            if let Some(request) = next {
                return Some(request.sender);
            }
        }
        None
    }
}

/// The number of requests beyond which a client may not have a part of the last quarter of an upstream: that is divided
/// among those who have requests there, and one more.
fn share(upstream_max: usize, clients: usize) -> usize {
    (upstream_max / 4 / (clients + 1)).max(1)
}

/// Whether no more than a quarter of the connections is free. They are for clients within their share.
fn is_congested(busy: usize, upstream_max: usize) -> bool {
    busy >= upstream_max - upstream_max / 4
}

fn reserved(upstream_max: usize) -> usize {
    (upstream_max / CONNECTIONS_PER_RESERVED).min(MAX_RESERVED)
}

/// Enough to keep an upstream busy that answers in milliseconds.
const MAX_RELEASED: usize = 32;
/// Interval at which a queued request is released even if none is done: 3,200 a second.
const RELEASE_INTERVAL: Duration = Duration::from_micros(312);
/// Long, because a waiting request holds no connection, and a client with a hundred requests on each of a hundred
/// connections is served better by waiting than by retrying.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// Per worker: all workers together reserve a small part of the connections.
const CONNECTIONS_PER_RESERVED: usize = 64;
const MAX_RESERVED: usize = 8;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tokio::task::JoinHandle;

    use super::super::UpstreamAddress;
    use super::*;
    use crate::event::Events;
    use crate::time::Clock;

    fn queue(upstream_max: usize) -> Rc<FairQueue> {
        let address = UpstreamAddress::Unix(PathBuf::new());
        FairQueue::new(&Health::new(address, upstream_max, Clock::system(), Events::default()))
    }

    /// Tasks of one client that wait, in this order.
    fn waiting(queue: &Rc<FairQueue>, client: u8, count: usize) -> Vec<JoinHandle<Option<FairQueuePermit>>> {
        let task = |number| {
            let (queue, prefix) = (Rc::clone(queue), IpAddr::from([127, 0, 0, client]));
            tokio::task::spawn_local(async move {
                queue.wait(ClientLoad { prefix, requests: number + 1, clients: 1 }).await
            })
        };
        (0..count).map(task).collect()
    }

    fn released(waiting: &[JoinHandle<Option<FairQueuePermit>>]) -> usize {
        waiting.iter().filter(|task| task.is_finished()).count()
    }

    async fn run_others() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn one_request_goes_on_for_one_that_is_done_the_longest_waiting_first() {
        let queue = queue(1000);
        let mut tasks = waiting(&queue, 1, MAX_RELEASED + 3);
        run_others().await;
        assert_eq!(released(&tasks), MAX_RELEASED);
        drop(tasks.remove(0).await);
        run_others().await;
        assert_eq!(released(&tasks), MAX_RELEASED, "another one");
        assert!(tasks[MAX_RELEASED - 1].is_finished() && !tasks[MAX_RELEASED].is_finished());
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn a_client_waits_for_one_request_of_each_other_client_and_not_for_all() {
        let queue = queue(100_000);
        let mut first = waiting(&queue, 1, 1000);
        run_others().await;
        let second = waiting(&queue, 2, 2);
        run_others().await;
        for done in 1..=4 {
            drop(first.remove(0).await);
            run_others().await;
            assert_eq!(released(&second), done / 2, "{done} are done");
        }
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn an_upstream_that_takes_its_time_is_given_more() {
        let queue = queue(1000);
        let tasks = waiting(&queue, 1, MAX_RELEASED + 300);
        run_others().await;
        assert_eq!(released(&tasks), MAX_RELEASED);
        tokio::time::sleep(RELEASE_INTERVAL * 150).await;
        let more = released(&tasks) - MAX_RELEASED;
        assert!((130..=150).contains(&more), "{more} of 150");
        tokio::time::sleep(RELEASE_INTERVAL * 150 + Duration::from_millis(2)).await;
        assert_eq!(released(&tasks), MAX_RELEASED + 300);
        // The queue is empty: the next request waits for one interval at most.
        let since = tokio::time::Instant::now();
        let _next = waiting(&queue, 1, 1).remove(0).await;
        assert!(since.elapsed() <= Duration::from_millis(2), "{:?}", since.elapsed());
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn the_last_quarter_is_closed_to_clients_above_their_share_and_to_no_other() {
        let queue = queue(16);
        let mut above = waiting(&queue, 1, 30);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((released(&above), queue.health.busy()), (12, 12), "four of sixteen are a quarter");
        let within = waiting(&queue, 2, 2);
        run_others().await;
        assert_eq!(released(&within), 2);
        drop(above.remove(0).await);
        drop(above.remove(0).await);
        run_others().await;
        assert_eq!(released(&above), 10, "still twelve");
        drop(above.remove(0).await);
        run_others().await;
        assert_eq!(released(&above), 10, "another one");
        tokio::time::sleep(QUEUE_TIMEOUT).await;
        let mut timed_out = 0;
        for task in above.drain(10..) {
            timed_out += usize::from(task.await.unwrap().is_none());
        }
        assert_eq!(timed_out, 17);
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn a_request_that_is_gone_keeps_no_other_from_going_on() {
        let queue = queue(1000);
        let mut tasks = waiting(&queue, 1, MAX_RELEASED + 3);
        run_others().await;
        tasks[MAX_RELEASED].abort();
        tasks[MAX_RELEASED + 1].abort();
        drop(tasks.remove(0).await);
        run_others().await;
        assert!(tasks[MAX_RELEASED + 1].is_finished());
        drop(tasks);
        run_others().await;
        assert_eq!((queue.released.get(), queue.health.busy()), (0, 0), "all are done");
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!queue.is_paced.get() && queue.waiting.borrow().by_client.is_empty());
    }

    #[test]
    fn an_upstream_for_one_request_is_congested_by_one() {
        assert_eq!([1, 2, 512].map(|max| share(max, 1)), [1, 1, 64]);
        assert_eq!([2, 3, 200].map(|clients| share(512, clients)), [42, 32, 1]);
        assert!(!is_congested(0, 1) && is_congested(1, 1));
        assert!(!is_congested(383, 512) && is_congested(384, 512));
    }

    #[test]
    fn few_connections_are_reserved_and_none_where_there_are_few() {
        assert_eq!([1, 63, 64, 128, 512, 100_000].map(reserved), [0, 0, 1, 2, 8, 8]);
    }
}
