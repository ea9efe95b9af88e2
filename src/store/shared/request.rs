//! One operation on one bucket, and who waits for it.
//!
//! Whoever asks waits; whoever tells does not, and is not heard of again. The surprising thing: what was told is tried again
//! when the store was away, but only if it is certain that it was not done: a token that comes back twice would be one too
//! many.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bucket_state::BucketState;
use super::mirror::Mirror;
use crate::bucket::{Op, Own, Verdict, step};
use crate::store::RecordVersion;
use crate::store::memory::BucketKey;
use crate::time::Time;

/// What is done to a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOp {
    /// One operation of the arithmetic.
    Step(Op),
    /// The bucket is as if it had never been seen.
    Reset,
    /// It has a rate of its own, or none any more.
    Rate(Option<Own>),
}

/// What a bucket said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreReply {
    /// To the operation; of the others, what a look at it says afterwards.
    pub verdict: Verdict,
    /// The rate that it has instead of its limit's.
    pub own: Option<Own>,
}

/// The store did not answer, or not in time, or is not asked for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store is away")]
pub struct Unavailable;

/// Something to be done to one bucket.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) mirror: Arc<Mirror>,
    pub(super) bucket: BucketKey,
    pub(super) op: StoreOp,
    pub(super) completion: Completion,
    /// When it began to wait for its turn.
    pub(super) since: Instant,
}

/// Who waits for it.
#[derive(Debug)]
pub(super) enum Completion {
    /// Somebody does.
    Call(oneshot::Sender<Result<StoreReply, Unavailable>>),
    /// Nobody: it may be tried again later.
    Enqueued {
        /// How often it was tried.
        tries: u32,
        /// What it may have written the last time.
        uncertain: Option<UncertainWrite>,
    },
}

/// A writing of which nobody knows whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UncertainWrite {
    /// What it was to replace. Once that does not stand there any more, it may have been.
    pub(super) old: Option<RecordVersion>,
}

impl StoreRequest {
    /// Does it, and says whether the bucket is another one now.
    pub(super) fn run(&self, content: &mut BucketState, now: Time) -> (StoreReply, bool) {
        content.convert_to(&self.bucket.spec, now);
        let now = content.decision_time(now);
        let BucketState { header, state } = content;
        let (op, is_other) = match self.op {
            StoreOp::Step(op) => (op, false),
            StoreOp::Reset => {
                state.fill(0);
                (Op::Peek(1), true)
            }
            StoreOp::Rate(own) => {
                header.give_rate(&self.bucket.spec, own, state, now);
                (Op::Peek(1), true)
            }
        };
        let words = header.spec.words().min(state.len());
        let step = step(&header.spec, &mut state[..words], now, op);
        (StoreReply { verdict: step.verdict, own: own_of(content) }, step.changed || is_other)
    }

    /// Whether its answer must come from the store, even if it is known here.
    pub(super) fn is_inspection(&self) -> bool {
        matches!(
            self.op,
            StoreOp::Step(Op::Peek(_) | Op::PeekOnce { .. }) | StoreOp::Reset | StoreOp::Rate(_)
        )
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(&self.completion, Completion::Call(sender) if sender.is_closed())
    }

    /// Whether it is counted among those that nobody waits for.
    pub(super) fn is_enqueued(&self) -> bool {
        matches!(self.completion, Completion::Enqueued { .. })
    }

    /// What it may have written before.
    pub(super) fn uncertain(&self) -> Option<UncertainWrite> {
        match &self.completion {
            Completion::Enqueued { uncertain: doubt, .. } => *doubt,
            Completion::Call(_) => None,
        }
    }
}

fn own_of(content: &BucketState) -> Option<Own> {
    let until = content.header.own_until?;
    Some(Own { rate: content.header.spec.rate()?, until })
}
