//! Buckets that several gates share: everything around a [`CompareAndSwap`], once for all databases.
//!
//! A mirror answers refusals and starts admissions, requests for one bucket are batched, every call has a deadline, and
//! a breaker stops the calls to a server that does not answer; each server of a store has a breaker and a clock, and a marker
//! by which gates notice that it has lost its records. The arithmetic is left to [`step`](tollgate_bucket::step),
//! as everywhere. All calls to the database are made by one thread of the store's own, whichever threads wait for them.

mod backend;
mod batch;
mod circuit_breaker;
mod lease;
mod leases;
mod maintenance;
mod marker;
mod marker_check;
mod mirror;
mod queue;
mod recent_buckets;
mod request;
mod server;
mod servers;
mod swap_group;
mod trips;
mod write_back;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use self::maintenance::StoreStartError;
pub use self::mirror::Mirror;
pub use self::request::{ReplyFuture, StoreCall, StoreOp, StoreReply, Unavailable};
pub use tollgate_bucket::OnError;

use self::batch::StoreBatch;
use self::leases::Leases;
use self::queue::RequestQueue;
use self::recent_buckets::RecentBuckets;
use self::request::{Completion, StoreRequest, UncertainWrite};
use self::server::StoreServer;
use self::servers::StoreServers;
use self::swap_group::GroupMember;
use self::trips::StoreTrips;
use super::CompareAndSwap;
use super::fleet::StoreHealth;
use super::memory::BucketKey;
use tollgate_base::time::Clock;
use tollgate_bucket::{Key, Span, Time};

/// The options of a store: `[store]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// The longest time that an attempt waits for the store.
    pub timeout: Span,
    /// What happens to an attempt when the store does not answer.
    pub on_error: OnError,
    /// Where buckets are calculated that several gates write at once.
    pub arithmetic: Arithmetic,
}

/// Where a bucket is calculated that several gates write at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// The database, where it can.
    #[default]
    Store,
    /// The gate always: it repeats what a concurrent write made void.
    Gate,
}

impl Default for StoreOptions {
    /// The defaults of the file.
    fn default() -> Self {
        Self { timeout: Span::from_millis(50), on_error: OnError::Local, arithmetic: Arithmetic::Store }
    }
}

/// Receives the events of a store.
pub trait StoreObserver: Send + Sync {
    /// A call has finished.
    fn call_finished(&self, result: CallStatus, took: Span);
    /// Calls to a server start, start again, or stop. Each change, for counters.
    fn availability_changed(&self, change: &AvailabilityChange<'_>);
    /// The same for people to read: at most once a minute for each server and direction.
    fn availability_reported(&self, change: &AvailabilityChange<'_>);
    /// A server that is down still fails, or one that is up refuses attempts. For people to read: at most once a minute for
    /// each server.
    fn failed(&self, _state: &AvailabilityChange<'_>) {}
    /// The store has a server no more.
    fn server_left(&self, _server: &str, _is_store_up: bool) {}
    /// A warning for the operator.
    fn warned(&self, what: &str);
    /// The mirror of this limit refused an attempt, without a call.
    fn refused_by_mirror(&self, _limit: &Arc<str>) {}
    /// A lease of a bucket of this limit admitted an attempt, without a call.
    fn admitted_by_lease(&self, _limit: &Arc<str>) {}
    /// Concurrent writes to a bucket of this limit won until an attempt had no time left.
    fn race_lost(&self, _limit: &Arc<str>) {}
    /// An attempt is decided without the store, as this option says.
    fn fell_back(&self, _on_error: OnError) {}
}

/// A server of a store that calls go to from now on, or do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailabilityChange<'a> {
    /// Its name; empty if the store has one server only.
    pub server: &'a str,
    /// Whether calls go to it.
    pub up: bool,
    /// Whether calls go to all servers of the store.
    pub is_store_up: bool,
    /// The reason, in words for operators.
    pub why: &'a str,
}

/// The result of a call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallStatus {
    /// The store answered, and has written what was to be written.
    Ok,
    /// A concurrent write came first.
    Conflict,
    /// No answer came in time.
    Timeout,
    /// The store takes no more calls about this key at present.
    Throttled,
    /// The answer was an error.
    Error,
}

/// A store that several gates share.
pub struct SharedStore {
    backend: Arc<dyn CompareAndSwap>,
    options: StoreOptions,
    clock: Clock,
    servers: StoreServers,
    trips: StoreTrips,
    queue: RequestQueue,
    leases: Leases,
    /// Buckets with an order or a rate of an operator, which are written back first.
    ordered: RecentBuckets,
    /// Buckets without a token.
    drained: RecentBuckets,
    observer: Arc<dyn StoreObserver>,
    runtime: Handle,
    is_inspected: AtomicBool,
    /// Enqueued requests that are not done yet.
    enqueued: AtomicUsize,
    randomness: AtomicU64,
    /// Dropping it ends the store's thread.
    _alive: oneshot::Sender<()>,
}

impl SharedStore {
    /// The store's time when this process's clock shows `own`; of a store of several servers, the first one's.
    #[must_use]
    pub fn time(&self, own: Time) -> Time {
        self.servers.time(own)
    }

