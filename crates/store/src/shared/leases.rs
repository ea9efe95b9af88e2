//! Leases of buckets that are hot: where attempts on one bucket meet, a gate takes a part of its tokens in advance and
//! hands them out alone.
//!
//! A lease begins where a batch loses several races, is large, or follows the one before it at once. Its own task
//! keeps as many tokens as the bucket is asked for in a short time, never more than a small part of what is left, and ends
//! the lease when no attempt comes. Its tokens are taken as those of an attempt are; what they are worth later is left to
//! [`lease`](super::lease).
//!
//! An operator's word ends leases. The gate that carries it out ends its own at once; a gate that has not heard of the
//! bucket for [`LOOK_INTERVAL`] looks at it, and so learns of the word within a second. What such a lease still has is not
//! given back: its tokens are of the bucket as it was before.
//!
//! Buckets where refused attempts take tokens, too, or are held, have none; nor have those whose
//! steps the store takes, unless they are so large and slow that next to none of the tokens lapse.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::SharedStore;
use super::lease::{Lease, Slice};
use super::mirror::Mirror;
use super::request::{StoreCall, StoreOp, StoreReply, StoreRequest, Unavailable};
use crate::memory::BucketKey;
use tollgate_bucket::{Admission, Continuous, Key, Op, Span, Spec, Time};

/// The leases of this gate.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Their number, so that a gate without any takes no lock.
    count: AtomicUsize,
    by_key: Mutex<HashMap<Key, KeptLease>>,
    begun: AtomicU64,
}

/// A lease, and whose it is: its number tells its keeper from the keeper of an earlier one.
#[derive(Debug)]
struct KeptLease {
    spec: Spec,
    number: u64,
    lease: Lease,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, KeptLease>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Begins a lease without tokens, unless there is one or there are too many. Returns its number.
    fn begin(&self, bucket: &BucketKey) -> Option<u64> {
        let mut leases = self.lock();
        if leases.contains_key(&bucket.key) || leases.len() >= MAX_LEASES {
            return None;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        leases.insert(bucket.key, KeptLease { spec: bucket.spec, number, lease: Lease::default() });
        self.count.store(leases.len(), Ordering::Relaxed);
        Some(number)
    }

    /// Ends the lease of a bucket: the one of this number, or whichever it is.
    fn end(&self, key: Key, number: Option<u64>) -> Option<Lease> {
        let mut leases = self.lock();
        leases.get(&key).filter(|kept| number.is_none_or(|number| number == kept.number))?;
        let ended = leases.remove(&key);
        self.count.store(leases.len(), Ordering::Relaxed);
        ended.map(|kept| kept.lease)
    }

    /// Runs this on the lease of a bucket, if it has one.
    fn with<T>(&self, bucket: &BucketKey, run: impl FnOnce(&mut Lease) -> T) -> Option<T> {
        self.with_kept(bucket, |kept| Some(run(&mut kept.lease)))
    }

    fn with_kept<T>(&self, bucket: &BucketKey, run: impl FnOnce(&mut KeptLease) -> Option<T>) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        run(self.lock().get_mut(&bucket.key).filter(|kept| kept.spec == bucket.spec)?)
    }
}

impl SharedStore {
    /// Decides by the lease of the bucket, if it has the tokens.
    pub(super) fn take_leased(&self, StoreCall { mirror, bucket, op }: &StoreCall<'_>) -> Option<StoreReply> {
        match op {
            StoreOp::Step(Op::Take(tokens)) if !self.leases.is_empty() => {
                let now = self.now_of(bucket.key);
                let taken = |lease: &mut Lease| Some((lease.take(*tokens, now)?, lease.left(now)));
                let (receipt, left) = self.leases.with(bucket, taken)??;
                let mut verdict = mirror.buckets.peek(bucket, now, *tokens);
                verdict.left = verdict.left.saturating_add(left);
                (verdict.admission, verdict.receipt) = (Admission::Admitted, receipt);
                self.observer.admitted_by_lease(mirror.limit());
                Some(StoreReply { verdict, own: None })
            }
            _ => None,
        }
    }

