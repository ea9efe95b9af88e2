//! Buckets in MySQL or MariaDB: a table with one row for each bucket.
//!
//! `mysql://user:password@host:port/database`, with `sslmode=disable|require|verify-full` and `sslrootcert=FILE` (`require`
//! checks the certificate too), or `socket=PATH`. The surprising thing: a swap is one statement that answers with nothing
//! but two numbers, how many rows it wrote and what time it was; what stood there instead takes a second question.

mod address;
mod connection;
mod error;
mod statements;

use std::sync::Arc;

use super::address::Remote;
use super::compare_and_swap::{CompareAndSwap, Namespace, StoreError};
use super::sql::SqlStore;

use self::connection::MysqlConnector;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(address::parse(url)?))
}

impl Remote for address::MysqlAddress {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let texts = statements::statements(&names.table());
        Ok(Arc::new(SqlStore::new(MysqlConnector::new(self)?, texts, self.is_exposed())?))
    }
}
