//! Counts attempts, in the order of their decisions, next to what operators changed meanwhile.

use std::sync::Arc;

use super::EvidenceError;
use super::accounts::AccountRows;
use super::block::{EvidenceBlock, ShownAttempt, ShownVerdict};
use super::report::{
    AttemptFigures, DecisionEvidence, LimitFigures, PromiseFigures, RouteFigures, ShownLine,
};
use super::table::{EvidenceTable, LimitPromise, WindowKey};
use super::windows::AttemptWindows;
use crate::event::LimitDecision;
use crate::observe::timestamp::rfc3339;
use crate::policy::attempt::Client;
use crate::replay::timeline::Timeline;
use crate::time::{Span, Time};

/// A change that buckets or the configuration had.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeNote {
    /// When.
    pub at: Time,
    /// The buckets that may be full again.
    pub touched: BucketsTouched,
    /// The limits that it is about; none if it is about all.
    pub limits: Vec<String>,
    /// Until when these buckets have an own rate or an exemption; not after `at` if that has ended.
    pub until: Option<Time>,
    /// Whether failures of the account begin a new row.
    pub ends_row: bool,
    /// Whether limits may have promised something else before.
    pub is_of_configuration: bool,
}

/// Buckets that may be full again after a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BucketsTouched {
    /// Those of an account.
    Account(u64),
    /// Those of a client.
    Client(Client),
    /// All.
    All,
}

impl BucketsTouched {
    fn have(self, promise: &LimitPromise, (client, account): &WindowKey) -> bool {
        match self {
            Self::All => true,
            Self::Account(touched) => *account == Some(touched),
            Self::Client(touched) => *client == Some(promise.masked(touched)),
        }
    }
}

/// The figures so far.
pub(super) struct EvidenceTally<'t> {
    table: &'t EvidenceTable,
    since: Time,
    report: DecisionEvidence,
    access_log: Option<Arc<str>>,
    first: Option<Time>,
    last: Option<Time>,
    /// The last attempt that was read: there may be more lines about it.
    last_read: Option<ShownAttempt>,
    waiting: Timeline<ShownAttempt>,
    /// When the last attempt was decided that was counted.
    counted_until: Time,
    notes: std::vec::IntoIter<ChangeNote>,
    next_note: Option<ChangeNote>,
    /// Before this another configuration may have been in force.
    configured: Time,
    routes: Vec<AttemptFigures>,
    limits: Vec<PromiseTally>,
    accounts: AccountRows,
}

struct PromiseTally {
    figures: LimitFigures,
    watched: Option<(LimitPromise, AttemptWindows)>,
    /// Buckets with an own rate or an exemption, and until when: the promise is not about them.
    loosened: Vec<(BucketsTouched, Time)>,
}

impl<'t> EvidenceTally<'t> {
    pub(super) fn new(table: &'t EvidenceTable, mut notes: Vec<ChangeNote>, since: Time) -> Self {
        notes.sort_by_key(|note| note.at);
        let configured = notes.iter().rfind(|note| note.is_of_configuration).map(|note| note.at);
        let mut notes = notes.into_iter();
        Self {
            table,
            since,
            report: DecisionEvidence::default(),
            access_log: None,
            first: None,
            last: None,
            last_read: None,
            waiting: Timeline::new(),
            counted_until: Time::default(),
            next_note: notes.next(),
            notes,
            configured: configured.unwrap_or_default(),
            routes: vec![AttemptFigures::default(); table.routes.len()],
            limits: table.limits.iter().map(PromiseTally::of).collect(),
            accounts: AccountRows::new(),
        }
    }

    pub(super) fn add(&mut self, block: EvidenceBlock) {
        self.report.lines += block.lines;
        self.report.unreadable += block.unreadable;
        if self.report.first_unreadable.is_none() {
            self.report.first_unreadable = block.first_unreadable;
        }
        self.access_log = self.access_log.take().or(block.access_log);
        self.first = [self.first, block.first].into_iter().flatten().min();
        self.last = self.last.max(block.last);
        block
            .hours
            .into_iter()
            .for_each(|(hour, lines)| *self.report.hours.entry(hour).or_default() += lines);
        for attempt in block.attempts {
            let next = match &mut self.last_read {
                Some(last) => last.merge(attempt),
                None => Some(attempt),
            };
            if let Some(next) = next
                && let Some(last) = self.last_read.replace(next)
            {
                self.take_turn(last);
            }
        }
    }