    /// Ends the lease of a bucket to which an operator gave its own rate, or takes from it what he has given back.
    pub(super) fn check_lease(&self, bucket: &BucketKey, reply: &StoreReply) {
        if self.leases.is_empty() {
        } else if reply.own.is_some() {
            self.leases.end(bucket.key, None);
        } else {
            let now = self.now_of(bucket.key);
            self.leases.with(bucket, |lease| lease.trim(reply.verdict.full_at, now));
        }
    }

    /// Gives the tokens of an attempt back to the lease of the bucket, if it has one.
    pub(super) fn return_leased(&self, bucket: &BucketKey, op: StoreOp) -> bool {
        let StoreOp::Step(Op::Refund(receipt)) = op else { return false };
        self.leases.with(bucket, |lease| lease.put_back(receipt, self.now_of(bucket.key))) == Some(true)
    }

    /// Whether a lease of the bucket has tokens left.
    pub(crate) fn has_leased(&self, bucket: &BucketKey, now: Time) -> bool {
        self.leases.with(bucket, |lease| lease.left(now) > 0) == Some(true)
    }

    /// Begins a lease for a bucket of which so many tokens are wanted at once. Returns the request for its first tokens.
    pub(super) fn begin_lease(
        self: &Arc<Self>,
        StoreRequest { mirror, bucket, .. }: &StoreRequest,
        wanted: usize,
    ) -> Option<StoreRequest> {
        let rate = leasable(&bucket.spec)?;
        let number = self.leases.begin(bucket)?;
        let is_needed = !self.can_step(&bucket.spec);
        let least = if is_needed { 1 } else { CHEAP_TOKENS / ROUNDS_AHEAD };
        let keeper = LeaseKeeper {
            shared: Arc::clone(self),
            mirror: Arc::clone(mirror),
            bucket: *bucket,
            number,
            rate,
            is_needed,
            demand: u32::try_from(wanted).unwrap_or(u32::MAX).max(least),
            seen_at: Instant::now(),
        };
        // Without tokens to take the keeper ends the lease at once.
        let (request, first) = keeper.refill(keeper.now())?;
        self.runtime.spawn(keeper.run(first));
        request
    }

    fn now_of(&self, key: Key) -> Time {
        self.now_at(&self.server_of(key))
    }
}

/// Keeps tokens of one bucket as long as attempts come.
struct LeaseKeeper {
    shared: Arc<SharedStore>,
    mirror: Arc<Mirror>,
    bucket: BucketKey,
    /// That of its lease.
    number: u64,
    rate: Continuous,
    /// Whether races are lost without it: where the store takes steps it only saves requests, and must not cost tokens.
    is_needed: bool,
    /// Tokens that are wanted in a round.
    demand: u32,
    /// When the store told last how the bucket is.
    seen_at: Instant,
}

impl LeaseKeeper {
    async fn run(mut self, first: impl Future<Output = Refill>) {
        self.add(first.await);
        let mut idle = 0;
        while idle < IDLE_ROUNDS {
            let now = self.now();
            let Some((wanted, left)) = self.with_lease(|lease| (lease.take_wanted(), lease.left(now))) else {
                break;
            };
            idle = if wanted == 0 { idle + 1 } else { 0 };
            self.demand = wanted.max(self.demand / 4 * 3);
            if left < self.demand.saturating_mul(2)
                && let Some((request, reply)) = self.refill(now)
            {
                self.shared.push_requests(request);
                self.add(reply.await);
            } else if left > 0 && self.seen_at.elapsed() >= LOOK_INTERVAL {
                self.look().await;
            }
            tokio::time::sleep(ROUND.to_std()).await;
        }
    }

