//! Optional defences of a route: what one may do with an attempt, and when.
//!
//! A defence is a module of a higher layer, with its keys, its state and its words. The policy asks each what it notes of
//! an attempt, and knows none by name. What follows from a note is left to the engine.

mod read_attempt;

use std::any::Any;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};

pub use self::read_attempt::ReadAttempt;

use super::alarm::Alarm;
use super::byte_limit::{ByteLimit, Pace};
use super::cost_factors::CostFactors;
use super::limit::Limit;
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

    /// What else it notes of an attempt of which it notes anything.
    fn further_notes(&self, _: &ReadAttempt<'_>) -> Vec<AttemptNote> {
        Vec::new()
    }

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

    /// Whether it lets failures go uncharged, by [`charges_failure`](Self::charges_failure).
    fn forgives_failures(&self) -> bool {
        false
    }

    /// Whether a failure is charged as one; asked once, when an answer said that the attempt has failed, and only if all
    /// routes that count it have this note.
    fn charges_failure(&self, _: AttemptNote, _: FailedAttempt) -> bool {
        true
    }

    /// Takes notice of what came of an attempt; told once for each route that counts it.
    fn settled(&self, _: AttemptNote, _: SettledAttempt) {}

    /// By what the body of the answer passes, once the attempt is admitted.
    fn pace(&self, _: AttemptNote) -> Option<Pace> {
        None
    }

    /// The limits of the file that count bytes, if it is about them.
    fn byte_limits(&self) -> &[Arc<dyn ByteLimit>] {
        &[]
    }

    /// The numbers of those that apply to its route.
    fn byte_limits_here(&self) -> &[usize] {
        &[]
    }

    /// The same with its limits changed, if it has any: what an operator changes for a while.
    fn with_limits(&self, _change: &dyn Fn(&mut Limit)) -> Option<Arc<dyn Defence>> {
        None
    }

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

    /// Changes the limits that belong to them.
    pub fn change_limits(&mut self, change: &dyn Fn(&mut Limit)) {
        for defence in &mut self.list {
            if let Some(changed) = defence.with_limits(change) {
                *defence = changed;
            }
        }
        self.needs = self.iter().map(Defence::needs).fold(Needs::default(), Needs::or);
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

    /// The limits of the file that count bytes, if one of them applies to the route.
    pub(super) fn byte_limits(&self) -> &[Arc<dyn ByteLimit>] {
        self.iter().map(Defence::byte_limits).find(|limits| !limits.is_empty()).unwrap_or_default()
    }

    /// Those of them that apply to the route.
    pub fn byte_limits_here(&self) -> impl Iterator<Item = &Limit> {
        self.iter().flat_map(|defence| {
            let here = defence.byte_limits_here().iter();
            here.filter_map(|&number| Some(defence.byte_limits().get(number)?.limit()))
        })
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
                let noted = |note| DefenceNote { route, defence: Arc::clone(defence), note };
                self.0.push(noted(note));
                self.0.extend(defence.further_notes(attempt).into_iter().map(noted));
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

    /// The paces of the body of the answer; boxed, because few have any. Each bucket counts once, also with several routes.
    #[must_use]
    pub fn paces(&self) -> Option<Box<[Pace]>> {
        if self.0.is_empty() {
            return None;
        }
        let paces = self.distinct().filter_map(|(noted, _)| noted.defence.pace(noted.note));
        Some(paces.collect::<Box<[_]>>()).filter(|paces| !paces.is_empty())
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
