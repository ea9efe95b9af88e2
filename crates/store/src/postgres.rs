//! Buckets in PostgreSQL, or in a database that speaks its protocol (YugabyteDB): a table with one row for each bucket.
//!
//! The address is `postgres://user:password@host:port/database`, with several hosts or a Unix socket's directory as the
//! [driver](tokio_postgres::Config) takes them, and `sslmode=disable|require|verify-full` and `sslrootcert=FILE`;
//! `require` checks the certificate too. No statement is prepared by name, so a pooler that gives each statement
//! another connection (PgBouncer in transaction mode) may stand between; functions in the database keep the plans instead.
//! The pool is left to [`sql`](super::sql).

mod address;
mod connection;
mod error;
mod row;
mod statements;
mod swap;

use std::sync::Arc;

use super::address::{BadStoreAddress, Remote};
use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};
use super::sql::SqlStore;

use self::connection::PostgresConnector;

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, BadStoreAddress> {
    Ok(Arc::new(address::parse(url)?))
}

impl Remote for address::PostgresAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let statements = statements::statements(&namespace.table());
        Ok(Arc::new(SqlStore::new(PostgresConnector::new(self)?, statements, self.is_unencrypted())?))
    }
}
