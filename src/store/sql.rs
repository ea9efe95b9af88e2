//! What the two databases of tables share: the table and how it is asked for, how connections are kept, how an
//! address is read.
//!
//! No SQL of either stands here. The surprising thing: what has outlived its time is found by walking along the primary
//! key, a window each time, and not by an index on `expires_at`. Every swap changes that column, so an index on it would
//! make each swap write twice, and in PostgreSQL would take away the updates that touch no index at all (HOT).

pub(super) mod address;
mod line;
mod lines;
mod table;

use std::sync::{Mutex, PoisonError};

pub(super) use self::line::Link;
use self::lines::Lines;
pub(super) use self::lines::{Dial, Dialled};
pub(super) use self::table::{Heard, Questions, Statements, Table};
use super::compare_and_swap::{StoreError, Stored, Swap, Version};
use crate::bucket::Key;

/// Rows that one cleaning looks at.
pub(super) const WINDOW: u64 = 10_000;

/// Rows that one cleaning removes at most.
pub(super) const BATCH: u64 = 1_000;

/// Where the next cleaning goes on: beyond this key.
#[derive(Debug, Default)]
pub(super) struct Broom(Mutex<Vec<u8>>);

impl Broom {
    /// All keys have been looked at up to this one.
    pub(super) fn stands(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on behind `last`, the last key of the window, or begins again where there was none. A window that held a whole
    /// batch may hold more, and is looked at again.
    pub(super) fn moves(&self, last: Option<Vec<u8>>, removed: u64) {
        if removed < BATCH {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = last.unwrap_or_default();
        }
    }
}

/// What came of a swap that was not done, if that can be told from what was found there.
///
/// `found` may be older than the moment at which the swap was lost: then it says just what the loser expected. To repeat
/// that would send the loser round in circles.
pub(super) fn lost(old: Option<Version>, found: Option<Stored>) -> Result<Swap, StoreError> {
    if found.as_ref().map(|stored| stored.version) == old {
        Err(StoreError::Contended)
    } else {
        Ok(Swap::Lost(found))
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
pub(super) fn missing(table: &str) -> StoreError {
    StoreError::Refused(format!(
        "the table `{table}` is missing or older than this gate: run `tollgate migrate`"
    ))
}

/// An error with all that led to it, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
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
        Some(Stored { bytes: vec![1], version: Version(version) })
    }

    #[test]
    fn what_a_loser_is_told_is_never_what_it_expected() {
        assert_eq!(lost(Some(Version(1)), stored(1)), Err(StoreError::Contended));
        assert_eq!(lost(None, None), Err(StoreError::Contended));
        assert_eq!(lost(Some(Version(1)), stored(2)), Ok(Swap::Lost(stored(2))));
        assert_eq!(lost(Some(Version(1)), None), Ok(Swap::Lost(None)));
        assert_eq!(lost(None, stored(2)), Ok(Swap::Lost(stored(2))));
    }

    #[test]
    fn a_broom_stays_where_more_may_lie_and_begins_again_at_the_end() {
        let broom = Broom::default();
        broom.moves(Some(vec![7]), BATCH - 1);
        assert_eq!(broom.stands(), [7]);
        broom.moves(Some(vec![9]), BATCH);
        assert_eq!(broom.stands(), [7]);
        broom.moves(None, 0);
        assert!(broom.stands().is_empty());
    }
}
