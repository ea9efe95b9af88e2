//! Counts the attempts at one site, in bounded memory.

use std::collections::HashMap;

use super::block::SiteAttempt;
use super::report::{CountedLimit, SiteReport};
use super::table::{SiteName, SiteTable};
use crate::replay::tally::{RefusedClients, SeriesTally};
use crate::time::{Span, Time};

/// What came of the attempts so far.
#[derive(Debug)]
pub(super) struct SiteTally {
    attempts: u64,
    refused: u64,
    would_refuse: u64,
    signed_in: u64,
    failed: u64,
    owners_helped: u64,
    clients: RefusedClients,
    /// Refusals of each limit, by its number.
    limits: HashMap<usize, u64>,
    series: SeriesTally,
}

impl SiteTally {
    pub(super) fn new(since: Time) -> Self {
        Self {
            attempts: 0,
            refused: 0,
            would_refuse: 0,
            signed_in: 0,
            failed: 0,
            owners_helped: 0,
            clients: RefusedClients::default(),
            limits: HashMap::new(),
            series: SeriesTally::starting_at(since),
        }
    }

    pub(super) fn count(&mut self, attempt: &SiteAttempt, accounts: &mut RefusedAccounts) {
        self.attempts += 1;
        self.series.add(attempt.at, attempt.is_refused);
        if attempt.is_refused {
            self.refused += 1;
            attempt.refused_by.iter().for_each(|limit| *self.limits.entry(*limit).or_default() += 1);
            attempt.client.iter().for_each(|client| self.clients.refuse(*client, attempt.at));
            if attempt.is_refused_by_account && !attempt.is_owner {
                accounts.refuse(attempt);
            }
            return;
        }
        self.would_refuse += u64::from(attempt.would_refuse);
        if attempt.has_signed_in {
            self.signed_in += 1;
            let is_helped = attempt.is_owner && (attempt.is_alarmed || accounts.has(attempt));
            self.owners_helped += u64::from(is_helped);
            attempt.client.iter().for_each(|client| self.clients.signed_in(*client, attempt.at));
        }
        if attempt.has_failed {
            self.failed += 1;
            attempt.client.iter().for_each(|client| self.clients.failed(*client));
        }
    }

    pub(super) fn report(&self, name: &SiteName, table: &SiteTable, knows_owners: bool) -> SiteReport {
        let limits = self
            .limits
            .iter()
            .map(|(&limit, &refused)| CountedLimit { limit: table.limit_name(limit).to_owned(), refused });
        let mut limits: Vec<CountedLimit> = limits.collect();
        limits.sort_by(|one, next| (next.refused, &one.limit).cmp(&(one.refused, &next.limit)));
        SiteReport {
            site: name.site.clone(),
            hosts: name.hosts.clone(),
            attempts: self.attempts,
            refused: self.refused,
            would_refuse: self.would_refuse,
            signed_in: self.signed_in,
            failed: self.failed,
            owners_helped: knows_owners.then_some(self.owners_helped),
            refused_clients: self.clients.distinct(),
            likely_false_positives: self.clients.likely_false_positives(),
            worst: self.clients.worst(),
            limits,
            series: self.series.report(),
        }
    }
}

/// Accounts at which strangers were refused by a limit of accounts, each with the last time.
#[derive(Debug, Default)]
pub(super) struct RefusedAccounts {
    last: HashMap<(Option<usize>, u64), Time>,
    swept: Time,
}

impl RefusedAccounts {
    fn refuse(&mut self, attempt: &SiteAttempt) {
        let Some(account) = attempt.account else { return };
        if self.last.len() >= MAX_ACCOUNTS && attempt.at.since(self.swept) >= BETWEEN_SWEEPS {
            self.last.retain(|_, last| attempt.at.since(*last) <= SOON);
            self.swept = attempt.at;
        }
        // More in an hour than there is room for: owners of the rest do not count as helped.
        if self.last.len() < MAX_ACCOUNTS {
            self.last.insert((attempt.site, account), attempt.at);
        }
    }

    fn has(&self, attempt: &SiteAttempt) -> bool {
        let last = attempt.account.and_then(|account| self.last.get(&(attempt.site, account)));
        last.is_some_and(|last| attempt.at.since(*last) <= SOON)
    }
}

/// Accounts of all sites that are known at once.
const MAX_ACCOUNTS: usize = 65_536;

/// How long an owner counts as helped after a stranger was refused.
const SOON: Span = Span::from_secs(3_600);

/// By the time of the log; each sweep looks at all accounts.
const BETWEEN_SWEEPS: Span = Span::from_secs(60);
