//! Admitted attempts whose outcome the application or the proxy reports later, behind a proxy that asked the gate for a decision.
//!
//! A receipt of 128 random bits names each attempt and can be used once. An attempt without a report is a failure, like one whose
//! client hung up: it keeps its charge. Each decision endpoint has its own table, so a receipt is worth nothing at another one.
//! Where nobody passes receipts on, what is known of the attempt makes its receipt, and several attempts may have the same one.
//! `proxy` checks who may report.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::{Engine, Reservation, Rules};
use crate::policy::account::Account;
use crate::policy::outcome::{Judgement, Outcome};
use crate::policy::random_bytes;
use crate::policy::response::{BodyPrefix, ResponseView};
use crate::time::Time;

/// The open attempts of one decision endpoint.
#[derive(Debug, Default)]
pub struct OpenAttempts(Mutex<Table>);

/// An admitted attempt, and what it is settled by.
#[derive(Debug)]
pub struct OpenAttempt {
    /// The tokens that it took.
    pub reservation: Box<Reservation>,
    /// The rules of its decision.
    pub rules: Arc<Rules>,
    /// Whether its client speaks TLS.
    pub is_secure: bool,
}

/// What is reported of an attempt.
#[derive(Debug)]
pub enum ReportedEnd {
    /// Its outcome.
    Outcome(Outcome),
    /// The head of the application's answer, which the rules of its decision judge.
    Answer {
        /// The status.
        status: StatusCode,
        /// The headers, as the application sent them.
        headers: HeaderMap,
    },
    /// The application gives no answer, or one that nobody sees.
    Unanswered,
}

impl ReportedEnd {
    /// What is reported by those who only know whether a password was right.
    #[must_use]
    pub fn of_password(is_right: bool) -> Self {
        Self::Outcome(if is_right { Outcome::Success } else { Outcome::Failure })
    }
}

/// What names an open attempt: 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptReceipt(u128);

/// The receipt is unknown, used or late, or belongs to the attempt of another account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receipt is unknown, used or late")]
pub struct NoSuchReceipt;

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// In the order of their decisions, with the time until which they may be reported.
    attempts: BTreeMap<u64, (AttemptReceipt, Time, OpenAttempt)>,
    numbers: BTreeSet<(AttemptReceipt, u64)>,
}

impl OpenAttempts {
    /// Open attempts at most; then the oldest is dropped.
    pub const MAX: usize = 100_000;

    /// Keeps an attempt until `deadline`. `None` if the system has no randomness: then it is a failure at once.
    pub fn open(&self, engine: &Engine, attempt: OpenAttempt, deadline: Time) -> Option<AttemptReceipt> {
        let Some(receipt) = AttemptReceipt::random() else {
            attempt.settle(engine, Judgement::UNANSWERED);
            return None;
        };
        self.open_as(engine, receipt, attempt, deadline);
        Some(receipt)
    }

    /// Keeps an attempt under this receipt until `deadline`.
    pub fn open_as(&self, engine: &Engine, receipt: AttemptReceipt, attempt: OpenAttempt, deadline: Time) {
        let oldest = self.table().insert(receipt, deadline, attempt);
        drop(oldest.map(|oldest| oldest.settle(engine, Judgement::UNANSWERED)));
    }

    /// Settles the attempt of a receipt. A `user` has to be its account, if it named a single one. Returns a
    /// `Set-Cookie` if its client becomes known as an owner.
    ///
    /// # Errors
    /// [`NoSuchReceipt`]; a receipt with another `user` stays open.
    pub fn report(
        &self,
        engine: &Engine,
        receipt: AttemptReceipt,
        user: Option<&str>,
        end: &ReportedEnd,
    ) -> Result<Option<HeaderValue>, NoSuchReceipt> {
        self.expire(engine);
        let user = user.map(|user| engine.hasher.log_id(&Account::fold(user.as_bytes())));
        let attempt = self.table().take(receipt, user).ok_or(NoSuchReceipt)?;
        Ok(attempt.settle_as(engine, end))
    }

    /// Takes the attempt of a receipt out, to be settled elsewhere; `None` if there is none.
    #[must_use]
    pub fn take(&self, receipt: AttemptReceipt) -> Option<OpenAttempt> {
        self.table().take(receipt, None)
    }

    /// Settles attempts whose time is over, as failures.
    pub fn expire(&self, engine: &Engine) {
        let now = engine.clock().now();
        loop {
            // One at a time, so that settling, which may take a while, holds no lock.
            let Some(late) = self.table().take_late(now) else { return };
            late.settle(engine, Judgement::UNANSWERED);
        }
    }

