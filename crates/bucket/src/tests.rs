//! A bucket outside any store, for the tests of this module.

use super::{Op, Spec, Step, Time, Verdict, step};

/// A spec and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestBucket {
    pub(super) spec: Spec,
    pub(super) state: [u64; Spec::MAX_WORDS],
}

impl TestBucket {
    pub(super) fn new(spec: Spec) -> Self {
        Self { spec, state: [0; Spec::MAX_WORDS] }
    }

    /// Runs one operation, and keeps the next state if it changed.
    pub(super) fn run(&mut self, nanos: u64, op: Op) -> Step {
        let mut next = self.state;
        let step = step(&self.spec, &mut next[..self.spec.words()], Time::from_nanos(nanos), op);
        if step.changed {
            self.state = next;
        }
        step
    }

    pub(super) fn take(&mut self, nanos: u64, cost: u32) -> Verdict {
        self.run(nanos, Op::Take(cost)).verdict
    }

    /// The verdict that an attempt would get.
    pub(super) fn peek(&self, nanos: u64, cost: u32) -> Verdict {
        let mut copy = *self;
        copy.run(nanos, Op::Peek(cost)).verdict
    }
}
