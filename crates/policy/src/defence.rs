//! Optional defences of a route: what one may do with an attempt, and when.
//!
//! A defence is a module of a higher layer, with its keys, its state and its words. The policy asks each what it notes of
//! an attempt, and knows none by name. What follows from a note is left to the engine.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use http::header::CONTENT_ENCODING;
use http::{HeaderName, HeaderValue, StatusCode};

use super::alarm::Alarm;
use super::attempt::{Attempt, AttemptBody, SearchedBody};
use super::client_fact::AddressFacts;
use super::cost_factors::CostFactors;
use super::field::Passwords;
use super::fingerprint::Fingerprint;
use super::key::{KeyHasher, NamedAccount, PrefixLengths, write_bytes};
use super::network::NetworkSet;
use super::outcome::Outcome;
use tollgate_bucket::Time;

/// One optional defence of one route. Every point of an attempt's way has a default that does nothing.
pub trait Defence: Any + std::fmt::Debug + Send + Sync {
    /// The key that turns it on.
    fn name(&self) -> &'static str;

    /// Its worst case, in words, if limits alone do not say it.
    fn describe(&self) -> Option<String> {
        None
    }

    /// Its settings in the file: two with the same settings are one.
    fn settings(&self) -> String {
        self.describe().unwrap_or_default()
    }

    /// What has to be read of an attempt for it.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What it notes of an attempt, as one route reads it.
    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote>;

    /// The counter of the attempts that it notes anything of.
    fn counter(&self) -> Option<&'static DefenceCounter> {
        None
    }

    /// Why the attempt is refused, whatever the limits say; nothing is taken for it.
    fn refusal(&self, _: AttemptNote) -> Option<&'static DefenceRefusal> {
        None
    }

    /// As how many times its cost the rates of this route charge the attempt, from 1, as far as a bucket holds it.
    fn cost_factor(&self, _: AttemptNote) -> u32 {
        1
    }

    /// The same for limits by address alone.
    fn address_cost_factor(&self, _: AttemptNote) -> u32 {
        1
    }

    /// How many times its cost an attempt of a stranger takes now, from 1, where limits charge strangers; `None` while
    /// attempts cost what they always do.
    fn strangers_factor(&self, _: AttemptNote, _: Time) -> Option<u32> {
        None
    }

    /// The header in which the application is told of it, once it is admitted. No client may send it.
    fn mark(&self, _: AttemptNote) -> Option<(HeaderName, HeaderValue)> {
        None
    }

    /// The step of an explanation, and its text.
    fn explain(&self, _: AttemptNote) -> Option<(&'static str, String)> {
        None
    }

    /// Whether no person makes such attempts: logs say so.
    fn is_of_nobody(&self, _: AttemptNote) -> bool {
        false
    }

    /// As how many attempts this one counts for the address of its client, from 1; asked once it is admitted.
    fn weight_of_attempt(&self, _: AttemptNote) -> u32 {
        1
    }

    /// As how many failures this one counts for the address of its client, from 1; asked once, when the attempt has
    /// failed.
    fn weight_of_failure(&self, _: AttemptNote, _: FailedAttempt) -> u32 {
        1
    }

    /// Whether a failure is charged as one; asked once, when an answer said that the attempt has failed, and only if all
    /// routes that count it have this note.
    fn charges_failure(&self, _: AttemptNote, _: FailedAttempt) -> bool {
        true
    }

    /// Takes notice of what came of an attempt; told once for each route that counts it.
    fn settled(&self, _: AttemptNote, _: SettledAttempt) {}

    /// The alarm that it may raise.
    fn alarm(&self) -> Option<&dyn Alarm> {
        None
    }

    /// Takes over what the same defence of the same route knows by the former rules.
    fn carry_over(&mut self, _: &dyn Defence) {}

    /// Takes over what all routes share, from the same defence of any route of the former rules.
    fn share(&mut self, _: &dyn Defence) {}
}

/// What has to be read of each attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The accounts that it names.
    pub accounts: bool,
    /// The passwords that it carries.
    pub passwords: bool,
    /// The same as `accounts`, but only where the route has names for them, and where nobody else needs them they may be
    /// illegible.
    pub accounts_if_legible: bool,
    /// The whole body, as far as the route reads bodies.
    pub body: bool,
    /// Whether an attempt is refused if these cannot be read.
    pub is_strict: bool,
}

