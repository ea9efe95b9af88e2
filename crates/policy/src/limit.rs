//! A limit: a rate, and the clients it applies to.
//!
//! It counts nothing: its buckets live in a store. One limit of the file may be several [`Limit`]s, which follow each
//! other and share a name.

use std::borrow::Cow;
use std::sync::Arc;

use super::attempt::{Attempt, Client};
use super::client_fact::AddressFacts;
use super::fingerprint::Fingerprint;
use super::key::{KeyPart, PrefixLengths};
use super::network::NetworkSet;
use super::outcome::Outcome;
use super::permits::BucketCounter;
use super::rates::Rates;
use tollgate_bucket::{OnError, Op, Receipt, Spec};

/// A limit: `[limit.NAME]`, or one of its sub-limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The name in metrics, headers, admin paths and bucket keys.
    pub name: Arc<str>,
    /// The parts of the bucket's key, joined by `+` in the file.
    pub key: Vec<KeyPart>,
    /// The prefix lengths of addresses that share a bucket.
    pub prefixes: PrefixLengths,
    /// The bucket of clients without another rate in `rates`.
    pub spec: Spec,
    /// Other rates for some clients.
    pub rates: Rates,
    /// Clients that this limit exempts.
    pub exempt: NetworkSet,
    /// Whether the limit refuses, observes or is off.
    pub mode: Mode,
    /// The name of the limit that this candidate may replace; a candidate never refuses.
    pub candidate_of: Option<Arc<str>>,
    /// Whether all attempts are charged, or failures only.
    pub charge_on: ChargeOn,
    /// Whether a success fills the bucket: `reset = "success"`.
    pub is_reset_by_success: bool,
    /// What bounds the attempts of one bucket that are under way at once.
    pub permits: Option<Arc<BucketCounter>>,
    /// The bucket of all clients of an account together, known or not, if its failures reach a directory that locks
    /// accounts: `directory`.
    pub directory: Option<Spec>,
    /// What happens to its attempts while the store does not answer; `None` for what their route says.
    pub on_error: Option<OnError>,
    /// The unit that is counted once.
    pub unit: Unit,
    /// The kind among the limits of the same name.
    pub kind: LimitKind,
}

/// The attempts that are charged: `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeOn {
    /// Every attempt.
    Attempts,
    /// Failed attempts: other attempts get a refund.
    Failures,
}

/// The unit that is counted once: `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Every attempt counts.
    Attempts,
    /// An account: recent ones are not charged again.
    Users,
    /// A pair of account and password: recent ones are not charged again.
    Passwords,
    /// A client's prefix: recent ones are not charged again.
    Clients,
}

/// The kind of a sub-limit. A limit of the file may have several buckets for each key: each is a [`Limit`] with the
/// same name and follows the one of kind `Rate`.
///
/// Their order is part of the names of buckets in shared stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// `rate`.
    Rate,
    /// `max_failures`: tokens that only a success returns.
    Cap,
    /// `escalate`: growing waits.
    Escalation,
    /// `directory`: the failures of an account, from any client.
    Directory,
}

/// What a limit does with its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses attempts.
    Enforce,
    /// Decides, logs and counts, but never refuses.
    Observe,
    /// Never refuses either, and tells the application what it would refuse.
    Mark,
    /// Is ignored.
    Off,
}

impl Mode {
    /// Those of the file, with their words.
    pub const WORDS: [(&'static str, Self); 4] = [
        (Self::Enforce.name(), Self::Enforce),
        (Self::Observe.name(), Self::Observe),
        (Self::Mark.name(), Self::Mark),
        (Self::Off.name(), Self::Off),
    ];

    /// What it adds to the worst case of a limit.
    fn describe(self) -> &'static str {
        match self {
            Self::Enforce => "",
            Self::Observe => "; only observed, nothing is refused",
            Self::Mark => "; the application is told, nothing is refused",
            Self::Off => "; off, nothing is counted",
        }
    }

    /// Whether a limit refuses, or is observed before it does.
    #[must_use]
    pub fn is_to_refuse(self) -> bool {
        matches!(self, Self::Enforce | Self::Observe)
    }

    /// Its word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Mark => "mark",
            Self::Off => "off",
        }
    }
}

impl LimitKind {
    /// The key of the file that makes it. Snapshots name it so.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Cap => "max_failures",
            Self::Escalation => "escalate",
            Self::Directory => "directory",
        }
    }
}

