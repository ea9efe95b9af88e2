//! The common parts of PostgreSQL and MySQL: the table, the connection pool, and how an address is parsed.
//!
//! The SQL is left to each database's module. Expired rows are found by an index on `due`, the period of a few minutes in
//! which they expire, and not by one on `expires_at`: every swap changes that column, so an index on it would make each
//! swap write twice and, in PostgreSQL, rule out updates that touch no index (HOT).

pub(super) mod address;
mod pool;
mod pooled_connection;
mod store;

use self::pool::SqlPool;
pub(super) use self::pool::{SqlConnecting, SqlConnector};
pub(super) use self::pooled_connection::SqlConnection;
pub(super) use self::store::{SqlQueries, SqlReply, SqlStore, Statements};
use super::compare_and_swap::{RecordVersion, StoreError, Stored, Swap};
use tollgate_bucket::Key;

/// Rows that one purge removes at most.
pub(super) const BATCH: u64 = 1_000;

/// A row is due for removal by the period, of so many seconds, in which it expires.
pub(super) const PERIOD: u64 = 300;

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
}