impl Needs {
    fn or(self, other: Self) -> Self {
        Self {
            accounts: self.accounts || other.accounts,
            passwords: self.passwords || other.passwords,
            accounts_if_legible: self.accounts_if_legible || other.accounts_if_legible,
            body: self.body || other.body,
            is_strict: self.is_strict || other.is_strict,
        }
    }

    /// Whether the identity of an attempt has to be read.
    pub(super) fn identity(self) -> bool {
        self.accounts || self.passwords
    }
}

/// A counter of attempts, for each route.
#[derive(Debug, PartialEq, Eq)]
pub struct DefenceCounter {
    /// Its name in metrics.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
}

/// A refusal by no limit: time does not help.
#[derive(Debug, PartialEq, Eq)]
pub struct DefenceRefusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason, for operators.
    pub why: &'static str,
    /// What the client reads: the remedy, and nothing of the request.
    pub detail: &'static str,
}

/// What a defence keeps of an attempt until it is settled; what the numbers mean, the defence knows. Where one answer is
/// given for the notes of several routes, the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptNote(pub u64, pub u64);

/// When a failed attempt came and when it failed, by the clock of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempt {
    /// When it was decided.
    pub decided: Time,
    /// Now.
    pub failed: Time,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledAttempt {
    /// The account, if it is at a single one.
    pub account: Option<u64>,
    /// What came of it.
    pub outcome: Outcome,
    /// Now, by the clock of the store.
    pub at: Time,
    /// Whether another route has noted the same, and was told before.
    pub is_told: bool,
}

/// An attempt, as one route reads it.
#[derive(Clone, Copy)]
pub struct ReadAttempt<'a> {
    pub(super) attempt: &'a Attempt<'a>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now: Time,
    pub(super) origin: AddressFacts,
    /// Whether its client is known as the owner of its account.
    pub(super) is_owner: bool,
    /// What it names; nothing if the body was not read yet, or nobody needs accounts.
    pub(super) named: &'a [NamedAccount],
    /// Its passwords; `None` if the body was not read yet, or nobody needs them.
    pub(super) passwords: Option<&'a Passwords>,
}

impl ReadAttempt<'_> {
    /// Whether its client has an address in one of these networks.
    #[must_use]
    pub fn is_from(&self, networks: &NetworkSet) -> bool {
        self.attempt.client.known_ip().is_some_and(|ip| networks.find_translated(ip).is_some())
    }

    /// Whether its client is known as the owner of the account that it names.
    #[must_use]
    pub fn is_of_owner(&self) -> bool {
        self.is_owner
    }

    /// The hash of its client, whose addresses of one prefix are one; `None` for one without its own address.
    #[must_use]
    pub fn client(&self, prefixes: PrefixLengths) -> Option<u64> {
        self.attempt.client.known_ip()?;
        Some(self.any_client(prefixes))
    }

    /// The same; all clients without an address count as one.
    #[must_use]
    pub fn any_client(&self, prefixes: PrefixLengths) -> u64 {
        self.hasher.tag_of_client(prefixes, self.attempt.client)
    }

    /// The hash of the autonomous system of its client, or of the client's network where that is unknown; `None` for one
    /// without its own address.
    #[must_use]
    pub fn network(&self) -> Option<u64> {
        self.hasher.tag_of_network(self.origin, self.attempt.client)
    }

    /// Whether it names one of these accounts, and its client is not known as the owner.
    #[must_use]
    pub fn is_strangers_at(&self, accounts: &HashSet<Fingerprint>) -> bool {
        let mut strangers = self.named.iter().filter(|named| named.owner.is_none());
        strangers.any(|named| named.listed.is_some_and(|account| accounts.contains(&account)))
    }

    /// The passwords that it carries, decoded as by the application.
    pub fn passwords(&self) -> impl Iterator<Item = &[u8]> {
        self.passwords.into_iter().flat_map(Passwords::iter)
    }

    /// The hash of the whole request, under a key that lives for a day in the memory of this process; `None` if its body
    /// is not known as it is sent. Only lines that proxies and libraries write again for each request are left out.
    #[must_use]
    pub fn whole(&self) -> Option<AttemptNote> {
        let Attempt { method, path, query, host, headers, body, descriptor: None, .. } = self.attempt else {
            return None;
        };
        let (AttemptBody::Whole(body) | AttemptBody::Searched(SearchedBody { bytes: body, .. })) = *body
        else {
            return None;
        };
        // An application may find more in a coding than was decoded here.
        if headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        let whole = self.hasher.of(|hasher| {
            for part in [method.as_str(), path, host, query.unwrap_or("?")] {
                write_bytes(hasher, b'g', part.as_bytes());
            }
            for (name, value) in headers.iter().filter(|(name, _)| !NEW_EACH_TIME.contains(&name.as_str())) {
                write_bytes(hasher, b'g', name.as_str().as_bytes());
                write_bytes(hasher, b'g', value.as_bytes());
            }
            write_bytes(hasher, b'g', body);
        });
        let [high, low] = self.hasher.of_the_day(&whole.to_be_bytes(), self.now)?;
        Some(AttemptNote(high, low))
    }
}

