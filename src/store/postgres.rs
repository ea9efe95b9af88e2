//! Buckets in PostgreSQL, or in what speaks like it (YugabyteDB): a table with one row for each bucket.
//!
//! `postgres://user:password@host:port/database`, with several hosts or a Unix socket's directory the way the
//! [driver](tokio_postgres::Config) knows them, and `sslmode=disable|require|verify-full` and `sslrootcert=FILE`; `require`
//! checks the certificate too. The surprising thing: no statement is prepared by name, so a pooler that hands each
//! statement to another connection (PgBouncer in transaction mode) may stand between.

mod address;
mod connection;
mod error;
mod statements;

use std::sync::Arc;

use super::address::Remote;
use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};
use super::sql::SqlStore;

use self::connection::PostgresConnector;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(address::parse(url)?))
}

impl Remote for address::PostgresAddress {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let texts = statements::statements(&names.table());
        Ok(Arc::new(SqlStore::new(PostgresConnector::new(self)?, texts, self.is_exposed())?))
    }
}