impl Limit {
    /// A limit with one bucket of `spec` for each client address, and otherwise the defaults of the file.
    #[must_use]
    pub fn new(name: &str, spec: Spec) -> Self {
        Self {
            name: name.into(),
            key: vec![KeyPart::Ip],
            prefixes: PrefixLengths::default(),
            spec,
            rates: Rates::default(),
            exempt: NetworkSet::default(),
            mode: Mode::Enforce,
            candidate_of: None,
            charge_on: ChargeOn::Attempts,
            is_reset_by_success: false,
            permits: None,
            directory: None,
            on_error: None,
            unit: Unit::Attempts,
            kind: LimitKind::Rate,
        }
    }

    /// Whether its decisions are what this gate does: those of a candidate only show what another limit would do.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.candidate_of.is_none()
    }

    /// Whether attempts are refused by it.
    #[must_use]
    pub fn enforces(&self) -> bool {
        self.mode == Mode::Enforce && self.is_live()
    }

    /// What its decisions are for, in a word: its mode, or that it is a candidate.
    #[must_use]
    pub fn role(&self) -> &'static str {
        if self.candidate_of.is_some() { "candidate" } else { self.mode.name() }
    }

    /// What that adds to its worst case.
    #[must_use]
    pub fn describe_role(&self) -> Cow<'static, str> {
        match &self.candidate_of {
            Some(live) if self.mode != Mode::Off => {
                format!("; a candidate for `{live}`, nothing is refused").into()
            }
            _ => self.mode.describe().into(),
        }
    }

    /// Whether attempts of strangers cost more here while an alarm is on: limits for known owners and sub-limits stay as
    /// they are.
    #[must_use]
    pub fn charges_strangers(&self) -> bool {
        self.kind == LimitKind::Rate && !self.is_of_owners()
    }

    /// Whether attempts and failures of some weight count as several here: where there is a bucket for each address, and
    /// none for each account or password.
    #[must_use]
    pub fn charges_weights(&self) -> bool {
        self.kind == LimitKind::Rate
            && self.unit == Unit::Attempts
            && self.key.contains(&KeyPart::Ip)
            && !self.is_hidden()
    }

    /// The number and name of the client's class, and the bucket of that class; `None` if the limit exempts the client.
    /// `origin` says where the client comes from, `account` which account is charged, if the key has one.
    #[must_use]
    pub fn rate_of(
        &self,
        attempt: &Attempt<'_>,
        origin: AddressFacts,
        account: Option<Fingerprint>,
    ) -> Option<(usize, &str, Spec)> {
        if self.exempts(attempt.client) {
            return None;
        }
        if self.rates.classes().is_empty() {
            return Some((0, "", self.spec));
        }
        let class = account.and_then(|account| self.rates.of_user(account));
        let class = class.or_else(|| self.rates.of_headers(attempt.headers));
        let class = class.or_else(|| self.rates.of_monitor(attempt.tls?.monitor.as_deref()?));
        let class = class.or_else(|| self.rates.of_certificate(attempt.tls?.certificate.as_deref()?));
        let class = class.or_else(|| self.rates.of_address(attempt.client.known_ip()?));
        match class.or_else(|| self.rates.of_facts(origin)) {
            Some(rate) => rate.spec.map(|spec| (rate.number, &*rate.class, spec)),
            None => Some((0, "", self.spec)),
        }
    }

    /// Whether the limit exempts a client, whatever its account.
    pub(super) fn exempts(&self, client: Client) -> bool {
        client.known_ip().is_some_and(|ip| self.exempt.find_translated(ip).is_some())
    }

    /// Whether the limit may charge an attempt whose account is not known yet.
    pub(super) fn may_charge(&self, attempt: &Attempt<'_>, origin: impl FnOnce() -> AddressFacts) -> bool {
        let is_charged = || self.rates.lists_users() || self.rate_of(attempt, origin(), None).is_some();
        !self.exempts(attempt.client) && (!self.rates.frees_some() || is_charged())
    }

    /// Names and buckets of all classes of clients, by number.
    #[must_use]
    pub fn classes(&self) -> Vec<(Arc<str>, Option<Spec>)> {
        let others = self.rates.classes().iter().map(|rate| (Arc::clone(&rate.class), rate.spec));
        std::iter::once(("".into(), Some(self.spec))).chain(others).collect()
    }

    /// Whether the limit is never shown to clients: one that has a bucket for each account, owner or password. So an
    /// attacker does not learn which accounts exist or are under attack, or which passwords were tried.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let hides = |part: &KeyPart| matches!(part, KeyPart::User | KeyPart::Owner | KeyPart::Password);
        self.key.iter().any(hides)
    }

    /// Whether the key contains an account or an owner.
    #[must_use]
    pub fn is_of_accounts(&self) -> bool {
        self.key.iter().any(|part| matches!(part, KeyPart::User | KeyPart::Owner))
    }

    /// Whether there is a bucket for each password. Such buckets never leave the memory of their process.
    #[must_use]
    pub fn is_of_passwords(&self) -> bool {
        self.key.iter().any(|part| matches!(part, KeyPart::Password))
    }

    /// Whether there is a bucket for each account.
    pub(super) fn is_of_users(&self) -> bool {
        self.key.iter().any(|part| matches!(part, KeyPart::User))
    }

    /// Whether there is a bucket for each owner.
    pub(super) fn is_of_owners(&self) -> bool {
        self.key.iter().any(|part| matches!(part, KeyPart::Owner))
    }

    /// Whether clients see its numbers.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.kind == LimitKind::Rate && !self.is_hidden()
    }

    /// Whether all clients share the bucket of an account, so that one client can empty it for the others.
    #[must_use]
    pub fn is_account(&self) -> bool {
        self.is_of_users() && !self.key.iter().any(|part| matches!(part, KeyPart::Ip | KeyPart::Owner))
    }

    /// Whether there is a bucket for each address, whatever the account.
    #[must_use]
    pub fn is_of_addresses(&self) -> bool {
        !self.is_of_users() && self.key.contains(&KeyPart::Ip)
    }

    /// Whether a token that its bucket lacks is a failure of the account.
    #[must_use]
    pub fn counts_failures_of_accounts(&self) -> bool {
        let is_count = self.charge_on == ChargeOn::Failures && self.unit == Unit::Attempts;
        self.kind == LimitKind::Rate && self.is_account() && is_count
    }

    /// Whether one of these limits counts failures at a directory.
    pub(super) fn any_of_directory(limits: &[Self], positions: &[usize]) -> bool {
        positions.iter().any(|&at| limits.get(at).is_some_and(|limit| limit.directory.is_some()))
    }

    /// The most that credentials in several places of an attempt cost together. A directory may count each of them.
    pub(super) fn most_together(&self, spec: &Spec) -> u32 {
        if self.kind == LimitKind::Directory { u32::MAX } else { spec.burst() }
    }

    /// Whether the limit depends on the accounts of an attempt.
    #[must_use]
    pub fn needs_accounts(&self) -> bool {
        self.is_hidden() || matches!(self.unit, Unit::Users | Unit::Passwords)
    }

    /// Whether the limit depends on the passwords of an attempt.
    #[must_use]
    pub fn needs_passwords(&self) -> bool {
        self.is_of_passwords() || self.unit == Unit::Passwords
    }

    /// What a decision does to its bucket in addition to the tokens: it may count refusals in a row, and an admitted attempt
    /// breaks the row. `left` is what its verdict says, `is_refused` whether any bucket of the same limit refused.
    #[must_use]
    pub fn op_of_decision(
        &self,
        is_admitted: bool,
        left: u32,
        is_refused: impl FnOnce() -> bool,
    ) -> Option<Op> {
        match is_admitted {
            _ if self.kind != LimitKind::Escalation || self.charge_on != ChargeOn::Attempts => None,
            // Most keys have no strikes.
            true => (left < self.spec.burst()).then_some(Op::Give(1)),
            false => is_refused().then_some(Op::Strike),
        }
    }

    /// What an outcome does to its bucket. `receipt` is of the attempt, and `is_single_account` tells whether that was at one
    /// account.
    #[must_use]
    pub fn op_of_outcome(&self, outcome: Outcome, receipt: Receipt, is_single_account: bool) -> Option<Op> {
        // The bucket belongs to the account that signed in.
        let is_own = is_single_account && self.is_of_accounts();
        match (self.kind, outcome) {
            (LimitKind::Rate, Outcome::Success) if self.is_reset_by_success && is_own => {
                Some(Op::Give(u32::MAX))
            }
            _ if self.charge_on == ChargeOn::Attempts => None,
            (LimitKind::Escalation, Outcome::Failure) => Some(Op::Strike),
            (LimitKind::Escalation | LimitKind::Cap, Outcome::Success) if is_own => Some(Op::Give(u32::MAX)),
            (LimitKind::Escalation, _) | (_, Outcome::Failure) => None,
            // Of two accounts one may have failed.
            (LimitKind::Directory, Outcome::Success) if !is_single_account => None,
            (LimitKind::Rate | LimitKind::Cap | LimitKind::Directory, _) => Some(Op::Refund(receipt)),
        }
    }
}
