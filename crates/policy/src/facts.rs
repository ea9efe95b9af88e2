//! Facts about an attempt in addition to its charges, for logs, applications and operators.

/// Facts of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptFacts {
    /// The account, if the attempt names a single one: a keyed hash of 48 bits ([`log_id`](super::key::KeyHasher::log_id)),
    /// never its name.
    pub account: Option<u64>,
    /// Whether its client is known as the owner of that account.
    pub is_owner: bool,
    /// Whether an alarm is on at a route that counts it, so that attempts of strangers cost more.
    pub is_alarmed: bool,
    /// Whether it is at an account that no person uses.
    pub is_bait: bool,
    /// Failures of the account before this attempt: those in a row where `max_failures` counts them, otherwise those that its
    /// limit of failures has not yet refilled; zero for a known owner.
    pub failures_before: u32,
}
