//! One operation on one bucket, and how it completes.
//!
//! A call waits for its reply; an enqueued operation has no caller. It is retried after an outage, but only if it
//! certainly was not done: a token that is refunded twice would be one too many. An attempt in doubt is charged a second time, but no third.
//! Queueing is left to [`queue`](super::queue).

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::mirror::Mirror;
use crate::RecordVersion;
use crate::bucket_state::BucketState;
use crate::memory::BucketKey;
use tollgate_bucket::Time;
use tollgate_bucket::{Op, Own, Receipt, Verdict};

/// An operation on a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOp {
    /// One operation of the arithmetic.
    Step(Op),
    /// Resets the bucket as if it had never been seen.
    Reset,
    /// Gives the bucket an own rate, or takes it away.
    Rate(Option<Own>),
    /// Has the bucket refuse everything for a while.
    Ban(Own),
    /// Adds tokens that no attempt took.
    Credit(u32),
    /// Gives back what a lease did not hand out, unless the bucket has its own rate by now: its tokens are others.
    ReturnLease(Receipt),
}

/// The reply to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreReply {
    /// The verdict on the operation; after a reset or a new rate, that of a peek.
    pub verdict: Verdict,
    /// The bucket's own rate, if it has one.
    pub own: Option<Own>,
}

/// An operation on a bucket, and the mirror of its limit.
#[derive(Debug, Clone, Copy)]
pub struct StoreCall<'m> {
    /// The mirror.
    pub mirror: &'m Arc<Mirror>,
    /// The bucket.
    pub bucket: BucketKey,
    /// The operation.
    pub op: StoreOp,
}

/// A reply that is waited for.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Result<StoreReply, Unavailable>> + Send>>;

/// The store did not answer in time, or calls to it are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("store unavailable")]
pub struct Unavailable;

/// An operation on one bucket that waits for its batch.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) mirror: Arc<Mirror>,
    pub(super) bucket: BucketKey,
    pub(super) op: StoreOp,
    pub(super) completion: Completion,
    /// When it joined the queue.
    pub(super) since: Instant,
}

/// How a request completes.
#[derive(Debug)]
pub(super) enum Completion {
    /// A caller waits for the reply.
    Call {
        /// The caller.
        reply: oneshot::Sender<Result<StoreReply, Unavailable>>,
        /// The write of an earlier try, if its outcome is unknown.
        uncertain: Option<UncertainWrite>,
    },
    /// No caller waits: it may be retried later.
    Enqueued {
        /// The number of failed tries.
        tries: u32,
        /// The write of an earlier try, if its outcome is unknown.
        uncertain: Option<UncertainWrite>,
    },
}

/// A write whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UncertainWrite {
    /// The version that it was to replace. While the store has that version, the write was not done.
    pub(super) old: Option<RecordVersion>,
}

impl StoreRequest {
    /// Runs the operation. Returns the reply and whether the state has changed.
    pub(super) fn run(&self, content: &mut BucketState, now: Time) -> (StoreReply, bool) {
        content.convert_to(&self.bucket.spec, now);
        let now = content.decision_time(now);
        let BucketState { header, state } = content;
        let (op, has_changed) = match self.op {
            StoreOp::Step(op) => (op, false),
            StoreOp::ReturnLease(_) if header.own_until.is_some() => (Op::Peek(1), false),
            StoreOp::ReturnLease(receipt) => (Op::Refund(receipt), false),
            // A bucket may begin with fewer tokens than it holds: it has to exist before tokens can be added.
            StoreOp::Credit(tokens) => {
                let first = header.step(&mut state[..], now, Op::Take(0));
                (Op::Give(tokens), first.changed)
            }
            StoreOp::Reset => {
                state.fill(0);
                (Op::Peek(1), true)
            }
            StoreOp::Rate(own) => {
                header.give_rate(&self.bucket.spec, own, state, now);
                (Op::Peek(1), true)
            }
            StoreOp::Ban(ban) => {
                header.ban(ban, state);
                (Op::Peek(1), true)
            }
        };
        let step = header.step(&mut state[..], now, op);
        (StoreReply { verdict: step.verdict, own: own_of(content) }, step.changed || has_changed)
    }

    /// Whether the reply must come from the store, even if the mirror knows it.
    pub(super) fn is_inspection(&self) -> bool {
        matches!(self.op, StoreOp::Step(Op::Peek(_) | Op::PeekOnce { .. })) || self.is_operators_word()
    }

    /// Whether an operator changes the bucket.
    pub(super) fn is_operators_word(&self) -> bool {
        match self.op {
            StoreOp::Reset | StoreOp::Rate(_) | StoreOp::Ban(_) | StoreOp::Credit(_) => true,
            StoreOp::Step(_) | StoreOp::ReturnLease(_) => false,
        }
    }

    /// Whether the caller has given up.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(&self.completion, Completion::Call { reply, .. } if reply.is_closed())
    }

    /// Whether it has no caller.
    pub(super) fn is_enqueued(&self) -> bool {
        matches!(self.completion, Completion::Enqueued { .. })
    }

    /// The write of an earlier try whose outcome is unknown.
    pub(super) fn uncertain(&self) -> Option<UncertainWrite> {
        let (Completion::Enqueued { uncertain, .. } | Completion::Call { uncertain, .. }) = &self.completion;
        *uncertain
    }

    /// Whether it decides an attempt: it takes or looks, and gives nothing.
    pub(super) fn is_attempt(&self) -> bool {
        matches!(
            self.op,
            StoreOp::Step(Op::Take(_) | Op::TakeOnce { .. } | Op::Peek(_) | Op::PeekOnce { .. })
        )
    }

    /// Whether it may be done once more although it may have been done: an attempt that is charged twice and decided once
    /// takes a token too many, and gives none.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.is_attempt() && !self.is_enqueued()
    }

    /// Records that a try ended without an answer after this write was sent.
    pub(super) fn set_uncertain(&mut self, write: UncertainWrite) {
        let (Completion::Enqueued { uncertain, .. } | Completion::Call { uncertain, .. }) =
            &mut self.completion;
        *uncertain = Some(write);
    }

    /// Records that no earlier try has done it, or will.
    pub(super) fn set_certain(&mut self) {
        let (Completion::Enqueued { uncertain, .. } | Completion::Call { uncertain, .. }) =
            &mut self.completion;
        *uncertain = None;
    }
}

fn own_of(content: &BucketState) -> Option<Own> {
    let until = content.header.own_until?;
    Some(Own { rate: content.header.spec.rate()?, until })
}
