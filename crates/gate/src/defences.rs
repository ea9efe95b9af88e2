//! The optional defences of a route, and the only list of them.
//!
//! Each is a module below with all of it: its keys and their check, what it knows of attempts, what it does with one, and
//! its words. All other layers call what a file turns on by [`Defence`](crate::policy::Defence).

mod attack;
mod bait;
mod bytes;
mod challenge;
mod concurrency;
mod device;
mod directory;
mod escalate;
pub mod exposed;
mod geo;
mod in_flight;
mod ja4;
mod known_addresses;
mod lists;
pub mod prefixes;
mod quick;
mod repeats;
mod second_step;
mod slots;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_grammar::kind::{Checked as _, Given, Whole};
use tollgate_grammar::table::SecretText;
use tollgate_grammar::{Findings, Located, Spot, StringList, tables};

use crate::policy::fingerprint::Fingerprint;
use crate::policy::key::PrefixLengths;
use crate::policy::{
    DefenceCounter, Limit, OfferForm, OwnerCookie, OwnerMemory, OwnerWords, Pardon, Policy, Route,
};

pub use self::bytes::{AnswerLimit, MAX_LIMITS as MAX_BYTE_LIMITS, RawBytes, limit_answers};
pub use self::directory::DirectoryBuckets;
pub use self::escalate::{check_sub_limits, explain, first_wait, sub_limit, worst_case};
pub use self::geo::{LOOKUP, RATED_FACTS, RawLookups, add_rate, lookup};
pub use self::in_flight::{RawBounds, RawRouteBounds, bound_limit, bound_route};
pub use self::ja4::{fingerprints, is_by_fingerprint};
pub use self::lists::{ListedNetworks, MAX_LISTS};
pub use self::second_step::{RawStep, step, warn_of_steps};

use self::attack::{NetworkOutcomes, RawAttack};
use self::bait::RawBait;
use self::challenge::RawChallenge;
use self::device::RawDevice;
use self::directory::RawDirectory;
use self::escalate::RawEscalate;
use self::exposed::{PasswordList, RawExposed, RawExposedList};
use self::quick::{LastFailures, RawQuick};
use self::repeats::{FailedRequests, RawRepeats};

tables! {
    /// The keys of a route that turn defences on.
    pub RawDefences {
        exposed: RawExposed = Part,
        attack: RawAttack = Part,
        bait: RawBait = Part,
        quick: RawQuick = Part,
        repeats: RawRepeats = Part,
    }

    /// The keys of a limit that add others for the same clients.
    pub RawSubLimits {
        escalate: RawEscalate = Part,
        directory: RawDirectory = Part,
    }

    /// The keys of `[refuse]` that let clients lift refusals.
    pub RawPardons {
        challenge: RawChallenge = Part,
    }

    /// The tables that say what all routes need of a defence.
    pub RawDefenceTables {
        device: RawDevice,
        exposed: RawExposedList,
    }
}

impl RawSubLimits {
    /// The names of its keys, and where the file has them.
    pub fn places(&self) -> [(&'static str, Option<&Spot>); 2] {
        [
            ("escalate", self.escalate.escalate.as_ref().map(|table| &table.name.spot)),
            ("directory", self.directory.directory.as_ref().map(|text| &text.spot)),
        ]
    }
}

/// Headers in which applications are told of attempts, or tell of them: no client may send them.
pub const HEADERS: &[&str] = &[exposed::HEADER, challenge::HEADER];

/// What the defences count.
pub const COUNTERS: &[&DefenceCounter] = &[&exposed::COUNTER];

/// How a page offers another attempt.
pub const OFFER: &OfferForm = &challenge::FORM;

/// What counts such offers, and what became of them.
pub const PARDONS: &DefenceCounter = &challenge::COUNTER;

/// How people name what makes owners of accounts known.
pub const OWNERS: &OwnerWords = &device::WORDS;

/// The file for the key of what makes owners known, next to the configuration.
pub const OWNER_KEYS: &str = device::KEY_FILE;

/// What the option of `init` that makes owners known is for.
pub const OWNER_OPTION: &str = device::OPTION;

/// A route that may turn defences on; its limits are known.
pub struct DefendedRoute<'r> {
    /// The route, if it can be built.
    pub route: Option<&'r mut Route>,
    /// Whether a limit by address applies to it.
    pub has_address_limit: bool,
    /// Whether a limit that applies to it refuses attempts of strangers.
    pub refuses_strangers: bool,
    /// Whether the file defines which answers are failures.
    pub knows_failures: bool,
    /// Whether the file names the fields with passwords.
    pub names_password: bool,
}

/// What a file names outside itself.
pub trait DefenceFiles {
    /// The keys that a secret names, newest first; `None` after a mistake was reported.
    fn keys(&mut self, secret: &Located<SecretText>, f: &mut Findings) -> Option<Vec<Vec<u8>>>;

