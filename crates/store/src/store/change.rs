//! What operators see and change of a single bucket, in memory or in a database.

use super::{LimitBuckets, Store};
use crate::memory::{BucketKey, OwnRateError};
use crate::shared::{StoreOp, Unavailable};
use tollgate_bucket::{Op, Own, Verdict};

/// A change to one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketChange {
    /// Adds tokens, none above the bucket's size.
    Credit(u32),
    /// Resets the bucket as if it had never been seen.
    Reset,
    /// Gives the bucket an own rate, or takes it away.
    OwnRate(Option<Own>),
    /// Has the bucket refuse everything until the end of a [ban](Own::ban); an own rate ends with it.
    Ban(Own),
}

/// Why a bucket was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BucketChangeError {
    /// The limit was changed meanwhile, or the bucket gets no own rate.
    #[error(transparent)]
    OwnRate(#[from] OwnRateError),
    /// The database did not answer; the change may have been made all the same.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Store {
    /// The verdict on an attempt that costs so many tokens, and the bucket's own rate; takes nothing.
    ///
    /// # Errors
    /// [`Unavailable`] if the database does not answer.
    pub async fn inspect(
        &self,
        limit: &LimitBuckets,
        bucket: BucketKey,
        tokens: u32,
    ) -> Result<(Verdict, Option<Own>), Unavailable> {
        let Some((database, mirror)) = self.database_of(limit) else {
            let now = self.now();
            return Ok((limit.buckets.peek(&bucket, now, tokens), limit.buckets.own_rate(bucket.key, now)));
        };
        let reply = database.call(mirror, bucket, StoreOp::Step(Op::Peek(tokens))).await?;
        Ok((reply.verdict, reply.own))
    }

    /// Changes one bucket.
    ///
    /// # Errors
    /// See [`BucketChangeError`].
    pub async fn change(
        &self,
        limit: &LimitBuckets,
        bucket: BucketKey,
        change: BucketChange,
    ) -> Result<(), BucketChangeError> {
        let Some((database, mirror)) = self.database_of(limit) else {
            return Ok(self.change_in_memory(limit, &bucket, change)?);
        };
        let op = match change {
            BucketChange::Credit(tokens) => StoreOp::Credit(tokens),
            BucketChange::Reset => StoreOp::Reset,
            BucketChange::OwnRate(own) => StoreOp::Rate(own),
            BucketChange::Ban(ban) => StoreOp::Ban(ban),
        };
        database.call(mirror, bucket, op).await?;
        Ok(())
    }

    fn change_in_memory(
        &self,
        LimitBuckets { buckets, .. }: &LimitBuckets,
        bucket: &BucketKey,
        change: BucketChange,
    ) -> Result<(), OwnRateError> {
        let now = self.now();
        match change {
            BucketChange::Credit(_) if buckets.peek(bucket, now, 1).full_at <= now => {}
            BucketChange::Credit(tokens) => {
                // A bucket may begin with fewer tokens than it holds: it has to exist before tokens can be added.
                buckets.apply(bucket, now, Op::Take(0))?;
                buckets.apply(bucket, now, Op::Give(tokens))?;
            }
            BucketChange::Reset => buckets.reset(bucket, now)?,
            BucketChange::OwnRate(own) => buckets.set_own_rate(bucket, own, now)?,
            BucketChange::Ban(ban) => buckets.ban(bucket, ban, now)?,
        }
        Ok(())
    }
}
