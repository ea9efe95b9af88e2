//! Events of challenges: what is offered to refused clients, and what proofs are worth.

/// What became of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChallengeResult {
    /// A page offered it.
    Offered,
    /// A proof earned an attempt.
    Solved,
    /// A proof earned nothing: malformed, stale, foreign, unsolved, used, or beyond `refuse.challenge_rate`.
    Refused,
}
