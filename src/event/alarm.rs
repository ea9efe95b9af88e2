//! Events of attacks: what an operator is told at once.

use http::Uri;

use crate::policy::{AlarmFigures, AlarmWords, Route};
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

/// Begin or end of an alarm on a route.
#[derive(Debug, Clone, Copy)]
pub struct AlarmChange<'a> {
    /// The name of the route.
    pub route: &'a str,
    /// How it is told.
    pub words: &'static AlarmWords,
    /// Where it is reported.
    pub report_to: Option<&'a Uri>,
    /// Whether the alarm begins; otherwise it ends.
    pub begins: bool,
    /// What it saw within the last minute.
    pub figures: AlarmFigures,
    /// When it saw that.
    pub at: Time,
}
