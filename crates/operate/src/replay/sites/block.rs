//! What a block of lines tells of attempts at sites. It runs in several threads at once, and knows nothing of other blocks.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::MAX_UNKNOWN;
use super::table::SiteTable;
use crate::policy::attempt::Client;
use crate::replay::input::LineBlock;
use crate::replay::line::{GateLine, parse_gate_line};
use crate::replay::pipeline::{lines, unreadable};
use crate::replay::report::UnreadableLine;
use crate::time::Time;

/// What a block of lines tells.
#[derive(Debug, Default)]
pub(super) struct SiteBlock {
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    pub(super) first_unreadable: Option<UnreadableLine>,
    pub(super) has_decisions: bool,
    pub(super) has_requests: bool,
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) attempts: Vec<SiteAttempt>,
    /// Routes that the configuration does not have.
    pub(super) unknown_routes: BTreeSet<String>,
}

/// An attempt, or a line of it.
#[derive(Debug)]
pub(super) struct SiteAttempt {
    pub(super) at: Time,
    /// The number of its line in the report; `None` if the configuration does not have the route.
    pub(super) site: Option<usize>,
    pub(super) client: Option<Client>,
    pub(super) account: Option<u64>,
    pub(super) is_refused: bool,
    /// The first limit that refused it, if the configuration has it.
    pub(super) refused_by: Option<usize>,
    /// Whether a limit by account refused it.
    pub(super) is_refused_by_account: bool,
    pub(super) would_refuse: bool,
    /// How it was settled, if as one of these.
    pub(super) has_signed_in: bool,
    pub(super) has_failed: bool,
    pub(super) is_owner: bool,
    pub(super) is_alarmed: bool,
    /// The same for all lines of one attempt; `None` where an attempt is one line.
    id: Option<u64>,
}

impl SiteBlock {
    pub(super) fn of(block: &LineBlock, table: &SiteTable, since: Time) -> Self {
        let mut found = Self::default();
        let mut last: Option<GateLine<'_>> = None;
        for (number, line) in (block.first_line..).zip(lines(block)) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            found.lines += 1;
            match parse_gate_line(line) {
                Ok(line) => {
                    found.add(&line, last.as_ref(), table, since);
                    last = Some(line);
                }
                Err(error) => {
                    found.unreadable += 1;
                    found.first_unreadable.get_or_insert_with(|| unreadable(block, number, line, error));
                }
            }
        }
        found
    }

    fn add(&mut self, line: &GateLine<'_>, last: Option<&GateLine<'_>>, table: &SiteTable, since: Time) {
        self.has_decisions |= line.attempt.is_some();
        self.has_requests |= line.attempt.is_none();
        if line.at < since {
            return;
        }
        self.first = Some(self.first.map_or(line.at, |first| first.min(line.at)));
        self.last = self.last.max(Some(line.at));
        let Some(route) = line.route.as_deref() else { return };
        if let Some(attempt) = self.attempts.last_mut()
            && last.is_some_and(|last| is_same_attempt(line, last))
        {
            return attempt.add_verdict(line, table);
        }
        let attempt = SiteAttempt::of(line, route, table);
        if attempt.site.is_none() && self.unknown_routes.len() < MAX_UNKNOWN {
            // A log may have anything in the place of a name.
            let shown: String = route.escape_debug().take(MAX_SHOWN).collect();
            self.unknown_routes.insert(shown);
        }
        self.attempts.push(attempt);
    }
}

impl SiteAttempt {
    fn of(line: &GateLine<'_>, route: &str, table: &SiteTable) -> Self {
        let mut attempt = Self {
            at: line.at,
            site: table.line_of(route, line.host.as_deref()),
            client: line.client.map(|client| table.shown(client)),
            account: line.account,
            is_refused: false,
            refused_by: None,
            is_refused_by_account: false,
            would_refuse: false,
            has_signed_in: line.has_signed_in(),
            has_failed: line.has_failed(),
            is_owner: line.is_owner.unwrap_or_default(),
            is_alarmed: line.is_alarmed,
            id: id(line, route),
        };
        attempt.add_verdict(line, table);
        attempt
    }

    /// Takes in what a line says of one limit, or of all.
    fn add_verdict(&mut self, line: &GateLine<'_>, table: &SiteTable) {
        let refused_by = line.refused_by.as_deref().and_then(|limit| table.limit(limit));
        self.is_refused |= line.refused_by.is_some();
        self.refused_by = self.refused_by.or(refused_by);
        self.is_refused_by_account |= refused_by.is_some_and(|limit| table.is_by_account(limit));
        self.would_refuse |= line.would_refuse;
    }

    /// Takes in what another block says of the same attempt. Gives back another attempt.
    pub(super) fn merge(&mut self, next: Self) -> Option<Self> {
        if self.id.is_none() || self.id != next.id {
            return Some(next);
        }
        self.is_refused |= next.is_refused;
        self.refused_by = self.refused_by.or(next.refused_by);
        self.is_refused_by_account |= next.is_refused_by_account;
        self.would_refuse |= next.would_refuse;
        None
    }
}

/// Whether a line is about the attempt of the line before it.
fn is_same_attempt(line: &GateLine<'_>, last: &GateLine<'_>) -> bool {
    let of_attempt = |line: &GateLine<'_>| (line.at, line.client);
    line.attempt.is_some()
        && of_attempt(line) == of_attempt(last)
        && line.attempt == last.attempt
        && line.route == last.route
}

/// The lines of an attempt follow each other, so a hash of what they have in common is enough.
fn id(line: &GateLine<'_>, route: &str) -> Option<u64> {
    let attempt = line.attempt.as_ref()?;
    let mut hasher = DefaultHasher::new();
    (route, &attempt.request, attempt.nanoseconds.to_bits()).hash(&mut hasher);
    (line.at.as_nanos(), line.client).hash(&mut hasher);
    Some(hasher.finish())
}

/// Characters of a name that a log has.
const MAX_SHOWN: usize = 64;
