//! Buckets in MySQL or MariaDB: a table with one row for each bucket.
//!
//! The address is `mysql://user:password@host:port/database`, with several hosts if one of them is the writer, and `sslmode=disable|require|verify-full` and
//! `sslrootcert=FILE` (`require` checks the certificate too), or `socket=PATH`. A swap is one statement that returns
//! only two numbers, the rows written and the time; after a conflict a second statement reads the row. The pool is left
//! to [`sql`](super::sql).

mod address;
mod connection;
mod error;
mod statements;
mod swap;

use std::sync::Arc;

use super::address::{BadStoreAddress, Remote};
use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};
use super::sql::SqlStore;

use self::connection::MysqlConnector;

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, BadStoreAddress> {
    Ok(Arc::new(address::parse(url)?))
}

impl Remote for address::MysqlAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let statements = statements::statements(&namespace.table());
        Ok(Arc::new(SqlStore::new(MysqlConnector::new(self)?, statements, self.is_unencrypted())?))
    }
}
