//! What PostgreSQL and MySQL share: the table, the connection pool, and how an address is parsed.
//!
//! The SQL is left to each database's module. Expired rows are found by walking along the primary key, one window at a
//! time, and not by an index on `expires_at`: every swap changes that column, so an index on it would make each swap
//! write twice and, in PostgreSQL, rule out updates that touch no index (HOT).

pub(super) mod address;
mod pool;
mod pooled_connection;
mod store;

use std::sync::{Mutex, PoisonError};

use self::pool::SqlPool;
pub(super) use self::pool::{SqlConnecting, SqlConnector};
pub(super) use self::pooled_connection::SqlConnection;
pub(super) use self::store::{SqlQueries, SqlReply, SqlStore, Statements};
use super::compare_and_swap::{RecordVersion, StoreError, Stored, Swap};
use tollgate_bucket::Key;

/// Rows that one purge looks at.
pub(super) const WINDOW: u64 = 10_000;

/// Rows that one purge removes at most.
pub(super) const BATCH: u64 = 1_000;

/// Where the next purge continues: behind this key.
#[derive(Debug, Default)]
pub(super) struct PurgeCursor(Mutex<Vec<u8>>);

impl PurgeCursor {
    /// The last key that was looked at.
    pub(super) fn position(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Continues behind `last`, the last key of the window, or from the start if there is none. A window that held a
    /// whole batch may hold more, and is looked at again.
    pub(super) fn advance(&self, last: Option<Vec<u8>>, removed: u64) {
        if removed < BATCH {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last.unwrap_or_default();
        }
    }
}

/// The result of a swap that was not done, if the row that was found explains it.
///
/// `found` may be older than the conflict: then it has the version that the caller expected. To return it would make
/// the caller repeat the same swap.
pub(super) fn conflict(old: Option<RecordVersion>, found: Option<Stored>) -> Result<Swap, StoreError> {
    if found.as_ref().map(|stored| stored.version) == old {
        Err(StoreError::WriteConflict)
    } else {
        Ok(Swap::Conflict(found))
    }
}

/// A key as the bytes of a column.
pub(super) fn bytes_of(Key(key): Key) -> [u8; 16] {
    key.to_be_bytes()
}

/// A name that every text column takes: without control characters, at most 100 characters long.
pub(super) fn readable(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(100).collect()
}

/// The error that `tollgate migrate` resolves.
pub(super) fn missing_table(table: &str) -> StoreError {
    StoreError::Refused(format!(
        "the table `{table}` is missing or older than this gate: run `tollgate migrate`"
    ))
}

/// An error and its sources, in one line.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let word = error.to_string();
        if !words.contains(&word) {
            words.push_str(": ");
            words.push_str(&word);
        }
        source = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(version: u64) -> Option<Stored> {
        Some(Stored { bytes: vec![1], version: RecordVersion(version) })
    }

    #[test]
    fn what_a_loser_is_told_is_never_what_it_expected() {
        assert_eq!(conflict(Some(RecordVersion(1)), stored(1)), Err(StoreError::WriteConflict));
        assert_eq!(conflict(None, None), Err(StoreError::WriteConflict));
        assert_eq!(conflict(Some(RecordVersion(1)), stored(2)), Ok(Swap::Conflict(stored(2))));
        assert_eq!(conflict(Some(RecordVersion(1)), None), Ok(Swap::Conflict(None)));
        assert_eq!(conflict(None, stored(2)), Ok(Swap::Conflict(stored(2))));
    }

    #[test]
    fn a_broom_stays_where_more_may_lie_and_begins_again_at_the_end() {
        let cursor = PurgeCursor::default();
        cursor.advance(Some(vec![7]), BATCH - 1);
        assert_eq!(cursor.position(), [7]);
        cursor.advance(Some(vec![9]), BATCH);
        assert_eq!(cursor.position(), [7]);
        cursor.advance(None, 0);
        assert!(cursor.position().is_empty());
    }
}
