//! What is known of an attempt besides its charges: logs, applications and operators are told of it.

use super::exposed::ExposedAction;

/// Facts of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptFacts {
    /// The account, if the attempt names a single one: a keyed hash of 48 bits ([`log_id`](super::key::KeyHasher::log_id)),
    /// never its name.
    pub account: Option<u64>,
    /// Whether it comes from a known device or address of that account.
    pub is_owner: bool,
    /// Whether a route that counts it is under attack.
    pub is_under_attack: bool,
    /// Whether it is at an account that no person uses.
    pub is_bait: bool,
    /// What happens to it because its password is exposed, if that is known and a route asks.
    pub exposed: Option<ExposedAction>,
    /// Failures in a row of the account before this attempt, where `max_failures` counts them; zero for a known device
    /// or address.
    pub failures_before: u32,
}

impl AttemptFacts {
    /// Whether the application is told that the password is exposed.
    #[must_use]
    pub fn is_marked_as_exposed(&self) -> bool {
        self.exposed >= Some(ExposedAction::Mark)
    }
}
