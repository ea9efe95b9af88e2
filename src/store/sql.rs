//! What PostgreSQL and MySQL share: the table, the connection pool, and how an address is parsed.
//!
//! No SQL of either stands here. The surprising thing: what has outlived its time is found by walking along the primary
//! key, a window each time, and not by an index on `expires_at`. Every swap changes that column, so an index on it would
//! make each swap write twice, and in PostgreSQL would take away the updates that touch no index at all (HOT).

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
use crate::bucket::Key;

/// Rows that one cleaning looks at.
pub(super) const WINDOW: u64 = 10_000;

/// Rows that one cleaning removes at most.
pub(super) const BATCH: u64 = 1_000;

/// Where the next cleaning goes on: beyond this key.
#[derive(Debug, Default)]
pub(super) struct PurgeCursor(Mutex<Vec<u8>>);

impl PurgeCursor {
    /// All keys have been looked at up to this one.
    pub(super) fn position(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on behind `last`, the last key of the window, or begins again where there was none. A window that held a whole
    /// batch may hold more, and is looked at again.
    pub(super) fn advance(&self, last: Option<Vec<u8>>, removed: u64) {
        if removed < BATCH {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last.unwrap_or_default();
        }
    }
}

/// What came of a swap that was not done, if that can be told from what was found there.
///
/// `found` may be older than the moment at which the swap was lost: then it says just what the loser expected. To repeat
/// that would send the loser round in circles.
pub(super) fn conflict(old: Option<RecordVersion>, found: Option<Stored>) -> Result<Swap, StoreError> {
    if found.as_ref().map(|stored| stored.version) == old {
        Err(StoreError::WriteConflict)
    } else {
        Ok(Swap::Conflict(found))
    }
}

/// A key as it stands in a column.
pub(super) fn bytes_of(Key(key): Key) -> [u8; 16] {
    key.to_be_bytes()
}

/// A name that every text column takes: without control characters, and not too long.
pub(super) fn readable(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(100).collect()
}

/// What `tollgate migrate` would mend.
pub(super) fn missing_table(table: &str) -> StoreError {
    StoreError::Refused(format!(
        "the table `{table}` is missing or older than this gate: run `tollgate migrate`"
    ))
}

/// An error with all that led to it, in one line.
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
        let broom = PurgeCursor::default();
        broom.advance(Some(vec![7]), BATCH - 1);
        assert_eq!(broom.position(), [7]);
        broom.advance(Some(vec![9]), BATCH);
        assert_eq!(broom.position(), [7]);
        broom.advance(None, 0);
        assert!(broom.position().is_empty());
    }
}