    /// Drops the attempts at one of these accounts, by the hashes that logs have, and returns their number; a dry run counts them. What
    /// they took stays taken, and no account has a failure by them.
    pub fn forget(&self, accounts: &[u64], is_dry_run: bool) -> usize {
        let mut table = self.table();
        let is_theirs = |attempt: &OpenAttempt| {
            attempt.reservation.attempt.facts.account.is_some_and(|account| accounts.contains(&account))
        };
        let found = table.attempts.iter().filter(|(_, (_, _, attempt))| is_theirs(attempt));
        let found: Vec<_> = found.map(|(number, (receipt, _, _))| (*receipt, *number)).collect();
        let mut dropped = Vec::new();
        for (receipt, number) in found.iter().filter(|_| !is_dry_run) {
            table.numbers.remove(&(*receipt, *number));
            dropped.extend(table.attempts.remove(number));
        }
        drop(table);
        // It may take a while, and so holds no lock.
        drop(dropped);
        found.len()
    }

    /// The number of open attempts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table().attempts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenAttempt {
    fn settle_as(mut self, engine: &Engine, end: &ReportedEnd) -> Option<HeaderValue> {
        match end {
            ReportedEnd::Outcome(outcome) => self.settle(engine, *outcome),
            ReportedEnd::Unanswered => self.settle(engine, Judgement::UNANSWERED),
            // What proxies note if their client goes before the answer.
            ReportedEnd::Answer { status, .. } if status.as_u16() == 499 => {
                self.settle(engine, Judgement::UNANSWERED)
            }
            ReportedEnd::Answer { status, headers } => {
                self.read_head(engine, headers);
                // The method tells only whether there is a body, and no body is reported.
                let view = ResponseView { method: &Method::POST, status: *status, headers };
                let judged = self.reservation.judge(&self.rules, &view, BodyPrefix::UNREAD);
                self.settle(engine, judged)
            }
        }
    }

    /// Remembers the cookies of an answer for second steps, and what the application demands.
    pub(super) fn read_head(&mut self, engine: &Engine, answer: &HeaderMap) {
        self.reservation.remember_new_cookies(engine, answer);
        self.reservation.read_demand(&self.rules, answer);
    }

    pub(super) fn settle(self, engine: &Engine, judged: impl Into<Judgement>) -> Option<HeaderValue> {
        self.reservation.settle_and_claim(engine, &self.rules, (judged.into(), engine.time()), self.is_secure)
    }

    fn is_of(&self, user: Option<u64>) -> bool {
        user.zip(self.reservation.attempt.facts.account).is_none_or(|(user, account)| user == account)
    }
}

impl Table {
    /// Returns the attempt that is dropped.
    fn insert(
        &mut self,
        receipt: AttemptReceipt,
        deadline: Time,
        attempt: OpenAttempt,
    ) -> Option<OpenAttempt> {
        let is_full = self.attempts.len() >= OpenAttempts::MAX;
        let oldest = if is_full { self.take_oldest() } else { None };
        self.attempts.insert(self.next, (receipt, deadline, attempt));
        self.numbers.insert((receipt, self.next));
        self.next = self.next.saturating_add(1);
        oldest
    }

    fn take(&mut self, receipt: AttemptReceipt, user: Option<u64>) -> Option<OpenAttempt> {
        let (_, number) = *self.numbers.range((receipt, 0)..=(receipt, u64::MAX)).next()?;
        self.attempts.get(&number).filter(|(_, _, attempt)| attempt.is_of(user))?;
        self.numbers.remove(&(receipt, number));
        self.attempts.remove(&number).map(|(_, _, attempt)| attempt)
    }

    fn take_late(&mut self, now: Time) -> Option<OpenAttempt> {
        let (_, (_, deadline, _)) = self.attempts.first_key_value()?;
        if *deadline > now { None } else { self.take_oldest() }
    }

    fn take_oldest(&mut self) -> Option<OpenAttempt> {
        let (number, (receipt, _, attempt)) = self.attempts.pop_first()?;
        self.numbers.remove(&(receipt, number));
        Some(attempt)
    }
}

impl AttemptReceipt {
    fn random() -> Option<Self> {
        random_bytes().map(|bytes| Self(u128::from_be_bytes(bytes)))
    }

