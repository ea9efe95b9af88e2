//! The store of a process: its own memory, or a database that several gates share.
//!
//! Only this module knows which of the two it is. In memory a verdict comes at once. Over a database the buckets in
//! memory are its mirror: they refuse at once what they know to be empty, and decide alone while the database does not
//! answer; all other verdicts are [pending](PendingTake). The table is left to [`memory`](crate::memory), the calls to
//! [`shared`](crate::shared).

mod change;
mod take;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use self::change::{BucketChange, BucketChangeError};
pub use self::take::{DecidedBy, LimitWithdrawal, PendingTake, TakeState};

use crate::memory::{BucketKey, Buckets, BucketsSnapshot, RestoreError, TooLarge};
use crate::shared::{Mirror, SharedStore, StoreCall, StoreObserver, StoreOp, StoreOptions, StoreStartError};
use crate::{Namespace, StoreAddress};
use tollgate_base::time::Clock;
use tollgate_bucket::{Op, Spec, Time};

/// Where the buckets of all limits are.
#[derive(Debug, Clone)]
pub struct Store {
    clock: Clock,
    capacity: usize,
    database: Option<Arc<SharedStore>>,
    /// Whether another process decides by a snapshot of these buckets.
    frozen: Arc<AtomicBool>,
}

/// The buckets of one limit.
#[derive(Debug, Clone)]
pub struct LimitBuckets {
    buckets: Arc<Buckets>,
    /// Over a database: what this process last saw there. Then `buckets` belong to the mirror. `None` if no other process
    /// shares the buckets.
    mirror: Option<Arc<Mirror>>,
}

impl Store {
    /// A store in the memory of this process, with at most `capacity` buckets for each limit.
    #[must_use]
    pub fn in_memory(capacity: usize, clock: Clock) -> Self {
        Self { clock, capacity, database: None, frozen: Arc::default() }
    }

