//! What a block of lines tells of attempts. It runs in several threads at once, and knows nothing of other blocks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::table::EvidenceTable;
use crate::event::LimitDecision;
use crate::observe::line_log::hour_of;
use crate::policy::attempt::Client;
use crate::replay::input::LineBlock;
use crate::replay::line::{GateLine, parse_gate_line};
use crate::replay::pipeline::{lines, unreadable};
use crate::replay::report::UnreadableLine;
use crate::time::Time;

/// What a block of lines tells.
#[derive(Debug, Default)]
pub(super) struct EvidenceBlock {
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    pub(super) first_unreadable: Option<UnreadableLine>,
    /// The log, if it is an access log.
    pub(super) access_log: Option<Arc<str>>,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    /// Lines by the hour of their requests, also of those before the time that counts.
    pub(super) hours: Vec<(u64, u64)>,
    pub(super) attempts: Vec<ShownAttempt>,
}

/// An attempt, or some of its lines.
#[derive(Debug)]
pub(super) struct ShownAttempt {
    pub(super) decided: Time,
    /// Its number; `None` if the configuration does not have the route.
    pub(super) route: Option<usize>,
    pub(super) client: Option<Client>,
    pub(super) account: Option<u64>,
    /// How it was settled, if as one of these.
    pub(super) has_signed_in: bool,
    pub(super) has_failed: bool,
    pub(super) is_refused: bool,
    pub(super) is_observed: bool,
    pub(super) is_exempt: bool,
    /// Whether its client is known as the owner of the account.
    pub(super) is_owner: bool,
    /// Of limits that the configuration has.
    pub(super) verdicts: SmallVec<[ShownVerdict; 3]>,
    pub(super) log: Arc<str>,
    /// The same for all its lines.
    id: u64,
}

/// A verdict, and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownVerdict {
    pub(super) limit: usize,
    pub(super) decision: LimitDecision,
    pub(super) line: u64,
}

impl EvidenceBlock {
    pub(super) fn of(block: &LineBlock, table: &EvidenceTable, since: Time) -> Self {
        let mut found = Self::default();
        for (number, line) in (block.first_line..).zip(lines(block)) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            found.lines += 1;
            match parse_gate_line(line) {
                Ok(line) => found.add(&line, number, (block, table), since),
                Err(error) => {
                    found.unreadable += 1;
                    found.first_unreadable.get_or_insert_with(|| unreadable(block, number, line, error));
                }
            }
        }
        found
    }

    fn add(
        &mut self,
        line: &GateLine<'_>,
        number: u64,
        (block, table): (&LineBlock, &EvidenceTable),
        since: Time,
    ) {
        let Some(id) = id(line) else {
            self.access_log.get_or_insert_with(|| Arc::clone(&block.log));
            return;
        };
        self.count_hour(line.at);
        if line.at < since {
            return;
        }
        self.first = Some(self.first.map_or(line.at, |first| first.min(line.at)));
        self.last = self.last.max(Some(line.at));
        let mut attempt = ShownAttempt {
            decided: line.decided,
            route: line.route.as_deref().and_then(|route| table.route(route)),
            client: line.client,
            account: line.account,
            has_signed_in: line.has_signed_in(),
            has_failed: line.has_failed(),
            is_refused: false,
            is_observed: false,
            is_exempt: false,
            is_owner: line.is_owner.unwrap_or_default(),
            verdicts: SmallVec::new(),
            log: Arc::clone(&block.log),
            id,
        };
        attempt.add_verdict(line, number, table);
        let next = match self.attempts.last_mut() {
            Some(last) => last.merge(attempt),
            None => Some(attempt),
        };
        self.attempts.extend(next);
    }

    fn count_hour(&mut self, at: Time) {
        let hour = hour_of(at);
        match self.hours.last_mut() {
            Some((last, lines)) if *last == hour => *lines += 1,
            _ => self.hours.push((hour, 1)),
        }
    }
}

impl ShownAttempt {
    fn add_verdict(&mut self, line: &GateLine<'_>, number: u64, table: &EvidenceTable) {
        let Some((limit, decision)) = &line.verdict else { return };
        match decision {
            LimitDecision::Admit => {}
            LimitDecision::Refuse => self.is_refused = true,
            LimitDecision::Observe => self.is_observed = true,
            LimitDecision::Exempt => self.is_exempt = true,
        }
        if let Some(limit) = table.limit(limit) {
            self.verdicts.push(ShownVerdict { limit, decision: *decision, line: number });
        }
    }

    /// Takes in other lines of the same attempt. Gives back another attempt.
    pub(super) fn merge(&mut self, next: Self) -> Option<Self> {
        // A client may choose the id of its requests: two attempts at once have two verdicts of one limit.
        let is_told = |verdict: &ShownVerdict| {
            let same = |known: &ShownVerdict| known.limit == verdict.limit;
            verdict.decision != LimitDecision::Exempt && self.verdicts.iter().any(same)
        };
        if self.id != next.id || next.verdicts.iter().any(is_told) {
            return Some(next);
        }
        self.is_refused |= next.is_refused;
        self.is_observed |= next.is_observed;
        self.is_exempt |= next.is_exempt;
        self.verdicts.extend(next.verdicts);
        None
    }
}

/// The lines of an attempt follow each other, so a hash of what they have in common is enough.
fn id(line: &GateLine<'_>) -> Option<u64> {
    let attempt = line.attempt.as_ref()?;
    let mut hasher = DefaultHasher::new();
    (&line.route, &attempt.request, attempt.nanoseconds.to_bits()).hash(&mut hasher);
    (line.at.as_nanos(), line.client, line.account).hash(&mut hasher);
    Some(hasher.finish())
}
