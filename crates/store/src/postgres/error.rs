//! Maps the errors of PostgreSQL to `StoreError`.
//!
//! An error repeats the server's main message, but not its details, which show rows.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::compare_and_swap::StoreError;
use crate::sql::{error_chain, missing_table};

/// The error of a request about this table.
pub(super) fn store_error(error: &Error, table: &str) -> StoreError {
    if let Some(error) = error.as_db_error() {
        return of_server_error(error, table);
    }
    let words = error_chain(error);
    // The driver's kinds of errors differ only in their text.
    let begins = |kinds: &[&str]| kinds.iter().any(|kind| words.starts_with(kind));
    if begins(&["error parsing response", "unexpected message", "error deserializing", "query returned"]) {
        StoreError::UnexpectedResponse(words)
    } else if begins(&["authentication error", "invalid configuration"]) {
        StoreError::Refused(words)
    } else {
        StoreError::Unreachable(words)
    }
}

fn of_server_error(error: &DbError, table: &str) -> StoreError {
    let code = error.code();
    if is_contention(error) {
        StoreError::WriteConflict
    } else if [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_FUNCTION]
        .contains(code)
    {
        missing_table(table)
    } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        StoreError::ReadOnly(error.message().to_owned())
    } else if is_ending(code) {
        StoreError::Unreachable(error.message().to_owned())
    } else {
        StoreError::Refused(format!("{} (SQLSTATE {})", error.message(), code.code()))
    }
}

/// Whether nothing was written because of a concurrent write.
fn is_contention(error: &DbError) -> bool {
    let known = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    // YugabyteDB has no separate state for some of these.
    let says = |words: &str| error.message().to_ascii_lowercase().contains(words);
    let is_yugabyte = *error.code() == SqlState::INTERNAL_ERROR
        && ["restart read", "conflict", "try again"].into_iter().any(says);
    known.contains(error.code()) || is_yugabyte
}

/// Whether the connection ends with it, or the outcome of the statement is unknown.
fn is_ending(code: &SqlState) -> bool {
    let known = [
        SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    known.contains(code) || code.code().starts_with("08")
}