    /// Reads a list of accounts.
    fn accounts(&mut self, list: &StringList, f: &mut Findings) -> Vec<Fingerprint>;

    /// The path of a file that its caller reads, and that is watched from now on; `None` if nothing is read.
    fn path_of(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<PathBuf>;

    /// The bytes of such a file; `None` after a mistake was reported.
    fn bytes(&mut self, path: &str, spot: &Spot, f: &mut Findings) -> Option<Vec<u8>>;

    /// The path of such a file, for messages.
    fn resolve(&self, path: &str) -> PathBuf;

    /// Reports a file that cannot be read.
    fn cannot_read(&self, path: &Path, error: &io::Error, spot: &Spot, f: &mut Findings);
}

/// The settings of a file that are the same for all routes.
pub struct SharedSettings {
    /// The prefixes of `[client]`.
    pub prefixes: PrefixLengths,
    /// Whether no route does more than count.
    pub observes: bool,
    /// The message and the hint for a program that was built without TLS.
    pub missing_tls: Option<(String, &'static str)>,
    /// Those of `[lists]`.
    pub lists: Arc<[ListedNetworks]>,
}

/// Checks the defences of the routes of one file, which share what they know.
pub struct DefenceCheck<'c> {
    shared: SharedSettings,
    files: &'c mut dyn DefenceFiles,
    passwords: PasswordList<'c>,
    networks: Arc<NetworkOutcomes>,
    last_failures: LastFailures,
    failed_requests: FailedRequests,
}

impl<'c> DefenceCheck<'c> {
    /// `routes` are all that this will check.
    pub fn new<'a>(
        raw: &'c RawDefenceTables,
        routes: impl Iterator<Item = &'a RawDefences>,
        shared: SharedSettings,
        files: &'c mut dyn DefenceFiles,
        f: &mut Findings,
    ) -> Self {
        let passwords = PasswordList::open(&raw.exposed, routes.map(|route| &route.exposed), files, f);
        let (networks, last_failures, failed_requests) = Default::default();
        Self { shared, files, passwords, networks, last_failures, failed_requests }
    }

    /// Gives a route what its file turns on.
    pub fn check(&mut self, raw: &RawDefences, mut to: DefendedRoute<'_>, f: &mut Findings) {
        exposed::check(&raw.exposed, self, &mut to, f);
        attack::check(&raw.attack, self, &mut to, f);
        bait::check(&raw.bait, self, &mut to, f);
        quick::check(&raw.quick, self, &mut to, f);
        repeats::check(&raw.repeats, self, &mut to, f);
        lists::check(self, &mut to);
    }
}

/// What lifts refusals under this policy, if the file turns anything on. `pages` are those without a place for its
/// [offer](OFFER).
pub fn pardon<'p>(
    raw: &RawPardons,
    policy: &Policy,
    pages: impl Iterator<Item = &'p Spot>,
    f: &mut Findings,
) -> Option<Arc<dyn Pardon>> {
    let rule = challenge::check(&raw.challenge, policy, pages, f)?;
    Some(Arc::new(rule))
}

/// Prefixes and limits of the file, for what makes owners known.
pub struct OwnerContext<'c> {
    /// The prefixes of `[client]`.
    pub prefixes: PrefixLengths,
    /// All that are valid.
    pub limits: &'c [Option<Limit>],
}

/// What tells the owners of accounts from strangers.
pub struct KnownOwners {
    cookie: Option<Arc<dyn OwnerCookie>>,
    memory: Option<Arc<dyn OwnerMemory>>,
}

/// A limit of the file.
pub struct KeyedLimit<'c> {
    /// The limit.
    pub limit: &'c Limit,
    /// The place of its key.
    pub key: &'c Spot,
}

/// A limit of the file that is not off.
pub struct FiledLimit<'c> {
    /// The limit.
    pub limit: &'c Limit,
    /// The place of its key.
    pub spot: &'c Spot,
    /// Whether it applies to more than forms that send a message.
    pub protects_accounts: bool,
}

/// What makes owners known, as far as the file turns it on.
pub fn owners(
    raw: &RawDefenceTables,
    context: &OwnerContext<'_>,
    files: &mut dyn DefenceFiles,
    f: &mut Findings,
) -> KnownOwners {
    let cookie = device::check(&raw.device, files, f);
    let memory = known_addresses::check(&raw.device.addresses, context, f);
    KnownOwners { cookie, memory }
}

/// Warns of limits that need owners, where none is ever known.
pub fn warn_of_owners<'l>(
    raw: &RawDefenceTables,
    limits: impl Iterator<Item = FiledLimit<'l>>,
    f: &mut Findings,
) {
    device::warn_if_off(&raw.device, limits, f);
}

impl KnownOwners {
    /// The policy that knows them.
    pub fn put_into(self, policy: Policy) -> Policy {
        policy.with_owner_cookie(self.cookie).with_owner_memory(self.memory)
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
            self.warn(spot, "does not define what a failure is", "add failure = [{ status = 401 }]", f);
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
