//! What a refusal by one of several buckets does to the attempt and to the others, and what happens while their store does not answer.
//!
//! It only names the rules; the module that holds several buckets at once applies them.

/// What a refusal by a bucket does. `owner` tells limits apart; buckets of one limit share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It refuses the attempt: then no bucket that enforces or observes gives tokens.
    Enforce {
        /// The limit.
        owner: usize,
    },
    /// It refuses nothing. Observing buckets give tokens as they would if all of them enforced: all, or none.
    Observe,
    /// It refuses nothing. The bucket stands for those of a limit: it gives tokens if it has them and no other limit
    /// refuses the attempt.
    Candidate {
        /// The limit that it could replace.
        owner: usize,
    },
}

impl Effect {
    /// Whether a refusal refuses the attempt.
    #[must_use]
    pub fn is_enforced(self) -> bool {
        matches!(self, Self::Enforce { .. })
    }
}

/// What happens to an attempt while the store does not answer, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnError {
    /// It is admitted.
    Allow,
    /// The mirror decides, as if this gate were alone.
    Local,
    /// It is answered with 503.
    Deny,
}
