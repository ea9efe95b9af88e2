//! Takes the tokens of an attempt from all of its buckets, or from none.
//!
//! Over a database: if the mirror refuses, so does the store, at once. If the mirror's entry is older than a second, one
//! of the refusing buckets is first checked again in the database. A bucket of a limit that refuses most attempts lately
//! is called before the others, since taking and giving back would cost more than that. All other attempts go there: all
//! buckets are called at the same time, so that an attempt waits for the slowest call, not for the sum; if one refuses,
//! the others get their tokens back. Meanwhile another attempt may see one token too few, never one too many.
//!
//! Buckets that no other gate shares are taken from at once when the database has admitted the attempt.
//!
//! For refusals by the mirror, debt is counted here first and reaches the database with the next call: a client that is
//! refused a thousand times a second does not cause a thousand calls.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{LimitBuckets, Store};
use crate::memory::{
    BucketKey, CombinedVerdict, Stale, TimeAt, Withdrawal, gives, refuse_all, refuse_all_at, take_all,
    take_all_at,
};
use crate::shared::{Mirror, OnError, ReplyFuture, SharedStore, StoreCall, StoreOp, StoreReply, Unavailable};
use tollgate_bucket::{Op, Receipt, Time, Verdict};

/// Tokens wanted from one bucket of a limit, as part of an attempt.
pub type LimitWithdrawal<'b> = Withdrawal<'b, LimitBuckets>;

/// What decided on an attempt, and gets its refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// The memory of this process; it may be the mirror of a database.
    Memory,
    /// A database that several gates share.
    Database,
}

/// The first step of taking tokens.
#[derive(Debug)]
#[must_use]
pub enum TakeState {
    /// The memory of this process gave the verdict.
    Done(CombinedVerdict),
    /// The verdict waits for the database.
    Pending(PendingTake),
}

/// An attempt that waits for the database.
#[must_use]
pub struct PendingTake {
    database: Arc<SharedStore>,
    calls: StoreCalls,
}

/// The calls to the database.
enum StoreCalls {
    /// Asks first the bucket at this position, which may refuse, and takes its tokens if this says so.
    First(usize, bool, ReplyFuture),
    /// Takes the tokens from all buckets.
    Take(ReplyFutures),
}

type ReplyFutures = SmallVec<[ReplyFuture; 2]>;

