//! Buckets that several gates share: everything around a [`CompareAndSwap`], once for all databases.
//!
//! A mirror answers refusals and begins admissions, attempts on one bucket are combined, every question has a deadline, and a
//! breaker stops asking while nobody answers. It decides nothing by itself: that is [`step`](crate::bucket::step), here as
//! everywhere. The surprising thing: all questions are asked from one thread of the store's own, whoever waits for them.

mod breaker;
mod job;
mod mirror;
mod offset;
mod queue;
mod round;
mod upkeep;
mod words;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use self::job::{Deed, Said, Unavailable};
pub use self::mirror::Mirror;
pub use self::upkeep::StartError;

use self::breaker::Breaker;
use self::job::{Doubt, Job, Waiting};
use self::offset::Offset;
use self::queue::Queue;
use self::round::Round;
use super::memory::Place;
use super::{Answer, CompareAndSwap, Record, StoreError, Stored, Swap, Version};
use crate::bucket::Key;
use crate::time::{Clock, Span, Time};

/// How a store is used: `[store]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
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

impl Default for Manner {
    /// As where the file says nothing.
    fn default() -> Self {
        Self { timeout: Span::from_millis(50), on_error: OnError::Local }
    }
}

/// Hears how the store does.
pub trait Witness: Send + Sync {
    /// A question has been answered, or not.
    fn answered(&self, result: Answered, took: Span);
    /// The store is asked again from now on, or no more, and why.
    fn turned(&self, up: bool, why: &str);
    /// Something that an operator should know.
    fn noticed(&self, what: &str);
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answered {
    /// It was answered, and what was to be written is written.
    Ok,
    /// Somebody else had written meanwhile.
    Lost,
    /// There was no answer in time.
    Timeout,
    /// The answer was an error.
    Error,
}

/// A store that several gates share.
pub struct Shared {
    backend: Arc<dyn CompareAndSwap>,
    manner: Manner,
    clock: Clock,
    offset: Offset,
    breaker: Breaker,
    queue: Queue,
    witness: Arc<dyn Witness>,
    runtime: Handle,
    /// Wakes whoever looks whether the store is back.
    went_away: Arc<Notify>,
    /// Jobs that nobody waits for and that are not done yet.
    told: AtomicUsize,
    randomness: AtomicU64,
    /// The store's thread ends when it is dropped.
    _alive: oneshot::Sender<()>,
}

impl Shared {
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
        self.manner.on_error
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
    pub fn ask(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        place: Place,
        deed: Deed,
    ) -> impl Future<Output = Result<Said, Unavailable>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let asked = !self.breaker.is_open();
        if asked {
            let (mirror, waiting) = (Arc::clone(mirror), Waiting::Asked(sender));
            self.enqueue(Job { mirror, place, deed, waiting, since: Instant::now() });
        }
        // From now, not from when somebody begins to wait: several questions are asked together.
        let deadline = Instant::now() + self.manner.timeout.to_std();
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
    pub fn tell(self: &Arc<Self>, mirror: &Arc<Mirror>, place: Place, deed: Deed) {
        if self.told.fetch_add(1, Ordering::Relaxed) >= MOST_TOLD {
            self.told.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let (mirror, waiting) = (Arc::clone(mirror), Waiting::Told { tries: 0, doubt: None });
        let job = Job { mirror, place, deed, waiting, since: Instant::now() };
        if self.breaker.is_open() { self.has_failed(job, None) } else { self.enqueue(job) }
    }

    /// Waits until all that was told is done, at most so long.
    pub async fn settled(&self, patience: Duration) {
        let done = async {
            while self.told.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // What is not done by then is lost, which errs on the strict side.
        let _ = tokio::time::timeout(patience, done).await;
    }

    fn enqueue(self: &Arc<Self>, job: Job) {
        let key = job.place.key;
        if self.queue.push(job) {
            let turn = Turn { shared: Arc::clone(self), key, is_over: false };
            self.runtime.spawn(async move {
                while let Some(jobs) = turn.shared.queue.take(key) {
                    Round::new(&turn.shared, key, jobs).run().await;
                }
                turn.ends();
            });
        }
    }

    fn is_done(&self, job: Job, said: Said) {
        match job.waiting {
            // Whoever gave up meanwhile has been answered otherwise, and the token is spent.
            Waiting::Asked(sender) => drop(sender.send(Ok(said))),
            Waiting::Told { .. } => drop(self.told.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// So many jobs that were told are done, or nobody can say it: their places are free again.
    fn are_over(&self, told: usize) {
        self.told.fetch_sub(told, Ordering::Relaxed);
    }

    fn has_failed(self: &Arc<Self>, job: Job, news: Option<Doubt>) {
        match job.waiting {
            Waiting::Asked(sender) => drop(sender.send(Err(Unavailable))),
            Waiting::Told { tries, .. } if tries >= MOST_TRIES => {
                self.told.fetch_sub(1, Ordering::Relaxed);
            }
            Waiting::Told { tries, doubt } => {
                let waiting = Waiting::Told { tries: tries + 1, doubt: news.or(doubt) };
                let (shared, later) = (Arc::clone(self), FIRST_PAUSE * (1 << tries));
                let later = later + self.jitter(later);
                self.runtime.spawn(async move {
                    tokio::time::sleep(later).await;
                    shared.enqueue(Job { waiting, since: Instant::now(), ..job });
                });
            }
        }
    }

    async fn load(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        self.question(self.backend.load(key), |_| Answered::Ok).await
    }

    async fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Result<Swap, StoreError> {
        let result = |swap: &Swap| match swap {
            Swap::Done(_) => Answered::Ok,
            Swap::Lost(_) => Answered::Lost,
        };
        self.question(self.backend.swap(key, old, new), result).await
    }

    /// Asks within the deadline, and hears what the answer says besides.
    async fn question<T>(
        &self,
        asking: impl Future<Output = Result<Answer<T>, StoreError>>,
        result: impl FnOnce(&T) -> Answered,
    ) -> Result<T, StoreError> {
        let begun = self.clock.now();
        if self.breaker.is_open() {
            return Err(StoreError::Unreachable("it did not answer lately".to_owned()));
        }
        let answer = tokio::time::timeout(self.manner.timeout.to_std(), asking).await;
        self.hear(begun, answer.unwrap_or(Err(out_of_time())), result)
    }

    fn hear<T>(
        &self,
        begun: Time,
        answer: Result<Answer<T>, StoreError>,
        result: impl FnOnce(&T) -> Answered,
    ) -> Result<T, StoreError> {
        let now = self.clock.now();
        let answered = match &answer {
            Ok(answer) => result(&answer.value),
            Err(StoreError::Contended) => Answered::Lost,
            Err(error) if *error == out_of_time() => Answered::Timeout,
            Err(_) => Answered::Error,
        };
        self.witness.answered(answered, now.since(begun));
        match &answer {
            Err(error) if *error != StoreError::Contended => {
                if self.breaker.failed(Instant::now(), self.manner.timeout.to_std()) {
                    self.went_away.notify_one();
                    self.witness.turned(false, &error.to_string());
                }
            }
            _ => self.is_back(),
        }
        let answer = answer?;
        if let Some(correction) = answer.clock.and_then(|clock| self.offset.hear(clock, now)) {
            self.witness.noticed(&correction.to_string());
        }
        Ok(answer.value)
    }

    fn is_back(&self) {
        if self.breaker.succeeded(self.now()) {
            self.witness.turned(true, "it answers again");
        }
    }

    /// Whether it has ever answered: before, nobody knows what time it is there.
    fn is_known(&self) -> bool {
        self.breaker.has_ever_succeeded()
    }

    fn back_since(&self) -> Time {
        self.breaker.back_since()
    }

    fn timeout(&self) -> Span {
        self.manner.timeout
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

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("manner", &self.manner).field("up", &self.is_up()).finish()
    }
}

/// Somebody sees to a bucket.
struct Turn {
    shared: Arc<Shared>,
    key: Key,
    is_over: bool,
}

impl Turn {
    fn ends(mut self) {
        self.is_over = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A round broke off: those who wait are told by the end of their senders, and the next one begins anew.
        if !self.is_over {
            let left = self.shared.queue.abandon(self.key).unwrap_or_default();
            self.shared.are_over(left.iter().filter(|job| job.is_told()).count());
        }
    }
}

fn out_of_time() -> StoreError {
    StoreError::Unreachable("no answer in time".to_owned())
}

/// Each is a job of two hundred bytes.
const MOST_TOLD: usize = 20_000;
const MOST_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
