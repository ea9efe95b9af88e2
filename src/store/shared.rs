//! Buckets that several gates share: everything around a [`CompareAndSwap`], once for all databases.
//!
//! A mirror answers refusals and begins admissions, attempts on one bucket are combined, every question has a deadline, and a
//! breaker stops asking while nobody answers. It decides nothing by itself: that is [`step`](crate::bucket::step), here as
//! everywhere. The surprising thing: all questions are asked from one thread of the store's own, whoever waits for them.

mod batch;
mod breaker;
mod bucket_state;
mod clock_offset;
mod maintenance;
mod mirror;
mod queue;
mod request;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use self::maintenance::StoreStartError;
pub use self::mirror::Mirror;
pub use self::request::{StoreOp, StoreReply, Unavailable};

use self::batch::StoreBatch;
use self::breaker::Breaker;
use self::clock_offset::ClockOffset;
use self::queue::RequestQueue;
use self::request::{Completion, StoreRequest, UncertainWrite};
use super::memory::BucketKey;
use super::{Clocked, CompareAndSwap, RecordVersion, StoreError, StoreRecord, Stored, Swap};
use crate::bucket::Key;
use crate::time::{Clock, Span, Time};

/// How a store is used: `[store]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// The longest that an attempt waits for the store.
    pub timeout: Span,
    /// What is done with an attempt when the store does not answer.
    pub on_error: OnError,
}

/// What is done with an attempt when the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnError {
    /// The mirror decides, as if this gate were alone.
    Local,
    /// It is admitted.
    Allow,
    /// It is answered 503.
    Deny,
}

impl Default for StoreOptions {
    /// As where the file says nothing.
    fn default() -> Self {
        Self { timeout: Span::from_millis(50), on_error: OnError::Local }
    }
}

/// Hears how the store does.
pub trait StoreObserver: Send + Sync {
    /// A question has been answered, or not.
    fn call_finished(&self, result: CallOutcome, took: Span);
    /// The store is asked again from now on, or no more, and why.
    fn availability_changed(&self, up: bool, why: &str);
    /// Something that an operator should know.
    fn warned(&self, what: &str);
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// It was answered, and what was to be written is written.
    Ok,
    /// Somebody else had written meanwhile.
    Conflict,
    /// There was no answer in time.
    Timeout,
    /// The answer was an error.
    Error,
}

/// A store that several gates share.
pub struct SharedStore {
    backend: Arc<dyn CompareAndSwap>,
    options: StoreOptions,
    clock: Clock,
    offset: ClockOffset,
    breaker: Breaker,
    queue: RequestQueue,
    observer: Arc<dyn StoreObserver>,
    runtime: Handle,
    /// Wakes whoever looks whether the store is back.
    went_down: Arc<Notify>,
    /// Jobs that nobody waits for and that are not done yet.
    enqueued: AtomicUsize,
    randomness: AtomicU64,
    /// The store's thread ends when it is dropped.
    _alive: oneshot::Sender<()>,
}

impl SharedStore {
    /// What time it is at the store, when the own clock shows this.
    #[must_use]
    pub fn time(&self, own: Time) -> Time {
        self.offset.apply(own)
    }

    /// What time it is at the store.
    #[must_use]
    pub fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// What is done with an attempt when the store does not answer.
    #[must_use]
    pub fn on_error(&self) -> OnError {
        self.options.on_error
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.breaker.is_open()
    }