impl Store {
    /// Takes from all buckets or from none. `now` is the [time](Store::time) of the store.
    ///
    /// # Errors
    /// [`Stale`] if one of the limits was changed meanwhile; nothing was taken.
    pub fn take(&self, withdrawals: &[LimitWithdrawal<'_>], now: Time) -> Result<TakeState, Stale> {
        let Some(database) = &self.database else {
            return take_all_at(withdrawals, &|_| now).map(TakeState::Done);
        };
        let now: TimeAt<'_> = &|key| database.time_at(key, now);
        Ok(match refuse_at_once(database, withdrawals, now) {
            Some(verdict) => TakeState::Done(verdict),
            None if withdrawals.iter().all(is_own) => {
                return take_all_at(withdrawals, now).map(TakeState::Done);
            }
            None => TakeState::Pending(PendingTake::new(database, withdrawals, now)),
        })
    }

    /// Refuses as [`take`](Self::take) would without waiting; `None` if it would admit or wait. Then nothing was taken.
    ///
    /// # Errors
    /// [`Stale`] if one of the limits was changed meanwhile.
    pub fn refuse(
        &self,
        withdrawals: &[LimitWithdrawal<'_>],
        now: Time,
    ) -> Result<Option<CombinedVerdict>, Stale> {
        match &self.database {
            None => refuse_all(withdrawals, now),
            Some(database) => Ok(refuse_at_once(database, withdrawals, &|key| database.time_at(key, now))),
        }
    }

    /// Whether the database need not be asked for a bucket: it was a moment ago, or there is none.
    #[must_use]
    pub fn has_fresh(&self, limit: &LimitBuckets, bucket: &BucketKey, now: Time) -> bool {
        let with_database = self.database_of(limit);
        with_database
            .is_none_or(|(database, mirror)| mirror.is_fresh(bucket, database.time_at(bucket.key, now)))
    }

    /// Asks the database for the verdict of an operation; `None` if there is none.
    #[must_use]
    pub fn ask(&self, limit: &LimitBuckets, bucket: BucketKey, op: Op) -> Option<ReplyFuture> {
        let (database, mirror) = self.database_of(limit)?;
        Some(Box::pin(database.call(mirror, bucket, StoreOp::Step(op))))
    }

    /// Runs one operation on a bucket for which `by` has decided, and returns its verdict; `None` if the limit was
    /// changed meanwhile or the database does not answer.
    pub async fn apply_and_wait(
        &self,
        withdrawal: &LimitWithdrawal<'_>,
        by: DecidedBy,
        op: Op,
    ) -> Option<Verdict> {
        let Withdrawal { buckets: limit, bucket, .. } = withdrawal;
        match (self.database_of(limit), by) {
            (Some((database, mirror)), DecidedBy::Database) => {
                Some(database.call(mirror, *bucket, StoreOp::Step(op)).await.ok()?.verdict)
            }
            _ => limit.buckets.apply(bucket, self.now(), op).ok(),
        }
    }
}

impl PendingTake {
    fn new(database: &Arc<SharedStore>, withdrawals: &[LimitWithdrawal<'_>], now: TimeAt<'_>) -> Self {
        // The oldest entry first, so that each bucket has its turn.
        let oldest = refusing(database, withdrawals, now)
            .min_by_key(|(_, withdrawal, mirror)| mirror.seen_at(&withdrawal.bucket));
        let is_known = oldest.is_some();
        let calls = match oldest.or_else(|| refusing_most(database, withdrawals, now)) {
            Some((at, withdrawal, mirror)) => {
                let takes = !is_known && database.takes_untried(&withdrawal.bucket.spec);
                let op = StoreOp::Step(if takes { withdrawal.take() } else { withdrawal.peek() });
                StoreCalls::First(at, takes, Box::pin(database.call(mirror, withdrawal.bucket, op)))
            }
            None => StoreCalls::Take(call_all(database, withdrawals, None)),
        };
        Self { database: Arc::clone(database), calls }
    }

    /// Waits for the database, and decides without it if it does not answer. The withdrawals are those of the start; an
    /// attempt that is not counted ([`OnError::Allow`]) has no verdict of any bucket. `on_error` says what happens then,
    /// by the option of the database.
    ///
    /// # Errors
    /// [`Unavailable`] if the database does not answer and `on_error` says [`OnError::Deny`].
    pub async fn wait(
        self,
        withdrawals: &[LimitWithdrawal<'_>],
        on_error: impl Fn(OnError) -> OnError,
    ) -> Result<(CombinedVerdict, DecidedBy), Unavailable> {
        let Self { database, calls } = self;
        let (first, calls) = match calls {
            StoreCalls::Take(calls) => (None, calls),
            StoreCalls::First(at, takes, call) => match call.await {
                Err(Unavailable) => {
                    return Ok((decide_without(&database, withdrawals, &on_error)?, DecidedBy::Memory));
                }
                Ok(reply) => {
                    let taken = (takes && reply.verdict.is_admitted()).then_some((at, reply));
                    if taken.is_none()
                        && let Some(verdict) = refuse_after(&database, withdrawals, at, &reply.verdict)
                    {
                        return Ok((verdict, DecidedBy::Memory));
                    }
                    (taken, call_all(&database, withdrawals, taken.map(|(at, _)| at)))
                }
            },
        };
        let mut replies: SmallVec<[Result<StoreReply, Unavailable>; 2]> = SmallVec::new();
        for call in calls {
            // All calls run already: waiting for one after the other takes as long as the slowest.
            replies.push(call.await);
        }
        if let Some((at, reply)) = first {
            let before = withdrawals.iter().take(at).filter(|withdrawal| !is_own(withdrawal)).count();
            replies.insert(before, Ok(reply));
        }
        let verdicts: Result<SmallVec<[Verdict; 2]>, _> =
            replies.iter().map(|reply| reply.map(|reply| reply.verdict)).collect();
        match verdicts {
            Ok(verdicts) => {
                let verdicts = with_own(&database, withdrawals, verdicts);
                Ok((all_or_none(&database, withdrawals, verdicts), DecidedBy::Database))
            }
            Err(Unavailable) => {
                let both = withdrawals.iter().filter(|withdrawal| !is_own(withdrawal)).zip(&replies);
                let given_back =
                    both.filter_map(|(withdrawal, reply)| refund(withdrawal, &reply.ok()?.verdict));
                database.enqueue(given_back);
                Ok((decide_without(&database, withdrawals, &on_error)?, DecidedBy::Memory))
            }
        }
    }
}

/// Whether no other gate shares the bucket.
fn is_own(withdrawal: &LimitWithdrawal<'_>) -> bool {
    withdrawal.buckets.mirror.is_none()
}

/// Adds the verdicts of the buckets that no other gate shares. They are taken from if the database admits the attempt.
fn with_own(
    database: &SharedStore,
    withdrawals: &[LimitWithdrawal<'_>],
    of_database: SmallVec<[Verdict; 2]>,
) -> SmallVec<[Verdict; 2]> {
    let own: SmallVec<[LimitWithdrawal<'_>; 1]> =
        withdrawals.iter().filter(|withdrawal| is_own(withdrawal)).copied().collect();
    if own.is_empty() {
        return of_database;
    }
    let mut shared = withdrawals.iter().filter(|withdrawal| !is_own(withdrawal)).zip(&of_database);
    let is_admitted = shared.all(|(shared, verdict)| !shared.effect.is_enforced() || verdict.is_admitted());
    let now = database.now();
    let taken = is_admitted.then(|| take_all(&own, now).ok()).flatten();
    // Nothing is taken, so nothing may come back. A limit that was changed meanwhile counts nothing.
    let peek = |own: &LimitWithdrawal<'_>| own.buckets.buckets.dry_run(&own.bucket, now, own.peek()).verdict;
    let look = || own.iter().map(|own| Verdict { receipt: Receipt::default(), ..peek(own) });
    let mut own = taken.map_or_else(|| look().collect(), |taken| taken.verdicts).into_iter();
    let mut shared = of_database.into_iter();
    let next = |withdrawal| if is_own(withdrawal) { own.next() } else { shared.next() };
    withdrawals.iter().filter_map(next).collect()
}

/// The verdict on the attempt; if it is refused, the buckets that admitted it get their tokens back.
fn all_or_none(
    database: &Arc<SharedStore>,
    withdrawals: &[LimitWithdrawal<'_>],
    mut verdicts: SmallVec<[Verdict; 2]>,
) -> CombinedVerdict {
    note(withdrawals.iter().zip(&verdicts));
    let mut both = withdrawals.iter().zip(&verdicts);
    let admitted =
        !both.any(|(withdrawal, verdict)| withdrawal.effect.is_enforced() && !verdict.is_admitted());
    let gives = gives(withdrawals, |at| verdicts.get(at).is_some_and(Verdict::is_admitted));
    let mut refunds: SmallVec<[StoreCall<'_>; 2]> = SmallVec::new();
    for ((withdrawal, verdict), gives) in withdrawals.iter().zip(&mut verdicts).zip(gives) {
        if verdict.is_admitted() && !gives {
            if is_own(withdrawal) {
                let _ = withdrawal.buckets.buckets.apply(
                    &withdrawal.bucket,
                    database.now(),
                    Op::Refund(verdict.receipt),
                );
            }
            refunds.extend(refund(withdrawal, verdict));
            verdict.left = verdict.left.saturating_add(verdict.receipt.tokens);
            verdict.receipt.tokens = 0;
        }
    }
    database.enqueue(refunds);
    CombinedVerdict { admitted, verdicts }
}

/// Keeps in mind how many attempts each limit refuses.
fn note<'a, 'b: 'a>(verdicts: impl Iterator<Item = (&'a LimitWithdrawal<'b>, &'a Verdict)>) {
    for (withdrawal, verdict) in verdicts {
        if let Some(mirror) = &withdrawal.buckets.mirror {
            mirror.note(verdict.is_admitted());
        }
    }
}

/// The database does not answer: decides as `on_error` says.
fn decide_without(
    database: &SharedStore,
    withdrawals: &[LimitWithdrawal<'_>],
    on_error: impl Fn(OnError) -> OnError,
) -> Result<CombinedVerdict, Unavailable> {
    let is_enforced = withdrawals.iter().any(|withdrawal| withdrawal.effect.is_enforced());
    let on_error = match on_error(database.on_error()) {
        // What only observes refuses nothing.
        OnError::Deny if !is_enforced => OnError::Local,
        on_error => on_error,
    };
    database.observer().fell_back(on_error);
    match on_error {
        OnError::Deny => Err(Unavailable),
        OnError::Allow => Ok(CombinedVerdict { admitted: true, verdicts: SmallVec::new() }),
        // The buckets of a mirror are never closed.
        OnError::Local => {
            let now = database.now();
            take_all_at(withdrawals, &|key| database.time_at(key, now)).map_err(|Stale| Unavailable)
        }
    }
}

/// Refuses by a bucket that no other gate shares, or by the mirrors; of these it tells the observer.
fn refuse_at_once(
    database: &SharedStore,
    withdrawals: &[LimitWithdrawal<'_>],
    now: TimeAt<'_>,
) -> Option<CombinedVerdict> {
    let refuses = |own: &LimitWithdrawal<'_>| {
        own.effect.is_enforced() && !own.dry_run(now(own.bucket.key)).verdict.is_admitted()
    };
    if withdrawals.iter().filter(|withdrawal| is_own(withdrawal)).any(refuses) {
        return refuse_all_at(withdrawals, now).ok()?;
    }
    let (mirror, verdict) = refuse_by_mirror(database, withdrawals, now)?;
    database.observer().refused_by_mirror(mirror.limit());
    Some(verdict)
}

/// Refuses by the mirrors once the bucket at this position was asked; `None` if no fresh entry refuses.
fn refuse_after(
    database: &SharedStore,
    withdrawals: &[LimitWithdrawal<'_>],
    at: usize,
    verdict: &Verdict,
) -> Option<CombinedVerdict> {
    note(withdrawals.get(at).into_iter().zip([verdict]));
    let now = database.now();
    let refused = refuse_by_mirror(database, withdrawals, &|key| database.time_at(key, now));
    refused.map(|(_, verdict)| verdict)
}

/// Refuses by the mirrors; `None` if no fresh entry refuses. Also returns the mirror that refused.
fn refuse_by_mirror<'b>(
    database: &SharedStore,
    withdrawals: &[LimitWithdrawal<'b>],
    now: TimeAt<'_>,
) -> Option<(&'b Arc<Mirror>, CombinedVerdict)> {
    let is_fresh = |(_, withdrawal, mirror): &(usize, &LimitWithdrawal<'b>, &Arc<Mirror>)| {
        mirror.is_fresh(&withdrawal.bucket, now(withdrawal.bucket.key))
    };
    let (_, _, mirror) = refusing(database, withdrawals, now).find(is_fresh)?;
    // The buckets of a mirror are never closed.
    Some((mirror, refuse_all_at(withdrawals, now).ok()??))
}

/// The withdrawal of the limit that refuses most attempts, unless its bucket was seen a moment ago.
fn refusing_most<'w, 'b>(
    database: &SharedStore,
    withdrawals: &'w [LimitWithdrawal<'b>],
    now: TimeAt<'_>,
) -> Option<(usize, &'w LimitWithdrawal<'b>, &'b Arc<Mirror>)> {
    let shared = |(at, withdrawal): (usize, &'w LimitWithdrawal<'b>)| {
        let mirror = withdrawal.buckets.mirror.as_ref().filter(|_| withdrawal.effect.is_enforced())?;
        let now = now(withdrawal.bucket.key);
        let is_known =
            mirror.is_fresh(&withdrawal.bucket, now) || database.has_leased(&withdrawal.bucket, now);
        let share = mirror.refuses_most().filter(|_| !is_known)?;
        Some((share, (at, withdrawal, mirror)))
    };
    let several = withdrawals.iter().enumerate().filter(|_| withdrawals.len() > 1);
    several.filter_map(shared).max_by_key(|(share, _)| *share).map(|(_, found)| found)
}

/// The withdrawals that the mirrors refuse. A bucket of which this gate has leased tokens may be empty in its mirror.
fn refusing<'w, 'b>(
    database: &'w SharedStore,
    withdrawals: &'w [LimitWithdrawal<'b>],
    now: TimeAt<'w>,
) -> impl Iterator<Item = (usize, &'w LimitWithdrawal<'b>, &'b Arc<Mirror>)> {
    let refuses = move |(_, withdrawal): &(usize, &LimitWithdrawal<'b>)| {
        let now = now(withdrawal.bucket.key);
        withdrawal.effect.is_enforced()
            && !withdrawal.dry_run(now).verdict.is_admitted()
            && !database.has_leased(&withdrawal.bucket, now)
    };
    let with_mirror = |(at, withdrawal): (usize, &'w LimitWithdrawal<'b>)| {
        Some((at, withdrawal, withdrawal.buckets.mirror.as_ref()?))
    };
    withdrawals.iter().enumerate().filter(refuses).filter_map(with_mirror)
}

/// Calls for all buckets but the one that was called before.
fn call_all(
    database: &Arc<SharedStore>,
    withdrawals: &[LimitWithdrawal<'_>],
    before: Option<usize>,
) -> ReplyFutures {
    let others = withdrawals.iter().enumerate().filter(|(at, _)| Some(*at) != before);
    database.call_all(others.filter_map(|(_, withdrawal)| call(withdrawal, withdrawal.take())))
}

/// The call that undoes an admission.
fn refund<'b>(withdrawal: &LimitWithdrawal<'b>, verdict: &Verdict) -> Option<StoreCall<'b>> {
    verdict.is_admitted().then(|| call(withdrawal, Op::Refund(verdict.receipt)))?
}

fn call<'b>(withdrawal: &LimitWithdrawal<'b>, op: Op) -> Option<StoreCall<'b>> {
    let mirror = withdrawal.buckets.mirror.as_ref()?;
    Some(StoreCall { mirror, bucket: withdrawal.bucket, op: StoreOp::Step(op) })
}

impl std::fmt::Debug for PendingTake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingTake")
    }
}