    /// Asks for tokens as an attempt does. A bucket with few tokens is left to the attempts; so is one that refills faster
    /// than this gate uses its tokens, because time would return them before they are handed out.
    fn refill(
        &self,
        now: Time,
    ) -> Option<(Option<StoreRequest>, impl Future<Output = Refill> + Send + use<>)> {
        let part = self.mirror.buckets.peek(&self.bucket, now, 1).left / PART;
        let tokens = self.demand.saturating_mul(ROUNDS_AHEAD).min(part);
        let time_for = |tokens: u32| self.rate.per_token().times(tokens.into());
        let is_cheap = tokens >= CHEAP_TOKENS && time_for(tokens) >= CHEAP_SPAN;
        let is_worth_it = time_for(self.demand) >= ROUND && (self.is_needed || is_cheap);
        (is_worth_it && tokens >= self.demand.max(2))
            .then(|| self.shared.request_of(self.call(StoreOp::Step(Op::Take(tokens)))))
    }

    fn add(&mut self, refill: Refill) {
        let Ok(reply) = refill else { return };
        self.seen_at = Instant::now();
        if reply.own.is_some() && reply.verdict.receipt.tokens > 0 {
            // They were taken from the bucket as it is now.
            self.shared.enqueue([self.call(StoreOp::Step(Op::Refund(reply.verdict.receipt)))]);
        } else if reply.own.is_none() && reply.verdict.is_admitted() {
            let slice = Slice::new(self.rate.per_token(), reply.verdict.receipt);
            // Without a lease any more they are lost, which errs on the strict side.
            self.with_lease(|lease| lease.add(slice));
        }
        self.shared.check_lease(&self.bucket, &reply);
    }

    /// Asks the store how the bucket is. Without an answer the lease goes on, as all else does without the store.
    async fn look(&mut self) {
        let (request, reply) = self.shared.request_of(self.call(StoreOp::Step(Op::Peek(1))));
        self.shared.push_requests(request);
        if let Ok(reply) = reply.await {
            self.shared.check_lease(&self.bucket, &reply);
        }
        self.seen_at = Instant::now();
    }

    fn call(&self, op: StoreOp) -> StoreCall<'_> {
        StoreCall { mirror: &self.mirror, bucket: self.bucket, op }
    }

    fn with_lease<T>(&self, run: impl FnOnce(&mut Lease) -> T) -> Option<T> {
        let own = |kept: &mut KeptLease| (kept.number == self.number).then(|| run(&mut kept.lease));
        self.shared.leases.with_kept(&self.bucket, own)
    }

    fn now(&self) -> Time {
        self.shared.now_of(self.bucket.key)
    }
}

/// The reply to a request for tokens.
type Refill = Result<StoreReply, Unavailable>;

/// However it ends, the lease ends with it, and another may begin.
impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        let Some(lease) = self.shared.leases.end(self.bucket.key, Some(self.number)) else { return };
        let refund = |receipt| self.call(StoreOp::ReturnLease(receipt));
        self.shared.enqueue(lease.into_receipts().map(refund));
    }
}

/// The rate of a bucket whose tokens can be taken in advance.
fn leasable(spec: &Spec) -> Option<Continuous> {
    let Spec::Continuous(rate) = spec else { return None };
    (rate.debt() == 0 && rate.hold() == Span::ZERO).then_some(*rate)
}

/// A gate takes this part of the tokens that are left at once: one in sixteen.
const PART: u32 = 16;
const ROUND: Span = Span::from_millis(50);
/// For how many rounds tokens are taken.
const ROUNDS_AHEAD: u32 = 8;
/// Of so many tokens at once, which time takes so long to return, next to none lapse: the first, and those of a moment in
/// which the gate stands still.
const CHEAP_TOKENS: u32 = 32;
const CHEAP_SPAN: Span = Span::from_secs(10);
/// After so many rounds without an attempt a lease ends: a second.
const IDLE_ROUNDS: u32 = 20;
/// How long a lease goes on without a word from the store about its bucket: an operator's word holds within a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(400);
/// Leases of a gate at once; each has a task and some hundred bytes.
const MAX_LEASES: usize = 1_000;
