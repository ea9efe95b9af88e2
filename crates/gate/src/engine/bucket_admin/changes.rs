//! The effect of an operator's change on one bucket.
//!
//! [`bucket_admin`](super) finds the buckets that the change applies to.

use smallvec::{SmallVec, smallvec};

use crate::bucket::{Continuous, Own, Spec};
use crate::event::Change;
use crate::store::BucketChange;
use crate::time::Time;

/// The changes for a bucket with this spec, one after the other.
pub(super) fn changes_of(change: Change, spec: &Spec, now: Time) -> SmallVec<[BucketChange; 2]> {
    match change {
        Change::Credited(tokens) => smallvec![BucketChange::Credit(tokens)],
        Change::Reset => smallvec![BucketChange::Reset],
        Change::RateGiven { rate, until } => {
            smallvec![BucketChange::OwnRate(Some(Own { rate: with_debt_and_wait_of(spec, rate), until }))]
        }
        Change::RateEnded => smallvec![BucketChange::OwnRate(None)],
        // One that is over by now changes nothing.
        Change::Banned { until } => Own::ban(now, until).map(BucketChange::Ban).into_iter().collect(),
        Change::BanEnded => smallvec![BucketChange::OwnRate(None), BucketChange::Reset],
        // They are in no bucket of a limit.
        Change::AddressesForgotten => SmallVec::new(),
    }
}

/// The rate with the debt and the wait of the limit's own bucket.
fn with_debt_and_wait_of(spec: &Spec, rate: Continuous) -> Continuous {
    let like = match spec {
        Spec::Continuous(bucket) => *bucket,
        Spec::Floor(floor) => floor.pool(),
        _ => return rate,
    };
    let whole = rate.with_debt(like.debt()).and_then(|rate| rate.with_hold(like.hold()));
    whole.unwrap_or(rate)
}