    fn take_turn(&mut self, attempt: ShownAttempt) {
        self.waiting.observe(attempt.decided, attempt);
        while let Some((_, due)) = self.waiting.pop_due() {
            self.count(&due);
        }
    }

    fn count(&mut self, attempt: &ShownAttempt) {
        while let Some(note) = self.next_note.take_if(|note| note.at <= attempt.decided) {
            self.change(note);
            self.next_note = self.notes.next();
        }
        let figures = figures_of(attempt);
        self.report.attempts.add(figures);
        match attempt.route.and_then(|route| self.routes.get_mut(route)) {
            Some(route) => route.add(figures),
            None => self.report.at_unknown_routes += 1,
        }
        let is_late = attempt.decided < self.counted_until;
        self.report.late += u64::from(is_late);
        self.counted_until = self.counted_until.max(attempt.decided);
        let is_configured = attempt.decided >= self.configured;
        for verdict in &attempt.verdicts {
            if let Some(limit) = self.limits.get_mut(verdict.limit) {
                limit.count(attempt, *verdict, is_late, is_configured);
            }
        }
        if let Some(account) = attempt.account {
            self.count_account(attempt, account);
        }
    }

    fn count_account(&mut self, attempt: &ShownAttempt, account: u64) {
        if attempt.is_refused {
            self.accounts.refused(account);
        } else if attempt.has_signed_in {
            self.accounts.end_row(account);
        } else if attempt.has_failed {
            let (row, recent) = self.accounts.failed(account, attempt.decided);
            let line = attempt.verdicts.first().map_or(0, |verdict| verdict.line);
            let place = || Some(ShownLine::new(&attempt.log, line, attempt.decided));
            let accounts = &mut self.report.accounts;
            if row > accounts.longest_row {
                (accounts.longest_row, accounts.longest_row_at) = (row, place());
            }
            if recent > accounts.most_in_half_an_hour {
                (accounts.most_in_half_an_hour, accounts.most_at) = (recent, place());
            }
        }
    }

    fn change(&mut self, note: ChangeNote) {
        if let BucketsTouched::Account(account) = note.touched
            && note.ends_row
        {
            self.accounts.end_row(account);
        }
        let is_meant =
            |limit: &&mut PromiseTally| note.limits.is_empty() || note.limits.contains(&limit.figures.limit);
        self.limits.iter_mut().filter(is_meant).for_each(|limit| limit.change(&note));
    }

    pub(super) fn finish(mut self) -> Result<DecisionEvidence, EvidenceError> {
        if let Some(last) = self.last_read.take() {
            self.waiting.observe(last.decided, last);
        }
        while let Some((_, due)) = self.waiting.pop() {
            self.count(&due);
        }
        if let Some(log) = self.access_log {
            return Err(EvidenceError::AccessLog(log.to_string()));
        }
        let mut report = self.report;
        report.from = self.first.map(rfc3339).or_else(|| self.last.map(|_| rfc3339(self.since)));
        report.to = self.last.map(rfc3339);
        let routes = self.table.routes.iter().zip(self.routes);
        report.routes =
            routes.map(|(route, attempts)| RouteFigures { route: route.to_string(), attempts }).collect();
        report.limits = self.limits.into_iter().map(PromiseTally::finish).collect();
        report.accounts.attacked = self.accounts.attacked();
        report.accounts.exact = self.accounts.left_out == 0;
        Ok(report)
    }
}

impl PromiseTally {
    fn of(limit: &super::WatchedLimit) -> Self {
        let promise = limit.promise.as_ref().ok();
        let watched = promise.map(|promise| (*promise, AttemptWindows::new(promise.window, promise.most)));
        let figures = LimitFigures {
            limit: limit.name.to_string(),
            admitted: 0,
            refused: 0,
            observed: 0,
            exempt: 0,
            promise: promise.map(PromiseFigures::of),
            not_shown: limit.promise.as_ref().err().copied(),
        };
        Self { figures, watched, loosened: Vec::new() }
    }

    fn change(&mut self, note: &ChangeNote) {
        if let Some(until) = note.until {
            self.loosen(note.at, note.touched, until);
        }
        let Some((promise, windows)) = &mut self.watched else { return };
        match note.touched {
            BucketsTouched::All => windows.forget_all(),
            BucketsTouched::Account(account) => windows.forget_account(account),
            BucketsTouched::Client(client) => windows.forget_client(promise.masked(client)),
        }
    }

