//! Buckets without a proxy: for programs that limit calls of their own, incoming or outgoing.
//!
//! The same arithmetic over the same stores as the gate; no routes, no policy, no HTTP. Who calls is named by any bytes; one
//! constant name makes one bucket for all. The surprising thing: a token that was taken stays taken until it is given back, so
//! whoever forgets about it errs on the strict side.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::store_observer::store_observer;
use crate::bucket::{Admission, Key, Op, Receipt, Span, Spec, Time, Verdict};
use crate::event::Events;
use crate::policy::key::KeyHasher;
use crate::store::memory::{BucketKey, Buckets, TooLarge};
use crate::store::shared::{
    Mirror, OnError, SharedStore, StoreOp, StoreOptions, StoreStartError, Unavailable,
};
use crate::store::{Namespace, StoreAddress};
use crate::time::Clock;

/// Limits that keep their buckets in one store: the engine without the proxy.
///
/// Open a store once, make a [`Limiter`] for each limit, and [`take`](Limiter::take) a token before each call. A limiter is
/// cheap to clone, and each key has a bucket of its own: name the caller of incoming calls; outgoing calls have one key.
///
/// ```
/// use tollgate::bucket::{Continuous, Span, Spec};
/// use tollgate::engine::Limits;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // Or "redis://127.0.0.1:6379", and whatever else a gate's `store.url` may be.
/// let limits = Limits::open(&"memory:".parse()?)?;
/// // Ten tokens a minute, into a bucket that holds three.
/// let rate = Continuous::new(10, Span::from_secs(60), 3)?;
///
/// // An incoming call is refused, and told when to come back.
/// let incoming = limits.limiter("incoming", Spec::Continuous(rate))?;
/// let call = incoming.take("anna", 1).await?;
/// if !call.is_admitted() {
///     println!("too many calls, come back in {:?}", call.wait().map(|wait| wait.to_std()));
/// }
///
/// // An outgoing call waits: up to five seconds in line behind the others, and not at all beyond that.
/// let outgoing = limits.limiter("outgoing", Spec::Continuous(rate.with_hold(Span::from_secs(5))?))?;
/// let call = outgoing.take("api.example.com", 1).await?;
/// if call.is_admitted() {
///     tokio::time::sleep(call.wait().unwrap_or_default().to_std()).await;
///     // Call. What was not called after all is given back.
///     outgoing.give_back(call);
/// }
/// # Ok(())
/// # })
/// # }
/// ```
///
/// Processes share a bucket if they have the same store, the same [`Namespace`] and secret
/// ([`open_as`](Self::open_as); both are constant with [`open`](Self::open)), the same name of the limit, and the same key.
/// A gate's buckets are others, whatever its limits are called.
///
/// In memory everything is decided at once. A shared store is asked from a thread of its own; if it does not answer within
/// 50 ms, or the time that [`StoreOptions`] says, the process decides alone, as if nobody shared its buckets, until the store is
/// back. PostgreSQL, MySQL and DynamoDB need a table first: `tollgate migrate` makes it.
#[derive(Debug, Clone)]
pub struct Limits {
    shared: Option<Arc<SharedStore>>,
    clock: Clock,
    hasher: KeyHasher,
    capacity: usize,
}

/// One limit.
#[derive(Debug, Clone)]
pub struct Limiter {
    spec: Spec,
    buckets: Arc<Buckets>,
    mirror: Option<(Arc<SharedStore>, Arc<Mirror>)>,
    clock: Clock,
    key_hasher: SipHasher13,
}

/// What a limit said to a call, and what is needed to give back what it took.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct TakeOutcome {
    /// What the bucket said.
    pub verdict: Verdict,
    bucket: BucketKey,
    is_local: bool,
}

impl Limits {
    /// Over this store, with everything as where a gate's file says nothing.
    ///
    /// # Errors
    /// [`StoreStartError`] if the store cannot be used; whether it is there shows later.
    pub fn open(address: &StoreAddress) -> Result<Self, StoreStartError> {
        Self::open_as(address, &Namespace::default(), b"", StoreOptions::default(), Events::default())
    }

    /// The same under a name and a secret of one's own, which all processes that share the buckets have to share, used like
    /// this; `events` hears how the store does.
    ///
    /// # Errors
    /// [`StoreStartError`] as above.
    pub fn open_as(
        address: &StoreAddress,
        names: &Namespace,
        secret: &[u8],
        manner: StoreOptions,
        events: Events,
    ) -> Result<Self, StoreStartError> {
        let clock = Clock::system();
        let open = || SharedStore::start(address, names, manner, clock.clone(), store_observer(events));
        let shared = address.is_shared().then(open).transpose()?;
        let hasher = match &shared {
            Some(_) => KeyHasher::of_installation(names.as_str(), secret),
            None => KeyHasher::default(),
        };
        Ok(Self { shared, clock, hasher, capacity: DEFAULT_CAPACITY })
    }

