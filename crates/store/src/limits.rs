//! Limits without a proxy: for programs that limit their own calls, incoming or outgoing.
//!
//! The arithmetic and the stores are those of the gate; there are no routes, no policy and no HTTP. Any bytes may name
//! the caller; one constant key makes one bucket for all callers. A taken token stays taken until the program refunds
//! it: a forgotten refund errs on the strict side.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::memory::{BucketKey, Stale, TooLarge, Withdrawal};
use crate::shared::{
    AvailabilityChange, CallStatus, StoreObserver, StoreOptions, StoreStartError, Unavailable,
};
use crate::{DecidedBy, LimitBuckets, Namespace, Store, StoreAddress, TakeState};
use tollgate_base::time::Clock;
use tollgate_bucket::{Admission, Effect, Key, Op, Receipt, Span, Spec, Time, Verdict};

/// Limits that keep their buckets in one store: the engine without the proxy.
///
/// Open a store once, make a [`Limiter`] for each limit, and [`take`](Limiter::take) a token before each call. A
/// limiter is cheap to clone, and each key has its own bucket: for incoming calls the key names the caller; outgoing
/// calls have one key for each service.
///
/// ```
/// use tollgate_bucket::{Continuous, Span, Spec};
/// use tollgate_store::Limits;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // Or "redis://127.0.0.1:6379", or any other value of a gate's `store.url`.
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
///     // Make the call; or, if it is not made after all, refund its token.
///     outgoing.refund(call);
/// }
/// # Ok(())
/// # })
/// # }
/// ```
///
/// Processes share a bucket if they have the same store, the same [`Namespace`] and secret
/// ([`open_as`](Self::open_as); both are constant with [`open`](Self::open)), the same name of the limit, and the same
/// key. They never share buckets with a gate, even if limits have the same names.
///
/// In memory every call is decided at once. A shared store is called from its own thread; if it does not reply
/// within 50 ms, or the time in [`StoreOptions`], the process decides by its own memory until the store is available
/// again. PostgreSQL, MySQL and DynamoDB need a table first: `tollgate migrate` makes it.
#[derive(Debug, Clone)]
pub struct Limits {
    store: Store,
    hasher: SipHasher13,
}

/// One limit.
#[derive(Debug, Clone)]
pub struct Limiter {
    spec: Spec,
    store: Store,
    buckets: LimitBuckets,
    key_hasher: SipHasher13,
}

/// The decision on a call, and what a refund needs.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct TakenTokens {
    /// The verdict of the bucket.
    pub verdict: Verdict,
    bucket: BucketKey,
    decided_by: DecidedBy,
}

impl Limits {
    /// Opens a store with the defaults of a gate's file.
    ///
    /// # Errors
    /// [`StoreStartError`] if the store cannot be used. A store that does not reply is not an error here: the first
    /// calls show it.
    pub fn open(address: &StoreAddress) -> Result<Self, StoreStartError> {
        Self::open_as(address, &Namespace::default(), b"", StoreOptions::default(), Arc::new(Unobserved))
    }

    /// As [`open`](Self::open), with a namespace and a secret, which have to be the same in all processes that share
    /// the buckets, with options, and with an observer of the store's events.
    ///
    /// # Errors
    /// [`StoreStartError`] as above.
    pub fn open_as(
        address: &StoreAddress,
        namespace: &Namespace,
        secret: &[u8],
        options: StoreOptions,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<Self, StoreStartError> {
        let clock = Clock::system();
        let store = Store::open(address, namespace, options, DEFAULT_CAPACITY, clock, observer)?;
        let [one, two] = namespace.key_secret(secret);
        Ok(Self { store, hasher: SipHasher13::new_with_keys(one, two) })
    }

    /// The same limits with at most `capacity` buckets in memory for each limit; at least 1.
    #[must_use]
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { store: self.store.with_capacity(capacity), ..self }
    }

    /// A limit with this name. Processes that share a store share the buckets of limits with the same name.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn limiter(&self, name: &str, spec: Spec) -> Result<Limiter, TooLarge> {
        let buckets = self.store.limit(&name.into(), &[spec])?;
        let mut key_hasher = self.hasher;
        key_hasher.write_u8(b'L');
        key_hasher.write_usize(name.len());
        key_hasher.write(name.as_bytes());
        Ok(Limiter { spec, store: self.store.clone(), buckets, key_hasher })
    }

    /// The store with the buckets.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Limiter {
    /// Takes this number of tokens from the bucket of this key, or none. A shared store needs a tokio runtime with
    /// time.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is unavailable and its option is [`Deny`](crate::shared::OnError::Deny).
    pub async fn take(&self, key: impl AsRef<[u8]>, tokens: u32) -> Result<TakenTokens, Unavailable> {
        let bucket = self.bucket_key(key.as_ref());
        let wanted = [Withdrawal {
            buckets: &self.buckets,
            bucket,
            cost: tokens,
            tag: None,
            effect: Effect::Enforce { owner: 0 },
        }];
        let now = self.store.now();
        let (combined, decided_by) = match self.store.take(&wanted, now) {
            Ok(TakeState::Done(verdict)) => (verdict, DecidedBy::Memory),
            Ok(TakeState::Pending(pending)) => pending.wait(&wanted, |on_error| on_error).await?,
            // Only an engine closes buckets, and never those of a limiter.
            Err(Stale) => return Err(Unavailable),
        };
        let verdict = combined.verdicts.first().copied().unwrap_or_else(|| uncounted(now));
        Ok(TakenTokens { verdict, bucket, decided_by })
    }

    /// The verdict that [`take`](Self::take) would give, from the store itself; takes nothing.
    ///
    /// # Errors
    /// [`Unavailable`] if the store is unavailable.
    pub async fn peek(&self, key: impl AsRef<[u8]>, tokens: u32) -> Result<Verdict, Unavailable> {
        let (verdict, _) = self.store.inspect(&self.buckets, self.bucket_key(key.as_ref()), tokens).await?;
        Ok(verdict)
    }

    /// Refunds what a call took, as if it had never been made: at once in memory, soon in a shared store.
    pub fn refund(&self, taken: TakenTokens) {
        let TakenTokens { verdict, bucket, decided_by } = taken;
        self.store.apply(decided_by, [(&self.buckets, bucket, Op::Refund(verdict.receipt))]);
    }

    fn bucket_key(&self, key: &[u8]) -> BucketKey {
        let mut hasher = self.key_hasher;
        hasher.write(key);
        BucketKey { key: Key(hasher.finish128().as_u128()), class: 0, spec: self.spec }
    }
}

impl TakenTokens {
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

/// The verdict on a call that is not counted.
fn uncounted(now: Time) -> Verdict {
    let (admission, receipt) = (Admission::Admitted, Receipt::default());
    Verdict { admission, left: 0, next_token: Span::ZERO, full_at: now, receipt }
}

/// An observer that ignores all notifications.
struct Unobserved;

impl StoreObserver for Unobserved {
    fn call_finished(&self, _result: CallStatus, _took: Span) {}

    fn availability_changed(&self, _change: &AvailabilityChange<'_>) {}

    fn availability_reported(&self, _change: &AvailabilityChange<'_>) {}

    fn warned(&self, _what: &str) {}
}

const DEFAULT_CAPACITY: usize = 1_000_000;