    /// These buckets keep to no promise until then, or do again.
    fn loosen(&mut self, now: Time, touched: BucketsTouched, until: Time) {
        let is_ended = until <= now;
        self.loosened.retain(|(known, end)| *end > now && !(is_ended && *known == touched));
        if is_ended {
            return;
        }
        match self.loosened.iter_mut().find(|(known, _)| *known == touched) {
            // It may be about another bucket, as of an account at one address: the line with the later end counts.
            Some((_, end)) => *end = until.max(*end),
            None => self.loosened.push((touched, until)),
        }
        if self.loosened.len() > MAX_LOOSENED {
            let last = self.loosened.iter().map(|(_, end)| *end).max().unwrap_or(until);
            self.loosened = vec![(BucketsTouched::All, last)];
        }
    }

    fn count(&mut self, attempt: &ShownAttempt, verdict: ShownVerdict, is_late: bool, is_configured: bool) {
        let figures = &mut self.figures;
        match verdict.decision {
            LimitDecision::Admit => figures.admitted += 1,
            LimitDecision::Refuse => figures.refused += 1,
            LimitDecision::Observe => figures.observed += 1,
            LimitDecision::Exempt => figures.exempt += 1,
        }
        let (Some((promise, windows)), Some(shown)) = (&mut self.watched, &mut figures.promise) else {
            return;
        };
        // Owners have their own buckets, which a log does not tell apart. And where another limit refused the attempt, it
        // took nothing here.
        let is_elsewhere = promise.is_by_account && attempt.is_owner;
        if is_elsewhere || verdict.decision != LimitDecision::Admit || attempt.is_refused || is_late {
            return;
        }
        let Some(key) = promise.key_of(attempt.client, attempt.account) else {
            // A hash, or a person who was forgotten. Without an account the client pays, which is no bucket of this promise.
            let is_hidden = promise.is_by_client && attempt.client.is_none_or(|client| client.ip().is_none());
            windows.left_out += u64::from(is_hidden);
            return;
        };
        if promise.is_reset_by_success && promise.is_by_account && attempt.has_signed_in {
            return windows.forget(&key);
        }
        if promise.counts_failures && !attempt.has_failed {
            return;
        }
        let is_loose = |(touched, until): &(BucketsTouched, Time)| {
            attempt.decided < *until && touched.have(promise, &key)
        };
        if self.loosened.iter().any(is_loose) {
            windows.left_out += 1;
            return;
        }
        let count = windows.add(key, attempt.decided);
        let place = || Some(ShownLine::new(&attempt.log, verdict.line, attempt.decided));
        if count > shown.greatest {
            (shown.greatest, shown.greatest_at) = (count, place());
        }
        if count > promise.most && is_configured {
            shown.broken_at = shown.broken_at.take().or_else(place);
        } else if count > promise.most {
            shown.over_before += 1;
        }
    }

    fn finish(mut self) -> LimitFigures {
        if let (Some((_, windows)), Some(shown)) = (&self.watched, &mut self.figures.promise) {
            shown.left_out = windows.left_out;
        }
        self.figures
    }
}

impl PromiseFigures {
    fn of(promise: &LimitPromise) -> Self {
        Self {
            counts: if promise.counts_failures { "failures" } else { "attempts" },
            window: seconds(promise.window),
            most: promise.most,
            greatest: 0,
            greatest_at: None,
            broken_at: None,
            over_before: 0,
            left_out: 0,
        }
    }
}

fn figures_of(attempt: &ShownAttempt) -> AttemptFigures {
    let is_admitted = !attempt.is_refused;
    let of = |is: bool| u64::from(is);
    let (signed_in, failed) = (is_admitted && attempt.has_signed_in, is_admitted && attempt.has_failed);
    AttemptFigures {
        all: 1,
        admitted: of(is_admitted),
        refused: of(attempt.is_refused),
        would_refuse: of(is_admitted && attempt.is_observed),
        exempt: of(is_admitted && attempt.is_exempt),
        signed_in: of(signed_in),
        failed: of(failed),
        unknown: of(is_admitted && !signed_in && !failed),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// Buckets of a limit with own rates that are told apart; with more, all of them count as such.
const MAX_LOOSENED: usize = 1_000;