    /// What these texts, which tell of an attempt, make its receipt: a keyed hash of them.
    #[must_use]
    pub fn of_texts<'t>(engine: &Engine, texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self(engine.hasher.of_texts(texts))
    }

    /// The number that its digits are.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl FromStr for AttemptReceipt {
    type Err = NoSuchReceipt;

    fn from_str(text: &str) -> Result<Self, NoSuchReceipt> {
        let is_receipt = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_receipt);
        number.map(Self).ok_or(NoSuchReceipt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Continuous, Span, Spec};
    use crate::engine::Decision;
    use crate::event::Events;
    use crate::policy::attempt::{Attempt, AttemptBody, Client};
    use crate::policy::{ChargeOn, Limit, Policy, Route};
    use crate::time::Clock;

    const BURST: u32 = 200_000;
    const SUCCESS: ReportedEnd = ReportedEnd::Outcome(Outcome::Success);

    fn engine() -> Engine {
        engine_by(Clock::system())
    }

    fn engine_by(clock: Clock) -> Engine {
        let spec = Spec::Continuous(Continuous::new(1, Span::from_secs(3600), BURST).unwrap());
        let limit = Limit { charge_on: ChargeOn::Failures, ..Limit::new("address", spec) };
        let route = Route { limits: vec![0], ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
        let policy = Policy::new(vec![route], vec![limit]);
        Engine::new(policy, 1000, clock, Events::default()).unwrap()
    }

    fn with_attempt<T>(act: impl FnOnce(&Attempt<'_>) -> T) -> T {
        act(&Attempt {
            method: &Method::POST,
            path: "/login",
            query: None,
            host: "",
            client: Client::from_ip([192, 0, 2, 1].into()),
            headers: &HeaderMap::new(),
            body: AttemptBody::Whole(&[]),
            descriptor: None,
            tls: None,
        })
    }

    fn admitted(engine: &Engine) -> OpenAttempt {
        let (rules, now) = (Arc::clone(&engine.rules()), engine.time());
        let decided = with_attempt(|attempt| engine.decide_in_memory(&rules, attempt, now)).unwrap();
        let Decision::Admitted(reservation) = decided else { panic!("the bucket is not empty") };
        OpenAttempt { reservation, rules, is_secure: false }
    }

    fn taken(engine: &Engine) -> u32 {
        let (_, statuses) = with_attempt(|attempt| engine.peek(&engine.rules(), attempt)).unwrap();
        BURST - statuses[0].verdict.left
    }

    #[test]
    fn beyond_the_bound_the_oldest_gives_way_and_its_charge_stays() {
        let (engine, open) = (engine(), OpenAttempts::default());
        let later = engine.clock().now().after(Span::from_secs(600));
        let mut receipts =
            (0..=OpenAttempts::MAX).map(|_| open.open(&engine, admitted(&engine), later).unwrap());
        let (first, second) = (receipts.next().unwrap(), receipts.next().unwrap());
        assert_eq!(receipts.count(), OpenAttempts::MAX - 1);
        assert_eq!(open.len(), OpenAttempts::MAX);
        assert_eq!(open.report(&engine, first, None, &SUCCESS), Err(NoSuchReceipt));
        assert_eq!(taken(&engine), 100_001);
        assert_eq!(open.report(&engine, second, None, &SUCCESS), Ok(None));
        assert_eq!((taken(&engine), open.len()), (100_000, OpenAttempts::MAX - 1));
    }

    #[test]
    fn what_is_late_is_forgotten_and_its_charge_stays() {
        let (engine, open) = (engine(), OpenAttempts::default());
        let receipt = open.open(&engine, admitted(&engine), engine.clock().now()).unwrap();
        assert_eq!(open.report(&engine, receipt, None, &SUCCESS), Err(NoSuchReceipt));
        assert!(open.is_empty());
        assert_eq!(taken(&engine), 1);
    }

    #[test]
    fn those_of_a_person_are_forgotten_and_no_others() {
        let (engine, open) = (engine(), OpenAttempts::default());
        let later = engine.clock().now().after(Span::from_secs(600));
        let receipts = [Some(7), None, Some(8)].map(|account| {
            let mut attempt = admitted(&engine);
            attempt.reservation.attempt.facts.account = account;
            open.open(&engine, attempt, later).unwrap()
        });
        assert_eq!((open.forget(&[7, 9], true), open.len()), (1, 3));
        assert_eq!((open.forget(&[7, 9], false), open.len()), (1, 2));
        let reported = receipts.map(|receipt| open.report(&engine, receipt, None, &SUCCESS).is_ok());
        assert_eq!((reported, taken(&engine)), ([false, true, true], 1), "its charge stays");
    }

    #[test]
    fn all_open_attempts_together_take_less_than_a_hundred_megabytes() {
        let one = size_of::<(u64, AttemptReceipt, Time, OpenAttempt, AttemptReceipt, u64)>()
            + size_of::<Reservation>();
        assert!(one < 1000, "{one}");
    }

    #[test]
    fn of_several_attempts_with_the_same_receipt_each_is_settled_once() {
        // What time has returned is not refunded again: it stands still.
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let (engine, open) = (engine_by(clock), OpenAttempts::default());
        let later = engine.clock().now().after(Span::from_secs(600));
        let of = |text| AttemptReceipt::of_texts(&engine, [text, "192.0.2.1"]);
        for name in ["anna", "anna", "bert"] {
            open.open_as(&engine, of(name), admitted(&engine), later);
        }
        let mut left = Vec::new();
        for name in ["anna", "bert", "anna", "anna", "bert"] {
            let is_settled = open.report(&engine, of(name), None, &SUCCESS).is_ok();
            left.push((is_settled, taken(&engine)));
        }
        assert_eq!(left, [(true, 2), (true, 1), (true, 0), (false, 0), (false, 0)]);
    }

    #[test]
    fn a_receipt_is_32_hexadecimal_digits_and_no_other_number() {
        let receipt = AttemptReceipt::random().unwrap();
        assert_eq!(format!("{:032x}", receipt.0).parse(), Ok(receipt));
        assert_eq!("0".repeat(31).parse::<AttemptReceipt>(), Err(NoSuchReceipt));
        assert_eq!(format!("+{}", "0".repeat(31)).parse::<AttemptReceipt>(), Err(NoSuchReceipt));
    }
}
