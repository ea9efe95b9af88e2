//! The optional defences of a route, and the only list of them.
//!
//! Each is a module below with all of it: its keys and their check, what it knows of attempts, what it does with one, and
//! its words. `policy` and `engine` call what a file turns on, by [`Defence`](crate::policy::Defence).

mod bait;
mod quick;
mod repeats;
mod slots;

use tollgate_grammar::kind::{Checked as _, Given, Whole};
use tollgate_grammar::{Findings, Spot, StringList, tables};

use crate::policy::Route;
use crate::policy::fingerprint::Fingerprint;
use crate::policy::key::PrefixLengths;

use self::bait::RawBait;
use self::quick::{LastFailures, RawQuick};
use self::repeats::{FailedRequests, RawRepeats};

tables! {
    /// The keys of a route that turn defences on.
    pub(crate) RawDefences {} + {
        bait: RawBait,
        quick: RawQuick,
        repeats: RawRepeats,
    }
}

/// A route that may turn defences on; its limits are known.
pub(crate) struct DefendedRoute<'r> {
    /// The route, if it can be built.
    pub(crate) route: Option<&'r mut Route>,
    /// Whether a limit by address applies to it.
    pub(crate) has_address_limit: bool,
    /// Whether the file says which answers are failures.
    pub(crate) knows_failures: bool,
}

/// Checks the defences of the routes of one file, which share what they know.
pub(crate) struct DefenceCheck<'c> {
    /// The prefixes of `[client]`.
    pub(crate) prefixes: PrefixLengths,
    /// Reads a list of accounts.
    pub(crate) accounts: &'c mut dyn FnMut(&StringList, &mut Findings) -> Vec<Fingerprint>,
    last_failures: LastFailures,
    failed_requests: FailedRequests,
}

impl<'c> DefenceCheck<'c> {
    pub(crate) fn new(
        prefixes: PrefixLengths,
        accounts: &'c mut dyn FnMut(&StringList, &mut Findings) -> Vec<Fingerprint>,
    ) -> Self {
        let (last_failures, failed_requests) = Default::default();
        Self { prefixes, accounts, last_failures, failed_requests }
    }

    /// Gives a route what its file turns on.
    pub(crate) fn check(&mut self, raw: &RawDefences, mut to: DefendedRoute<'_>, f: &mut Findings) {
        bait::check(&raw.bait, self, &mut to, f);
        quick::check(&raw.quick, self, &mut to, f);
        repeats::check(&raw.repeats, self, &mut to, f);
    }
}

impl DefendedRoute<'_> {
    /// Warns of a key that has no effect here.
    fn warn(&self, spot: &Spot, what: &str, hint: &str, f: &mut Findings) {
        if let Some(route) = &self.route {
            f.warning(spot, format!("route `{}` {what}", route.name), hint);
        }
    }

    /// Warns of a key for whose weight no address pays.
    fn warn_of_addresses(&self, key: &str, spot: &Spot, f: &mut Findings) {
        if let Some(route) = self.route.as_ref().filter(|_| !self.has_address_limit) {
            let message =
                format!("no address pays for `{key}`: no limit by address applies to route `{}`", route.name);
            f.warning(spot, message, "add [limit.address] with rate = \"10 per 5m\"");
        }
    }

    /// Warns of a key that needs failures.
    fn warn_of_failures(&self, spot: &Spot, f: &mut Findings) {
        if !self.knows_failures {
            self.warn(spot, "does not say what a failure is", "add failure = [{ status = 401 }]", f);
        }
    }
}

/// As how many attempts one counts.
type Weight = Whole<u32, 1, 10>;

/// The weight that a key gives what another one turns on.
fn weight(number: &Option<Given<Weight>>, of: &str, is_there: bool, f: &mut Findings) -> Option<u32> {
    if let Some(number) = number.as_ref().filter(|_| !is_there) {
        f.warning(&number.spot, format!("`{of}_weight` means nothing without `{of}`"), "");
    }
    number.checked(f)
}

#[cfg(test)]
mod tests;
