//! A bucket by itself: a spec and the words of its state.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use tollgate_bucket::{Op, Spec, Step, Time, step};

/// One bucket outside any store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub spec: Spec,
    pub state: [u64; Spec::MAX_WORDS],
}

impl Bucket {
    /// One that was never seen.
    pub fn new(spec: Spec) -> Self {
        Self { spec, state: [0; Spec::MAX_WORDS] }
    }

    /// Runs an operation, and keeps the next state.
    pub fn run(&mut self, now: Time, op: Op) -> Step {
        let (step, next) = self.outcome(now, op);
        if step.changed {
            self.state = next;
        }
        step
    }

    /// What an operation would do.
    pub fn look(&self, now: Time, op: Op) -> Step {
        self.outcome(now, op).0
    }

    fn outcome(&self, now: Time, op: Op) -> (Step, [u64; Spec::MAX_WORDS]) {
        let mut next = self.state;
        let step = step(&self.spec, &mut next[..self.spec.words()], now, op);
        (step, next)
    }
}
