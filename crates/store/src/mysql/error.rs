//! Maps the errors of MySQL and MariaDB to `StoreError`.
//!
//! The numbers are those of the [reference](https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html)
//! and of MariaDB's.

use mysql_async::{DriverError, Error, ServerError};

use crate::compare_and_swap::StoreError;
use crate::sql::{error_chain, missing_table};

/// The error of a request about this table.
pub(super) fn store_error(error: &Error, table: &str) -> StoreError {
    match error {
        Error::Server(error) => of_server_error(error, table),
        Error::Driver(DriverError::ConnectionClosed) | Error::Io(_) => {
            StoreError::Unreachable(error_chain(error))
        }
        Error::Driver(
            DriverError::NoClientSslFlagFromServer
            | DriverError::UnknownAuthPlugin { .. }
            | DriverError::MysqlOldPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        )
        | Error::Url(_) => StoreError::Refused(error_chain(error)),
        // The driver's text for other errors may show a row.
        Error::Driver(_) | Error::Other(_) => {
            StoreError::UnexpectedResponse("the driver cannot read the response".to_owned())
        }
    }
}

fn of_server_error(error: &ServerError, table: &str) -> StoreError {
    match error.code {
        // Deadlock, lock timeout, duplicate key, row changed since it was read, conflict within a cluster.
        1213 | 1205 | 1062 | 1020 | 3101 => StoreError::WriteConflict,
        // No such table, no such column.
        1146 | 1054 => missing_table(table),
        // The server is read-only, or a member of a cluster that has no majority: another one is the writer.
        1290 | 1792 | 1836 | 1047 => {
            StoreError::ReadOnly(format!("{} (error {})", error.message, error.code))
        }
        // Shutdown, killed, the statement is unknown to this connection.
        1053 | 1317 | 1927 | 3169 | 1243 => StoreError::Unreachable(error.message.clone()),
        code => StoreError::Refused(format!("{} (error {code})", error.message)),
    }
}