    /// The time at the server of this key when the store's time is `now`.
    pub(super) fn time_at(&self, key: Key, now: Time) -> Time {
        if self.servers.is_single() { now } else { self.servers.time_at(&self.server_of(key), now) }
    }

    /// The store's present time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// What happens to an attempt when the store does not answer.
    #[must_use]
    pub fn on_error(&self) -> OnError {
        self.options.on_error
    }

    /// The receiver of the events of this store.
    pub(super) fn observer(&self) -> &dyn StoreObserver {
        &*self.observer
    }

    /// Whether all servers of the store take calls, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.servers.are_up()
    }

    /// The same, and how often it was otherwise.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        self.trips.health(self.is_up(), self.clock.now())
    }

    /// The present time at this server.
    fn now_at(&self, server: &StoreServer) -> Time {
        let own = self.clock.now();
        if server.offset.is_known() { server.offset.apply(own) } else { self.time(own) }
    }

    /// The server that holds this key.
    fn server_of(&self, key: Key) -> Arc<StoreServer> {
        self.servers.get(self.backend.server_of(key), &*self.backend)
    }

    /// Runs one operation on a bucket. Needs a tokio runtime with time; waits no longer than the deadline.
    ///
    /// # Errors
    /// [`Unavailable`] if the store does not answer in time. The operation may have been done all the same.
    pub fn call(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        bucket: BucketKey,
        op: StoreOp,
    ) -> impl Future<Output = Result<StoreReply, Unavailable>> + Send + use<> {
        let (request, reply) = self.decide(StoreCall { mirror, bucket, op });
        self.push_requests(request);
        reply
    }

    /// [Calls](Self::call) for several buckets, all at the same time: in one request, where the database can.
    pub fn call_all<'m>(
        self: &Arc<Self>,
        calls: impl IntoIterator<Item = StoreCall<'m>>,
    ) -> SmallVec<[ReplyFuture; 2]> {
        let mut replies = SmallVec::new();
        let requests = calls.into_iter().filter_map(|call| {
            let (request, reply) = self.decide(call);
            replies.push(Box::pin(reply) as ReplyFuture);
            request
        });
        self.push_requests(requests);
        replies
    }

    /// The reply to a call, by a lease of the bucket or to a request.
    fn decide(
        &self,
        call: StoreCall<'_>,
    ) -> (Option<StoreRequest>, impl Future<Output = Result<StoreReply, Unavailable>> + Send + use<>) {
        let leased = self.take_leased(&call);
        let (request, reply) = leased.is_none().then(|| self.request_of(call)).unzip();
        let reply = async move {
            match (leased, reply) {
                (Some(leased), _) => Ok(leased),
                (None, Some(reply)) => reply.await,
                (None, None) => Err(Unavailable),
            }
        };
        (request.flatten(), reply)
    }

    /// A call's request, if calls go to the server, and its reply.
    fn request_of(
        &self,
        StoreCall { mirror, bucket, op }: StoreCall<'_>,
    ) -> (Option<StoreRequest>, impl Future<Output = Result<StoreReply, Unavailable>> + Send + use<>) {
        let (sender, receiver) = oneshot::channel();
        let is_up = !self.server_of(bucket.key).breaker.is_open();
        let request = is_up.then(|| {
            let (mirror, completion) =
                (Arc::clone(mirror), Completion::Call { reply: sender, uncertain: None });
            StoreRequest { mirror, bucket, op, completion, since: Instant::now() }
        });
        // From now and not from the first poll: several calls are made first and awaited together.
        let deadline = Instant::now() + self.options.timeout.to_std();
        let reply = async move {
            if !is_up {
                return Err(Unavailable);
            }
            let answer = tokio::time::timeout_at(deadline, receiver).await;
            answer.map_err(|_| Unavailable)?.map_err(|_| Unavailable)?
        };
        (request, reply)
    }

    /// Runs operations on buckets in the background, in one request where the database can. While the store is down they
    /// are retried for about half a minute, for a bounded number of operations at once. What is lost by that is usually
    /// in the client's favour, so it errs on the strict side.
    pub fn enqueue<'m>(self: &Arc<Self>, calls: impl IntoIterator<Item = StoreCall<'m>>) {
        let requests = calls.into_iter().filter_map(|StoreCall { mirror, bucket, op }| {
            if self.return_leased(&bucket, op) {
                return None;
            }
            if self.enqueued.fetch_add(1, Ordering::Relaxed) >= MAX_ENQUEUED {
                self.enqueued.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            let (mirror, completion) =
                (Arc::clone(mirror), Completion::Enqueued { tries: 0, uncertain: None });
            let request = StoreRequest { mirror, bucket, op, completion, since: Instant::now() };
            if self.server_of(bucket.key).breaker.is_open() {
                self.fail(request, None);
                return None;
            }
            Some(request)
        });
        self.push_requests(requests);
    }

    /// Runs other requests than those about buckets on the store's thread, the first of them about this key, and waits
    /// at most `timeout` for their result. Asks nothing while the server of the key is down.
    ///
    /// # Errors
    /// [`Unavailable`] if there is no result by then. What the requests write may have been written all the same.
    pub async fn run<T: Send + 'static, F>(
        &self,
        key: Key,
        timeout: Duration,
        requests: impl FnOnce(Arc<dyn CompareAndSwap>) -> F,
    ) -> Result<T, Unavailable>
    where
        F: Future<Output = T> + Send + 'static,
    {
        if self.server_of(key).breaker.is_open() {
            return Err(Unavailable);
        }
        let requests = requests(Arc::clone(&self.backend));
        // The time-out drops the requests there, as their contract wants it.
        let running = self.runtime.spawn(async move { tokio::time::timeout(timeout, requests).await });
        running.await.map_err(|_| Unavailable)?.map_err(|_| Unavailable)
    }

    /// Waits until all enqueued operations are done, at most this long.
    pub async fn flush(&self, timeout: Duration) {
        let done = async {
            while self.enqueued.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Operations that are not done by then are lost, which errs on the strict side.
        let _ = tokio::time::timeout(timeout, done).await;
    }

    /// Queues requests that were made together.
    fn push_requests(self: &Arc<Self>, requests: impl IntoIterator<Item = StoreRequest>) {
        let needs_worker = |request: StoreRequest| {
            let key = request.bucket.key;
            self.queue.push(request).then_some(key)
        };
        let keys: SmallVec<[Key; 2]> = requests.into_iter().filter_map(needs_worker).collect();
        let are_together = (2..=MAX_TOGETHER).contains(&keys.len()) && self.backend.can_swap_together(&keys);
        let mut members = if are_together { GroupMember::group(self, keys.len()) } else { Vec::new() };
        for key in keys {
            let worker = KeyWorker { shared: Arc::clone(self), key, is_finished: false };
            self.runtime.spawn(worker.run(members.pop()));
        }
    }

    fn complete(&self, request: StoreRequest, reply: StoreReply) {
        if request.is_operators_word() {
            self.check_lease(&request.bucket, &reply);
        }
        match request.completion {
            // A caller that gave up was decided otherwise, and the token is spent.
            Completion::Call { reply: caller, .. } => drop(caller.send(Ok(reply))),
            Completion::Enqueued { .. } => drop(self.enqueued.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// Counts off enqueued requests that are done, or whose outcome can no longer be known.
    fn release_enqueued(&self, count: usize) {
        self.enqueued.fetch_sub(count, Ordering::Relaxed);
    }

    fn fail(self: &Arc<Self>, request: StoreRequest, uncertain: Option<UncertainWrite>) {
        match request.completion {
            Completion::Call { reply, .. } => drop(reply.send(Err(Unavailable))),
            Completion::Enqueued { tries, .. } if tries >= MAX_TRIES => {
                self.enqueued.fetch_sub(1, Ordering::Relaxed);
            }
            Completion::Enqueued { tries, uncertain: before } => {
                let completion = Completion::Enqueued { tries: tries + 1, uncertain: uncertain.or(before) };
                // Longer than an earlier try may be on its way and wait for its row.
                let late = uncertain.map_or(Duration::ZERO, |_| self.options.timeout.to_std() + LONGEST_WAIT);
                let (shared, pause) = (Arc::clone(self), late + FIRST_PAUSE * (1 << tries));
                let pause = pause + self.jitter(pause);
                self.runtime.spawn(async move {
                    tokio::time::sleep(pause).await;
                    shared.push_requests([StoreRequest { completion, since: Instant::now(), ..request }]);
                });
            }
        }
    }

    fn timeout(&self) -> Span {
        self.options.timeout
    }

    /// A random part of this time, so that tasks that wait for the same event do not come back together.
    fn jitter(&self, max: Duration) -> Duration {
        // A Weyl sequence through a mixer (splitmix64): no secret depends on it.
        let mut mixed = self.randomness.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos((mixed ^ mixed >> 31) % nanos)
    }
}

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("options", &self.options).field("up", &self.is_up()).finish()
    }
}

/// Runs batches for one bucket until no request waits.
struct KeyWorker {
    shared: Arc<SharedStore>,
    key: Key,
    is_finished: bool,
}

impl KeyWorker {
    /// The first batch may be one of a group.
    async fn run(mut self, mut member: Option<GroupMember>) {
        while let Some(requests) = self.shared.queue.take(self.key) {
            StoreBatch::new(&self.shared, self.key, requests, member.take()).run().await;
        }
        self.is_finished = true;
    }
}

impl Drop for KeyWorker {
    fn drop(&mut self) {
        // The worker was cut short: callers see that their senders are gone, and the next request starts a new worker.
        if !self.is_finished {
            let left = self.shared.queue.abandon(self.key).unwrap_or_default();
            self.shared.release_enqueued(left.iter().filter(|request| request.is_enqueued()).count());
        }
    }
}

/// Buckets that are written back to a store that has lost them; each takes a hundred and fifty bytes here.
const MAX_ORDERED: usize = 10_000;
const MAX_DRAINED: usize = 20_000;
/// A request takes two hundred bytes.
const MAX_ENQUEUED: usize = 20_000;
/// Buckets that are written in one request: more than an attempt usually has.
const MAX_TOGETHER: usize = 16;
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long a database lets a statement wait for a row.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
