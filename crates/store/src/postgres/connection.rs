//! One connection to PostgreSQL, and the store operations as its statements.
//!
//! Requests are pipelined. The driver reads replies in a task of its own, so a reply whose caller has given up is read
//! and dropped there. The pool is left to [`sql`](crate::sql), the SQL to [`statements`](super::statements).

use std::slice;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::error;
use super::row::{Parameter, clock, column, stored, wall};
use super::swap_all::SwapColumns;
use crate::StepSum;
use crate::compare_and_swap::{Clocked, RecordVersion, StoreError, Stored, Swap, SwapRequest, SwapResults};
use crate::sql::address::SqlTls;
use crate::sql::{
    SqlConnecting, SqlConnection as _, SqlConnector, SqlQueries, SqlReply, Statements, bytes_of, conflict,
    readable,
};
use crate::{sql, tls};
use tollgate_bucket::Key;
use tollgate_bucket::Time;

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
            SqlTls::On(roots) => Some(MakeRustlsConnect::new(tls::client(roots.as_deref())?)),
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
    const MAX_IN_FLIGHT: usize = 64;
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
    type Purge = String;

    async fn load(&self, statements: &Statements<String>, key: Key) -> SqlReply<Option<Stored>> {
        let row = self
            .query_one(&statements.table, &statements.load, &[(&&bytes_of(key)[..], Type::BYTEA)])
            .await?;
        Ok(Clocked::with_clock(stored(&row, 1)?, clock(&row)?))
    }

    async fn swap(&self, statements: &Statements<String>, swap: &SwapRequest) -> SqlReply<Swap> {
        let step = swap.program.as_ref().and_then(|program| Some((program.sum()?, program.until)));
        match (swap.old, step) {
            (Some(old), Some(step)) => self.replace_or_step(statements, swap, old, step).await,
            (None, Some(_)) => {
                let Clocked { mut value, clock } = self.swap_all(statements, slice::from_ref(swap)).await?;
                Ok(Clocked { value: value.pop().unwrap_or(Err(StoreError::WriteConflict))?, clock })
            }
            (old, None) => self.replace_or_insert(statements, swap, old).await,
        }
    }

    async fn swap_all(
        &self,
        statements: &Statements<String>,
        swaps: &[SwapRequest],
    ) -> SqlReply<SwapResults> {
        let columns = SwapColumns::of(swaps);
        let rows = self.client.query_typed(&statements.swap_all, &columns.parameters()).await;
        let rows = rows.map_err(|error| error::store_error(&error, &statements.table))?;
        let first = rows.first().ok_or_else(|| StoreError::UnexpectedResponse("no rows".to_owned()))?;
        Ok(Clocked::with_clock(columns.results(&rows)?, clock(first)?))
    }

    async fn probe(&self, statements: &Statements<String>, key: Key) -> SqlReply<()> {
        let values: [Parameter<'_>; 1] = [(&&bytes_of(key)[..], Type::BYTEA)];
        let row = self.query_one(&statements.table, &statements.probe, &values).await?;
        Ok(Clocked::with_clock((), clock(&row)?))
    }

    async fn purge(&self, statements: &Statements<String>) -> SqlReply<u64> {
        let values: [Parameter<'_>; 1] = [(&lock(&statements.table), Type::INT8)];
        let row = self.query_one(&statements.table, &statements.purge, &values).await?;
        let removed = column::<i64>(&row, 0)?.unsigned_abs();
        Ok(Clocked::without_clock(removed))
    }

    async fn execute(&self, table: &str, text: &str) -> Result<(), StoreError> {
        self.client.batch_execute(text).await.map_err(|error| error::store_error(&error, table))
    }
}

impl PostgresConnection {
    async fn replace_or_insert(
        &self,
        statements: &Statements<String>,
        SwapRequest { key, new, .. }: &SwapRequest,
        old: Option<RecordVersion>,
    ) -> SqlReply<Swap> {
        let written = RecordVersion::random();
        let (key, bytes, version) = (bytes_of(*key), &new.bytes, written.0.cast_signed());
        let (name, full_at) = (readable(&new.limit), wall(new.full_at));
        let ttl = i64::try_from(new.ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX);
        let expected = old.map(|RecordVersion(old)| old.cast_signed());
        let key = &key[..];
        let mut values: Vec<Parameter<'_>> = vec![
            (&key, Type::BYTEA),
            (&version, Type::INT8),
            (bytes, Type::BYTEA),
            (&name, Type::TEXT),
            (&full_at, Type::TIMESTAMPTZ),
            (&ttl, Type::INT8),
        ];
        let text = if let Some(expected) = &expected {
            values.push((expected, Type::INT8));
            &statements.replace
        } else {
            &statements.insert
        };
        let row = self.query_one(&statements.table, text, &values).await?;
        let swap = if column(&row, 1)? { Swap::Done(written) } else { conflict(old, stored(&row, 2)?)? };
        Ok(Clocked::with_clock(swap, clock(&row)?))
    }

    async fn replace_or_step(
        &self,
        statements: &Statements<String>,
        SwapRequest { key, new, .. }: &SwapRequest,
        RecordVersion(old): RecordVersion,
        (sum, until): (StepSum, Time),
    ) -> SqlReply<Swap> {
        let version = RecordVersion::random();
        let (key, bytes, written, old) =
            (bytes_of(*key), &new.bytes, version.0.cast_signed(), old.cast_signed());
        let (name, full_at) = (readable(&new.limit), wall(new.full_at));
        let (from, until) = (wall(Time::from_nanos(sum.from.unsigned_abs())), wall(until));
        let ttl = i64::try_from(new.ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX);
        let header = i32::try_from(bytes.len().saturating_sub(8)).unwrap_or(0);
        let values: [Parameter<'_>; 15] = [
            (&&key[..], Type::BYTEA),
            (&written, Type::INT8),
            (bytes, Type::BYTEA),
            (&name, Type::TEXT),
            (&full_at, Type::TIMESTAMPTZ),
            (&ttl, Type::INT8),
            (&old, Type::INT8),
            (&header, Type::INT4),
            (&sum.now, Type::INT8),
            (&sum.add, Type::INT8),
            (&sum.floor, Type::INT8),
            (&sum.limit, Type::INT8),
            (&sum.max_ttl, Type::INT8),
            (&from, Type::TIMESTAMPTZ),
            (&until, Type::TIMESTAMPTZ),
        ];
        let row = self.query_one(&statements.table, &statements.replace_or_step, &values).await?;
        let swap = match (column::<Option<bool>>(&row, 1)?, stored(&row, 2)?) {
            (Some(true), _) => Swap::Done(version),
            (Some(false), Some(Stored { bytes: found, .. })) => {
                Swap::Stepped { found, now: Time::from_nanos(sum.now.unsigned_abs()), version }
            }
            (_, found) => conflict(Some(RecordVersion(old.cast_unsigned())), found)?,
        };
        Ok(Clocked::with_clock(swap, clock(&row)?))
    }

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