/// The defences that a route has turned on.
#[derive(Debug, Clone, Default)]
pub struct RouteDefences {
    list: Vec<Arc<dyn Defence>>,
    needs: Needs,
}

impl RouteDefences {
    /// With another one.
    pub fn add(&mut self, defence: impl Defence) {
        self.needs = self.needs.or(defence.needs());
        self.list.push(Arc::new(defence));
    }

    /// Whether the route has turned on none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Defence> {
        self.list.iter().map(|defence| &**defence)
    }

    /// The counters of all of them.
    pub fn counters(&self) -> impl Iterator<Item = &'static DefenceCounter> {
        self.iter().filter_map(Defence::counter)
    }

    /// What has to be read for any of them.
    pub(super) fn needs(&self) -> Needs {
        self.needs
    }

    /// The alarms that they may raise.
    pub fn alarms(&self) -> impl Iterator<Item = &dyn Alarm> {
        self.iter().filter_map(Defence::alarm)
    }

    /// Takes over what those of the former rules know: of the same route, and what all routes share.
    pub(super) fn carry_over(&mut self, former: Option<&Self>, all: &[&Self]) {
        for defence in self.list.iter_mut().filter_map(Arc::get_mut) {
            let name = defence.name();
            if let Some(former) = all.iter().find_map(|of_route| of_route.named(name)) {
                defence.share(former);
            }
            if let Some(former) = former.and_then(|of_route| of_route.named(name)) {
                defence.carry_over(former);
            }
        }
    }

    fn named(&self, name: &str) -> Option<&dyn Defence> {
        self.iter().find(|defence| defence.name() == name)
    }
}

/// Two are equal if their settings in the file are: what they know of attempts makes no difference.
impl PartialEq for RouteDefences {
    fn eq(&self, other: &Self) -> bool {
        let settings = |defences: &Self| {
            defences.iter().map(|defence| (defence.name(), defence.settings())).collect::<Vec<_>>()
        };
        settings(self) == settings(other)
    }
}

/// What the defences of all routes that count an attempt noted of it.
#[derive(Debug, Clone, Default)]
pub struct AttemptNotes(Vec<DefenceNote>);

#[derive(Debug, Clone)]
struct DefenceNote {
    /// The position of its route.
    route: usize,
    defence: Arc<dyn Defence>,
    note: AttemptNote,
}

impl AttemptNotes {
    /// Adds what the defences of a route note. Returns as how many times its cost this route charges the attempt.
    pub(super) fn add(
        &mut self,
        route: usize,
        defences: &RouteDefences,
        attempt: &ReadAttempt<'_>,
    ) -> CostFactors {
        let mut factors = CostFactors { rates: 1, addresses: 1 };
        for defence in &defences.list {
            if let Some(note) = defence.note(attempt) {
                factors.rates = factors.rates.max(defence.cost_factor(note));
                factors.addresses = factors.addresses.max(defence.address_cost_factor(note));
                self.0.push(DefenceNote { route, defence: Arc::clone(defence), note });
            }
        }
        factors
    }

