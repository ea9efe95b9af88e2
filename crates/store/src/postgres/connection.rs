//! One connection to PostgreSQL, and the store operations as its statements.
//!
//! Requests are pipelined. The driver reads replies in its own task, so a reply whose caller has given up is read
//! and dropped there. The pool is left to [`sql`](crate::sql), the SQL to [`statements`](super::statements).

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::error;
use super::row::{Parameter, clock, column, stored};
use super::statements::PostgresStatements;
use super::swap::SwapValues;
use crate::compare_and_swap::{Clocked, StoreError, Stored, Swap, SwapRequest, SwapResults};
use crate::sql;
use crate::sql::address::SqlTls;
use crate::sql::{
    SqlConnecting, SqlConnection as _, SqlConnector, SqlQueries, SqlReply, Statements, bytes_of,
};
use tollgate_base::tls;
use tollgate_bucket::Key;

/// Makes connections.
pub(super) struct PostgresConnector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

/// A connection. Closed when dropped.
pub(super) struct PostgresConnection {
    client: Client,
    reader: JoinHandle<()>,
}

impl PostgresConnector {
    pub(super) fn new(address: &PostgresAddress) -> Result<Self, StoreError> {
        let tls = match &address.tls {
            SqlTls::Off => None,
            SqlTls::Preferred => Some(MakeRustlsConnect::new(tls::unchecked_client()?)),
            SqlTls::On { roots, checks_name: true } => {
                Some(MakeRustlsConnect::new(tls::client(roots.as_deref())?))
            }
            SqlTls::On { roots, checks_name: false } => {
                Some(MakeRustlsConnect::new(tls::client_of_any_name(roots.as_deref())?))
            }
        };
        Ok(Self { config: address.config.clone(), tls })
    }

    async fn try_connect(&self) -> Result<PostgresConnection, Error> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                PostgresConnection { client, reader: tokio::spawn(async { drop(connection.await) }) }
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                PostgresConnection { client, reader: tokio::spawn(async { drop(connection.await) }) }
            }
        })
    }
}

impl SqlConnector for PostgresConnector {
    type Connection = PostgresConnection;

    fn connect(&self) -> SqlConnecting<'_, PostgresConnection> {
        Box::pin(async { self.try_connect().await.map_err(|error| error::store_error(&error, "")) })
    }
}

impl sql::SqlConnection for PostgresConnection {
    const MAX_UNANSWERED: usize = 64;
    const MAX_CONNECTIONS: usize = 4;
    const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

    fn is_broken(&self) -> bool {
        self.client.is_closed()
    }

    fn close(&self) {
        self.reader.abort();
    }
}

impl SqlQueries for PostgresConnection {
    type Own = PostgresStatements;

    async fn load(&self, statements: &Statements<PostgresStatements>, key: Key) -> SqlReply<Option<Stored>> {
        let row = self
            .query_one(&statements.table, &statements.load, &[(&&bytes_of(key)[..], Type::BYTEA)])
            .await?;
        Ok(Clocked::with_clock(stored(&row, 1)?, clock(&row)?))
    }

    async fn swap(&self, statements: &Statements<PostgresStatements>, swap: &SwapRequest) -> SqlReply<Swap> {
        let asked = SwapValues::of(swap);
        let row = self.query_one(&statements.table, &statements.own.swap, &asked.parameters()).await?;
        Ok(Clocked::with_clock(asked.result(&row)?, clock(&row)?))
    }

    async fn swap_all(
        &self,
        statements: &Statements<PostgresStatements>,
        swaps: &[SwapRequest],
    ) -> SqlReply<SwapResults> {
        // Rows are locked in this order: rivals wait for each other, and never in a circle.
        let mut order: Vec<usize> = (0..swaps.len()).collect();
        order.sort_unstable_by_key(|at| swaps[*at].key);
        let asked: Vec<_> = order.iter().map(|at| SwapValues::of(&swaps[*at])).collect();
        let columns = SwapValues::columns(&asked);
        let parameters =
            columns.each_ref().map(|(column, kind)| -> Parameter<'_> { (&**column, kind.clone()) });
        let rows = self.client.query_typed(&statements.own.swap_all, &parameters).await;
        let rows = rows.map_err(|error| error::store_error(&error, &statements.table))?;
        let unexpected = || StoreError::UnexpectedResponse("another number of rows".to_owned());
        let first = rows.first().filter(|_| rows.len() == asked.len()).ok_or_else(unexpected)?;
        let clock = clock(first)?;
        let mut results: Vec<_> =
            order.into_iter().zip(asked.iter().zip(&rows).map(|(asked, row)| asked.result(row))).collect();
        results.sort_unstable_by_key(|(at, _)| *at);
        Ok(Clocked::with_clock(results.into_iter().map(|(_, result)| result).collect(), clock))
    }

    async fn probe(&self, statements: &Statements<PostgresStatements>, key: Key) -> SqlReply<()> {
        let values: [Parameter<'_>; 1] = [(&&bytes_of(key)[..], Type::BYTEA)];
        let row = self.query_one(&statements.table, &statements.probe, &values).await?;
        Ok(Clocked::with_clock((), clock(&row)?))
    }

    async fn purge(&self, statements: &Statements<PostgresStatements>) -> SqlReply<u64> {
        let values: [Parameter<'_>; 1] = [(&lock(&statements.table), Type::INT8)];
        let row = self.query_one(&statements.table, &statements.own.purge, &values).await?;
        let removed = column::<i64>(&row, 0)?.unsigned_abs();
        Ok(Clocked::without_clock(removed))
    }

    async fn execute(&self, table: &str, text: &str) -> Result<(), StoreError> {
        self.client.batch_execute(text).await.map_err(|error| error::store_error(&error, table))
    }
}

impl PostgresConnection {
    /// Runs a query that returns one row.
    async fn query_one(&self, table: &str, text: &str, values: &[Parameter<'_>]) -> Result<Row, StoreError> {
        let row = self.client.query_typed_one(text, values).await;
        row.map_err(|error| error::store_error(&error, table))
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        self.close();
    }
}

/// The number of the lock for purging this table (FNV-1a).
fn lock(table: &str) -> i64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    table.bytes().fold(0xcbf2_9ce4_8422_2325, step).cast_signed()
}