    /// Has something done to a bucket. Needs a tokio runtime with time; waits no longer than the deadline.
    ///
    /// # Errors
    /// [`Unavailable`] if the store does not answer in time. Then it may have been done all the same.
    pub fn call(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        place: BucketKey,
        deed: StoreOp,
    ) -> impl Future<Output = Result<StoreReply, Unavailable>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let asked = !self.breaker.is_open();
        if asked {
            let (mirror, waiting) = (Arc::clone(mirror), Completion::Call(sender));
            self.push_request(StoreRequest {
                mirror,
                bucket: place,
                op: deed,
                completion: waiting,
                since: Instant::now(),
            });
        }
        // From now, not from when somebody begins to wait: several questions are asked together.
        let deadline = Instant::now() + self.options.timeout.to_std();
        async move {
            if !asked {
                return Err(Unavailable);
            }
            let answer = tokio::time::timeout_at(deadline, receiver).await;
            answer.map_err(|_| Unavailable)?.map_err(|_| Unavailable)?
        }
    }

    /// Has something done to a bucket, sooner or later. While the store is away it is tried again for about half a minute, a
    /// bounded number of such things at once; what is lost by that was to the client's good as a rule, so it errs on the
    /// strict side.
    pub fn enqueue(self: &Arc<Self>, mirror: &Arc<Mirror>, place: BucketKey, deed: StoreOp) {
        if self.enqueued.fetch_add(1, Ordering::Relaxed) >= MAX_ENQUEUED {
            self.enqueued.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (mirror, waiting) = (Arc::clone(mirror), Completion::Enqueued { tries: 0, uncertain: None });
        let job =
            StoreRequest { mirror, bucket: place, op: deed, completion: waiting, since: Instant::now() };
        if self.breaker.is_open() { self.fail(job, None) } else { self.push_request(job) }
    }

    /// Waits until all that was told is done, at most so long.
    pub async fn flush(&self, patience: Duration) {
        let done = async {
            while self.enqueued.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // What is not done by then is lost, which errs on the strict side.
        let _ = tokio::time::timeout(patience, done).await;
    }

    fn push_request(self: &Arc<Self>, job: StoreRequest) {
        let key = job.bucket.key;
        if self.queue.push(job) {
            let turn = KeyWorker { shared: Arc::clone(self), key, is_finished: false };
            self.runtime.spawn(async move {
                while let Some(jobs) = turn.shared.queue.take(key) {
                    StoreBatch::new(&turn.shared, key, jobs).run().await;
                }
                turn.finish();
            });
        }
    }

    fn complete(&self, job: StoreRequest, said: StoreReply) {
        match job.completion {
            // Whoever gave up meanwhile has been answered otherwise, and the token is spent.
            Completion::Call(sender) => drop(sender.send(Ok(said))),
            Completion::Enqueued { .. } => drop(self.enqueued.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// So many jobs that were told are done, or nobody can say it: their places are free again.
    fn release_enqueued(&self, told: usize) {
        self.enqueued.fetch_sub(told, Ordering::Relaxed);
    }

    fn fail(self: &Arc<Self>, job: StoreRequest, news: Option<UncertainWrite>) {
        match job.completion {
            Completion::Call(sender) => drop(sender.send(Err(Unavailable))),
            Completion::Enqueued { tries, .. } if tries >= MAX_TRIES => {
                self.enqueued.fetch_sub(1, Ordering::Relaxed);
            }
            Completion::Enqueued { tries, uncertain: doubt } => {
                let waiting = Completion::Enqueued { tries: tries + 1, uncertain: news.or(doubt) };
                let (shared, later) = (Arc::clone(self), FIRST_PAUSE * (1 << tries));
                let later = later + self.jitter(later);
                self.runtime.spawn(async move {
                    tokio::time::sleep(later).await;
                    shared.push_request(StoreRequest { completion: waiting, since: Instant::now(), ..job });
                });
            }
        }
    }

    async fn load(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        self.call_backend(self.backend.load(key), |_| CallOutcome::Ok).await
    }

    async fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> Result<Swap, StoreError> {
        let result = |swap: &Swap| match swap {
            Swap::Done(_) => CallOutcome::Ok,
            Swap::Conflict(_) => CallOutcome::Conflict,
        };
        self.call_backend(self.backend.swap(key, old, new), result).await
    }

    /// Asks within the deadline, and hears what the answer says besides.
    async fn call_backend<T>(
        &self,
        asking: impl Future<Output = Result<Clocked<T>, StoreError>>,
        result: impl FnOnce(&T) -> CallOutcome,
    ) -> Result<T, StoreError> {
        let begun = self.clock.now();
        if self.breaker.is_open() {
            return Err(StoreError::Unreachable("it did not answer lately".to_owned()));
        }
        let answer = tokio::time::timeout(self.options.timeout.to_std(), asking).await;
        self.record_outcome(begun, answer.unwrap_or(Err(timeout_error())), result)
    }

    fn record_outcome<T>(
        &self,
        begun: Time,
        answer: Result<Clocked<T>, StoreError>,
        result: impl FnOnce(&T) -> CallOutcome,
    ) -> Result<T, StoreError> {
        let now = self.clock.now();
        let answered = match &answer {
            Ok(answer) => result(&answer.value),
            Err(StoreError::WriteConflict) => CallOutcome::Conflict,
            Err(error) if *error == timeout_error() => CallOutcome::Timeout,
            Err(_) => CallOutcome::Error,
        };
        self.observer.call_finished(answered, now.since(begun));
        match &answer {
            Err(error) if *error != StoreError::WriteConflict => {
                if self.breaker.failed(Instant::now(), self.options.timeout.to_std()) {
                    self.went_down.notify_one();
                    self.observer.availability_changed(false, &error.to_string());
                }
            }
            _ => self.mark_up(),
        }
        let answer = answer?;
        if let Some(correction) = answer.clock.and_then(|clock| self.offset.record(clock, now)) {
            self.observer.warned(&correction.to_string());
        }
        Ok(answer.value)
    }

    fn mark_up(&self) {
        if self.breaker.succeeded(self.now()) {
            self.observer.availability_changed(true, "it answers again");
        }
    }

    /// Whether it has ever answered: before, nobody knows what time it is there.
    fn has_ever_answered(&self) -> bool {
        self.breaker.has_ever_succeeded()
    }

    fn back_since(&self) -> Time {
        self.breaker.back_since()
    }

    fn timeout(&self) -> Span {
        self.options.timeout
    }

    /// A part of this time: so that those who wait for the same thing do not come back together.
    fn jitter(&self, most: Duration) -> Duration {
        // A Weyl sequence through a mixer (splitmix64): nobody's secret depends on it.
        let mut mixed = self.randomness.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
        Duration::from_nanos((mixed ^ mixed >> 31) % nanos)
    }
}

impl std::fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("manner", &self.options).field("up", &self.is_up()).finish()
    }
}

/// Somebody sees to a bucket.
struct KeyWorker {
    shared: Arc<SharedStore>,
    key: Key,
    is_finished: bool,
}

impl KeyWorker {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for KeyWorker {
    fn drop(&mut self) {
        // A round broke off: those who wait are told by the end of their senders, and the next one begins anew.
        if !self.is_finished {
            let left = self.shared.queue.abandon(self.key).unwrap_or_default();
            self.shared.release_enqueued(left.iter().filter(|job| job.is_enqueued()).count());
        }
    }
}

fn timeout_error() -> StoreError {
    StoreError::Unreachable("no answer in time".to_owned())
}

/// Each is a job of two hundred bytes.
const MAX_ENQUEUED: usize = 20_000;
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