    /// The same with room for so many buckets in memory for each limit.
    #[must_use]
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ..self }
    }

    /// A limit of this name: processes that share a store share the buckets of limits of the same name.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn limiter(&self, name: &str, spec: Spec) -> Result<Limiter, TooLarge> {
        let buckets = Arc::new(Buckets::new(self.capacity, &[spec])?);
        let mirror = match &self.shared {
            Some(shared) => Some((Arc::clone(shared), Arc::new(Mirror::new(&name.into(), &buckets)?))),
            None => None,
        };
        let names = self.hasher.of_limit(name);
        Ok(Limiter { spec, buckets, mirror, clock: self.clock.clone(), key_hasher: names })
    }

    /// The store, if it is shared.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<SharedStore>> {
        self.shared.as_ref()
    }
}

impl Limiter {
    /// Takes this many tokens of the bucket of this key, or none. Over a shared store it needs a tokio runtime with time.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is away and [`OnError::Deny`] was asked for.
    pub async fn take(&self, key: impl AsRef<[u8]>, tokens: u32) -> Result<TakeOutcome, Unavailable> {
        let place = self.bucket_key(key.as_ref());
        let op = Op::Take(tokens);
        let Some((shared, mirror)) = &self.mirror else {
            return Ok(TakeOutcome {
                verdict: self.apply_in_memory(place, self.clock.now(), op),
                bucket: place,
                is_local: true,
            });
        };
        let now = shared.now();
        let known = self.buckets.peek(&place, now, tokens);
        if !known.is_admitted() && !self.spec.has_debt() && mirror.is_fresh(&place, now) {
            return Ok(TakeOutcome { verdict: known, bucket: place, is_local: true });
        }
        match (shared.call(mirror, place, StoreOp::Step(op)).await, shared.on_error()) {
            (Ok(said), _) => Ok(TakeOutcome { verdict: said.verdict, bucket: place, is_local: false }),
            (Err(Unavailable), OnError::Local) => Ok(TakeOutcome {
                verdict: self.apply_in_memory(place, shared.now(), op),
                bucket: place,
                is_local: true,
            }),
            (Err(Unavailable), OnError::Allow) => {
                Ok(TakeOutcome { verdict: unlimited_verdict(now), bucket: place, is_local: true })
            }
            (Err(Unavailable), OnError::Deny) => Err(Unavailable),
        }
    }

    /// What [`take`](Self::take) would say, asked of the store itself; takes nothing.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is away.
    pub async fn peek(&self, key: impl AsRef<[u8]>, tokens: u32) -> Result<Verdict, Unavailable> {
        let place = self.bucket_key(key.as_ref());
        match &self.mirror {
            None => Ok(self.apply_in_memory(place, self.clock.now(), Op::Peek(tokens))),
            Some((shared, mirror)) => {
                shared.call(mirror, place, StoreOp::Step(Op::Peek(tokens))).await.map(|said| said.verdict)
            }
        }
    }

    /// Gives back what a call took, as if it had never been made: at once in memory, soon in a shared store.
    pub fn refund(&self, taken: TakeOutcome) {
        let op = Op::Refund(taken.verdict.receipt);
        match &self.mirror {
            Some((shared, mirror)) if !taken.is_local => {
                shared.enqueue(mirror, taken.bucket, StoreOp::Step(op))
            }
            Some((shared, _)) => drop(self.apply_in_memory(taken.bucket, shared.now(), op)),
            None => drop(self.apply_in_memory(taken.bucket, self.clock.now(), op)),
        }
    }

    fn apply_in_memory(&self, place: BucketKey, now: Time, op: Op) -> Verdict {
        // Nobody ever closes these buckets.
        self.buckets.apply(&place, now, op).unwrap_or_else(|_| unlimited_verdict(now))
    }

    fn bucket_key(&self, key: &[u8]) -> BucketKey {
        let mut names = self.key_hasher;
        names.write(key);
        BucketKey { key: Key(names.finish128().as_u128()), class: 0, spec: self.spec }
    }
}

impl TakeOutcome {
    /// Whether the call may be made, now or after having been held.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// How long to wait before the call is made, or before it is tried again; `None` if it can never fit.
    #[must_use]
    pub fn wait(&self) -> Option<Span> {
        match self.verdict.admission {
            Admission::Admitted => Some(Span::ZERO),
            Admission::Held { hold } => Some(hold),
            Admission::Refused { wait } => Some(wait),
            Admission::NeverFits => None,
        }
    }
}

/// A call that nobody counts.
fn unlimited_verdict(now: Time) -> Verdict {
    let (answer, receipt) = (Admission::Admitted, Receipt::default());
    Verdict { admission: answer, left: 0, next_token: Span::ZERO, full_at: now, receipt }
}

const DEFAULT_CAPACITY: usize = 1_000_000;
