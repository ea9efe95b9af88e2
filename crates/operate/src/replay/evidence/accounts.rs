//! The accounts that were attacked, and the longest row of failures at one of them, in bounded memory.

use std::collections::HashMap;

use super::windows::AttemptWindows;
use crate::time::{Span, Time};

/// Failures by account.
#[derive(Debug)]
pub(super) struct AccountRows {
    /// Failures since the last success of each account with a refused or failed attempt.
    rows: HashMap<u64, u32>,
    recent: AttemptWindows,
    /// Accounts that there was no room for, each as often as it came.
    pub(super) left_out: u64,
}

impl AccountRows {
    pub(super) fn new() -> Self {
        Self { rows: HashMap::new(), recent: AttemptWindows::new(HALF_AN_HOUR, MAX_RECENT), left_out: 0 }
    }

    /// An attempt was refused.
    pub(super) fn refused(&mut self, account: u64) {
        self.row(account);
    }

    /// An attempt failed. Returns the length of the row that it is in, and how much of it is within half an hour.
    pub(super) fn failed(&mut self, account: u64, at: Time) -> (u64, u64) {
        let row = self.row(account).map_or(0, |row| {
            *row = row.saturating_add(1);
            u64::from(*row)
        });
        (row, self.recent.add((None, Some(account)), at))
    }

    /// A sign-in ends the row, and so does an operator.
    pub(super) fn end_row(&mut self, account: u64) {
        if let Some(row) = self.rows.get_mut(&account) {
            *row = 0;
        }
        self.recent.forget(&(None, Some(account)));
    }

    /// The accounts with a refused or failed attempt.
    pub(super) fn attacked(&self) -> u64 {
        u64::try_from(self.rows.len()).unwrap_or(u64::MAX)
    }

    fn row(&mut self, account: u64) -> Option<&mut u32> {
        if self.rows.len() >= MAX_ACCOUNTS && !self.rows.contains_key(&account) {
            self.left_out += 1;
            return None;
        }
        Some(self.rows.entry(account).or_default())
    }
}

/// The time for which PCI DSS locks an account.
const HALF_AN_HOUR: Span = Span::from_secs(1800);
/// Failures of one account within it that are told apart.
const MAX_RECENT: u64 = 1000;
/// Accounts that were attacked.
const MAX_ACCOUNTS: usize = 1_048_576;
