//! How many accounts failed and succeeded on a route with attack mode. Each account counts once a minute, so that an attacker cannot
//! keep the mode off by signing in to the same account again and again.
//!
//! Accounts and clients are hashes here and exist only in the memory of this process. When the mode begins is left to the
//! [`detector`](super::detector).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::outcome::Outcome;
use crate::time::{Span, Time};

/// The outcomes of a route, since it has attack mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OutcomeCounts {
    pub(super) failures: u64,
    /// Those of one account and client once a minute.
    pub(super) successes: u64,
    /// Accounts that failed; each once a minute.
    pub(super) failed_accounts: u64,
    /// Accounts that succeeded; each once a minute.
    pub(super) succeeded_accounts: u64,
}

/// The outcomes of one route.
#[derive(Debug, Default)]
pub(super) struct DistinctOutcomes(Mutex<OutcomeTable>);

#[derive(Debug, Default)]
struct OutcomeTable {
    counts: OutcomeCounts,
    /// What was counted within the last minute, and when.
    counted: HashMap<Counted, Time>,
    purged: Time,
}

/// What counts once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Counted {
    Success { account: Option<u64>, client: u64 },
    SucceededAccount(u64),
    FailedAccount(u64),
}

impl DistinctOutcomes {
    pub(super) fn so_far(&self) -> OutcomeCounts {
        self.table().counts
    }

    /// Counts the outcome of an attempt of this client at this account, if it is at a single one.
    pub(super) fn count(&self, account: Option<u64>, client: u64, outcome: Outcome, now: Time) {
        let mut table = self.table();
        match outcome {
            Outcome::Success => {
                table.counts.successes += u64::from(table.is_new(Counted::Success { account, client }, now));
                let is_new =
                    account.is_some_and(|account| table.is_new(Counted::SucceededAccount(account), now));
                table.counts.succeeded_accounts += u64::from(is_new);
            }
            Outcome::Failure => {
                table.counts.failures += 1;
                let is_new =
                    account.is_some_and(|account| table.is_new(Counted::FailedAccount(account), now));
                table.counts.failed_accounts += u64::from(is_new);
            }
            Outcome::Neutral | Outcome::Error => {}
        }
    }

    fn table(&self) -> MutexGuard<'_, OutcomeTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutcomeTable {
    /// Whether it was not counted within the last minute. A full table has everything count.
    fn is_new(&mut self, what: Counted, now: Time) -> bool {
        if self.counted.get(&what).is_some_and(|at| now.since(*at) < WINDOW) {
            return false;
        }
        if self.counted.len() >= MAX_COUNTED && now.since(self.purged) >= PURGE_INTERVAL {
            self.purged = now;
            self.counted.retain(|_, at| now.since(*at) < WINDOW);
        }
        if self.counted.len() < MAX_COUNTED || self.counted.contains_key(&what) {
            self.counted.insert(what, now);
        }
        true
    }
}

const WINDOW: Span = Span::from_secs(60);
/// For a route: half a megabyte.
const MAX_COUNTED: usize = 8192;
const PURGE_INTERVAL: Span = Span::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    struct Counter(DistinctOutcomes);

    impl Counter {
        fn new() -> Self {
            Self(DistinctOutcomes::default())
        }

        fn count(
            &self,
            account: impl Into<Option<u64>>,
            client: u64,
            outcome: Outcome,
            second: u64,
        ) -> [u64; 4] {
            self.0.count(account.into(), client, outcome, NOW.after(Span::from_secs(second)));
            let OutcomeCounts { failures, successes, failed_accounts, succeeded_accounts } = self.0.so_far();
            [failures, successes, failed_accounts, succeeded_accounts]
        }
    }

    #[test]
    fn a_success_of_the_same_account_and_client_counts_once_a_minute() {
        let counter = Counter::new();
        let success = |account, client, second| counter.count(account, client, Outcome::Success, second);
        assert_eq!(success(1, 1, 0), [0, 1, 0, 1]);
        assert_eq!(success(1, 1, 59), [0, 1, 0, 1]);
        assert_eq!(success(1, 2, 59), [0, 2, 0, 1], "another client");
        assert_eq!(success(2, 1, 59), [0, 3, 0, 2], "another account");
        assert_eq!(success(1, 1, 60), [0, 4, 0, 3], "a minute later");
    }

    #[test]
    fn every_failure_counts_and_its_account_once_a_minute() {
        let counter = Counter::new();
        let failure = |account, second| counter.count(account, 1, Outcome::Failure, second);
        assert_eq!((failure(Some(1), 0), failure(Some(1), 1)), ([1, 0, 1, 0], [2, 0, 1, 0]));
        assert_eq!((failure(Some(2), 2), failure(None, 3)), ([3, 0, 2, 0], [4, 0, 2, 0]));
    }

    #[test]
    fn what_decides_nothing_counts_for_nothing() {
        let counter = Counter::new();
        for outcome in [Outcome::Neutral, Outcome::Error] {
            assert_eq!(counter.count(1, 1, outcome, 0), [0; 4]);
        }
    }

    #[test]
    fn the_table_is_bounded_and_a_full_one_counts_everything() {
        let counter = Counter::new();
        for account in 0..3 * MAX_COUNTED as u64 {
            counter.count(account, 1, Outcome::Failure, 0);
        }
        assert_eq!(counter.0.table().counted.len(), MAX_COUNTED);
        let accounts = 3 * MAX_COUNTED as u64;
        assert_eq!(counter.count(7, 1, Outcome::Failure, 1)[2], accounts, "it is among those in the table");
        assert_eq!(counter.count(accounts, 1, Outcome::Failure, 61)[2], accounts + 1);
        assert_eq!(counter.0.table().counted.len(), 1, "the minute is over");
    }
}