    /// Whether no person makes such attempts.
    pub(super) fn is_of_nobody(&self) -> bool {
        self.0.iter().any(|noted| noted.defence.is_of_nobody(noted.note))
    }

    /// Whether nothing was noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this counter counts the attempt.
    #[must_use]
    pub fn are_counted(&self, counter: &DefenceCounter) -> bool {
        self.0.iter().any(|noted| noted.defence.counter() == Some(counter))
    }

    /// Whether none of them refuses the attempt, or counts it.
    pub(super) fn are_silent(&self) -> bool {
        let is_silent = |DefenceNote { defence, note, .. }: &DefenceNote| {
            defence.counter().is_none() && defence.refusal(*note).is_none()
        };
        self.0.iter().all(is_silent)
    }

    /// Why the attempt is refused, whatever the limits say.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static DefenceRefusal> {
        self.0.iter().find_map(|noted| noted.defence.refusal(noted.note))
    }

    /// The headers in which the application is told of the attempt.
    pub fn marks(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.0.iter().filter_map(|noted| noted.defence.mark(noted.note))
    }

    /// The steps of an explanation, at most one of each defence.
    pub fn explain(&self) -> impl Iterator<Item = (&'static str, String)> {
        let is_greatest = |noted: &&DefenceNote| {
            let mut same = self.0.iter().filter(|other| other.defence.name() == noted.defence.name());
            same.all(|other| other.note <= noted.note)
        };
        self.distinct()
            .map(|(noted, _)| noted)
            .filter(is_greatest)
            .filter_map(|noted| noted.defence.explain(noted.note))
    }

    /// The routes on which an attempt of a stranger costs more now, each with its factor.
    pub fn strangers_factors(&self, now: Time) -> impl Iterator<Item = (usize, u32)> {
        self.0
            .iter()
            .filter_map(move |noted| Some((noted.route, noted.defence.strangers_factor(noted.note, now)?)))
    }

    /// As how many attempts this one counts for the address of its client, from 1.
    #[must_use]
    pub fn weight_of_attempt(&self) -> u32 {
        self.distinct().map(|(noted, _)| noted.defence.weight_of_attempt(noted.note)).max().unwrap_or(1)
    }

    /// Tells what came of the attempt; to be called once.
    pub fn settled(&self, account: Option<u64>, outcome: Outcome, at: Time) {
        for (place, noted) in self.0.iter().enumerate() {
            let is_told = self.0.iter().take(place).any(|earlier| earlier.is_same(noted));
            noted.defence.settled(noted.note, SettledAttempt { account, outcome, at, is_told });
        }
    }

    /// As how many failures this one counts for the address of its client, from 1; to be asked once.
    #[must_use]
    pub fn weight_of_failure(&self, attempt: FailedAttempt) -> u32 {
        let weights = self.distinct().map(|(noted, _)| noted.defence.weight_of_failure(noted.note, attempt));
        weights.max().unwrap_or(1)
    }

    /// Whether a failure is charged as one; to be asked once. So many routes count the attempt, and it is charged unless all
    /// of them have the note: a client can have a route count it that would forgive what another one must not.
    #[must_use]
    pub fn charge_failure(&self, attempt: FailedAttempt, routes: usize) -> bool {
        let mut agreed = self.distinct().filter(|(_, notes)| *notes == routes);
        agreed.all(|(noted, _)| noted.defence.charges_failure(noted.note, attempt))
    }

    /// Of equal notes of one defence the last one, and how many routes have it.
    fn distinct(&self) -> impl Iterator<Item = (&DefenceNote, usize)> {
        self.0.iter().enumerate().filter_map(|(place, noted)| {
            let is_last = !self.0.iter().skip(place + 1).any(|later| later.is_same(noted));
            is_last.then(|| (noted, self.0.iter().filter(|other| other.is_same(noted)).count()))
        })
    }
}

impl DefenceNote {
    fn is_same(&self, other: &Self) -> bool {
        self.note == other.note && self.defence.name() == other.defence.name()
    }
}

/// Lines of a request that is sent again which differ although its sender means the same. No application takes a password
/// from them.
const NEW_EACH_TIME: [&str; 10] = [
    "date",
    "forwarded",
    "traceparent",
    "tracestate",
    "via",
    "x-forwarded-for",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];
