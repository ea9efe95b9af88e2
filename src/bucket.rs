//! The arithmetic of a token bucket: one pure function, [`step`].
//!
//! No clock, no store, no allocation, integers only; nothing here is imported but `core`. The surprising thing:
//! a bucket that is full says nothing an absent one does not, so `None` is a state like any other and a refused
//! attempt usually writes nothing at all.

#![deny(clippy::arithmetic_side_effects, clippy::float_arithmetic)]

mod continuous;
mod state;
mod units;

pub use continuous::{Continuous, SpecError};
pub use state::{DecodeError, State};
pub use units::{Key, Span, Time};

/// What a bucket promises; the shapes of `limits.md` that are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// A steady refill up to a size.
    Continuous(Continuous),
}

/// What is asked of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Take this many tokens, or be refused.
    Take(u32),
    /// Say what [`Op::Take`] would say, and change nothing.
    Peek(u32),
    /// Put this many tokens back; never lifts a bucket above its size.
    Give(u32),
}

/// The outcome of one [`step`]: what to write, and what to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// The state to store; `None` means that nothing is written.
    pub next: Option<State>,
    /// What the bucket says to the attempt.
    pub verdict: Verdict,
}

/// What a bucket says to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the attempt may pass, and if not, when.
    pub answer: Answer,
    /// Whole tokens left after this step; 0 while the bucket is in debt.
    pub left: u32,
    /// Time until one token more than `left` is there; zero when the bucket is full.
    pub next_token: Span,
    /// When the bucket will be full again; now, if it is full.
    pub full_at: Time,
}

/// Whether an attempt may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The tokens were there.
    Admitted,
    /// They were not, and will be after this long if nobody else takes them.
    Refused {
        /// Exact: one nanosecond earlier the same attempt is refused.
        wait: Span,
    },
    /// The attempt costs more than the bucket can ever hold.
    NeverFits,
}

impl Verdict {
    /// Whether the attempt may pass.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.answer == Answer::Admitted
    }
}

/// Decides one operation on one bucket.
///
/// `state` is `None` for a key that was never seen or was forgotten. The function may run several times for one
/// attempt (a lost race, a look without a lock), so it has no effects.
pub fn step(spec: &Spec, state: Option<State>, now: Time, op: Op) -> Step {
    match spec {
        Spec::Continuous(continuous) => {
            let tat = state.map(|State::Continuous { tat }| tat);
            continuous.step(tat, now, op)
        }
    }
}

impl Spec {
    /// Tokens in a full bucket.
    #[must_use]
    pub fn burst(&self) -> u32 {
        match self {
            Self::Continuous(continuous) => continuous.burst(),
        }
    }

    /// Time from empty to full.
    #[must_use]
    pub fn window(&self) -> Span {
        match self {
            Self::Continuous(continuous) => continuous.window(),
        }
    }

    /// 32 bits that differ when the spec differs (FNV-1a over its numbers): stored beside the state, so that a
    /// changed limit is noticed.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        match self {
            Self::Continuous(continuous) => continuous.fingerprint(),
        }
    }
}