    /// The store at this address, with at most `capacity` buckets in memory for each limit.
    ///
    /// # Errors
    /// [`StoreStartError`] if the store cannot be used. A database that does not answer is not an error here: the first
    /// calls show it.
    pub fn open(
        address: &StoreAddress,
        namespace: &Namespace,
        options: StoreOptions,
        capacity: usize,
        clock: Clock,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<Self, StoreStartError> {
        let start = || SharedStore::start(address, namespace, options, clock.clone(), observer);
        let database = address.is_shared().then(start).transpose()?;
        Ok(Self { database, ..Self::in_memory(capacity, clock) })
    }

    /// A store over a database that has been started.
    #[cfg(test)]
    pub(crate) fn over(database: Arc<SharedStore>, capacity: usize, clock: Clock) -> Self {
        Self { database: Some(database), ..Self::in_memory(capacity, clock) }
    }

    /// The same store with at most `capacity` buckets in memory for each limit that is made from now on; at least 1.
    #[must_use]
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ..self }
    }

    /// The clock of this process.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time by which the store decides, when the clock of this process shows `own`.
    #[must_use]
    pub fn time(&self, own: Time) -> Time {
        self.database.as_ref().map_or(own, |database| database.time(own))
    }

    /// The present time by which the store decides.
    #[must_use]
    pub fn now(&self) -> Time {
        self.time(self.clock.now())
    }

    /// Whether the store answers, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.database.as_ref().is_none_or(|database| database.is_up())
    }

    /// Whether the buckets are lost with this process unless they are handed over.
    #[must_use]
    pub fn ends_with_process(&self) -> bool {
        self.database.is_none()
    }

    /// Waits until all refunds have reached the database, at most this long.
    pub async fn flush(&self, timeout: Duration) {
        if let Some(database) = &self.database {
            database.flush(timeout).await;
        }
    }

    /// The database that several gates share; `None` if the buckets are in memory.
    #[must_use]
    pub fn database(&self) -> Option<&Arc<SharedStore>> {
        self.database.as_ref()
    }

    /// New buckets for a limit with these specs, one for each class of clients.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn limit(&self, name: &Arc<str>, specs: &[Spec]) -> Result<LimitBuckets, TooLarge> {
        self.with_mirror(name, Buckets::new(self.capacity, specs)?)
    }

    /// New buckets that stay in the memory of this process, also over a database.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn own_limit(&self, specs: &[Spec]) -> Result<LimitBuckets, TooLarge> {
        Ok(LimitBuckets { buckets: Arc::new(Buckets::new(self.capacity, specs)?), mirror: None })
    }

    /// The buckets of a changed limit, as [`Buckets::changed`] converts them, in the same place.
    ///
    /// # Errors
    /// [`TooLarge`] if there is not enough address space.
    pub fn changed(
        &self,
        old: &LimitBuckets,
        (name, specs): (&Arc<str>, &[Spec]),
        classes: Vec<Option<(usize, Spec)>>,
        now: Time,
    ) -> Result<LimitBuckets, TooLarge> {
        let buckets = old.buckets.changed(self.capacity, specs, classes, now)?;
        match old.mirror {
            Some(_) => self.with_mirror(name, buckets),
            None => Ok(LimitBuckets { buckets: Arc::new(buckets), mirror: None }),
        }
    }

    /// The buckets of a snapshot of a limit with these specs.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub fn restored(
        &self,
        name: &Arc<str>,
        snapshot: &BucketsSnapshot,
        specs: &[Spec],
    ) -> Result<LimitBuckets, RestoreError> {
        Ok(self.with_mirror(name, Buckets::from_snapshot(snapshot, self.capacity, specs)?)?)
    }

    fn with_mirror(&self, name: &Arc<str>, buckets: Buckets) -> Result<LimitBuckets, TooLarge> {
        let buckets = Arc::new(buckets);
        let mirror = self.database.as_ref().map(|_| Mirror::new(name, &buckets).map(Arc::new)).transpose()?;
        Ok(LimitBuckets { buckets, mirror })
    }

    /// Runs operations on buckets for which `by` has decided: at once in memory, soon in a database. Nothing is done to
    /// a limit that was changed meanwhile, which errs on the strict side.
    pub fn apply<'b>(&self, by: DecidedBy, ops: impl IntoIterator<Item = (&'b LimitBuckets, BucketKey, Op)>) {
        let in_memory = |buckets: &Buckets, bucket, op| {
            let _ = buckets.apply(&bucket, self.now(), op);
        };
        let Some(database) = self.database.as_ref().filter(|_| by == DecidedBy::Database) else {
            return ops.into_iter().for_each(|(limit, bucket, op)| in_memory(&limit.buckets, bucket, op));
        };
        database.enqueue(ops.into_iter().filter_map(|(limit, bucket, op)| {
            let mirror = limit.mirror.as_ref();
            if mirror.is_none() {
                in_memory(&limit.buckets, bucket, op);
            }
            Some(StoreCall { mirror: mirror?, bucket, op: StoreOp::Step(op) })
        }));
    }

    /// Stops taking, refunding and adding tokens, since a new process decides by a snapshot of these limits. Refusals
    /// that write nothing go on. Does nothing over a database, where both processes may decide.
    pub fn freeze(&self, limits: &[LimitBuckets]) {
        if self.ends_with_process() {
            self.frozen.store(true, Ordering::SeqCst);
            limits.iter().for_each(LimitBuckets::close);
        }
    }

    /// Goes on deciding: the new process did not take over.
    pub fn thaw(&self, limits: &[LimitBuckets]) {
        if self.is_frozen() {
            limits.iter().for_each(|limit| limit.buckets.open());
            self.frozen.store(false, Ordering::SeqCst);
        }
    }

    /// Whether another process decides.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    fn database_of<'a>(&'a self, limit: &'a LimitBuckets) -> Option<(&'a Arc<SharedStore>, &'a Arc<Mirror>)> {
        self.database.as_ref().zip(limit.mirror.as_ref())
    }
}

impl LimitBuckets {
    /// The buckets in memory; over a database, those of the mirror.
    #[must_use]
    pub fn in_memory(&self) -> &Arc<Buckets> {
        &self.buckets
    }

    /// Whether both are the same buckets, and not only buckets of the same limit.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buckets, &other.buckets)
    }

    /// Closes the buckets: other buckets take over. A mirror stays open, since the database keeps what it decides.
    pub fn close(&self) {
        if self.mirror.is_none() {
            self.buckets.close();
        }
    }
}

impl AsRef<Buckets> for LimitBuckets {
    fn as_ref(&self) -> &Buckets {
        &self.buckets
    }
}
