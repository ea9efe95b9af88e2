//! Events of attacks: what an operator is told at once.

use crate::policy::{AttackRule, Route};
use crate::time::Time;

/// A success of an unknown client after at least [`GuessWorked::MIN_FAILURES`] failures in a row of its account.
#[derive(Debug, Clone, Copy)]
pub struct GuessWorked<'a> {
    /// The route.
    pub route: &'a Route,
    /// The account: a keyed hash of 48 bits, as in the decision log.
    pub account: u64,
    /// The failures before it.
    pub failures: u32,
    /// When it was settled.
    pub at: Time,
}

impl GuessWorked<'_> {
    /// People who mistype a password sign in after fewer failures.
    pub const MIN_FAILURES: u32 = 5;
}

/// Begin or end of attack mode on a route.
#[derive(Debug, Clone, Copy)]
pub struct AttackChange<'a> {
    /// The name of the route.
    pub route: &'a str,
    /// The route's rule.
    pub rule: &'a AttackRule,
    /// Whether the mode begins; otherwise it ends.
    pub begins: bool,
    /// Failed attempts within the last minute.
    pub failures: u64,
    /// Their share of the attempts of that minute, or that of the accounts that failed if it is higher; from 0 to 1.
    pub share: f64,
    /// When it was measured.
    pub at: Time,
}
