//! One connection to MySQL or MariaDB, and the store operations as its statements.
//!
//! One request at a time. If a request were dropped, the driver would leave its result unread for the next one to find;
//! so requests run to their end ([`sql`](crate::sql)), and a connection on which one did not is never used
//! again. The SQL is left to [`statements`](super::statements).

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params, Row, SslOpts, Value};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::address::MysqlAddress;
use super::error;
use super::statements::{MysqlStatements, SESSION};
use super::swap::{MysqlSwap, SwapStatement};
use crate::compare_and_swap::{
    Clocked, RecordVersion, StoreClock, StoreError, Stored, Swap, SwapRequest, SwapResults,
};
use crate::sql;
use crate::sql::address::SqlTls;
use crate::sql::{SqlConnecting, SqlConnector, SqlQueries, SqlReply, Statements, bytes_of, conflict};
use tollgate_base::tls;
use tollgate_bucket::Key;
use tollgate_bucket::Time;

/// Makes connections: to the only host, or to the one of several that takes writes.
pub(super) struct MysqlConnector {
    hosts: Vec<Opts>,
    /// The position of the host of the last connection.
    last: AtomicUsize,
}

/// A connection. Closed when dropped.
pub(super) struct MysqlConnection(Mutex<Option<Conn>>);

impl MysqlConnector {
    pub(super) fn new(address: &MysqlAddress) -> Result<Self, StoreError> {
        let tls = match &address.tls {
            SqlTls::Off | SqlTls::Preferred => None,
            SqlTls::On { roots, checks_name } => {
                let roots = tls::roots(roots.as_deref())?.into_iter().map(|root| root.to_vec().into());
                let checked = SslOpts::default().with_disable_built_in_roots(true);
                Some(
                    checked.with_danger_skip_domain_validation(!checks_name).with_root_certs(roots.collect()),
                )
            }
        };
        let usual = OptsBuilder::default()
            .socket(address.socket.clone())
            // Otherwise the driver leaves the given address for a socket that the server names.
            .prefer_socket(false)
            .user(Some(address.user.clone()))
            .pass(address.password.clone())
            .db_name(Some(address.database.clone()))
            .ssl_opts(tls)
            .tcp_keepalive(Some(Duration::from_secs(60)))
            // Otherwise the driver asks the server for both.
            .max_allowed_packet(Some(MAX_PACKET_LEN))
            .wait_timeout(Some(0))
            // Counts the rows that were changed, not those that were found.
            .client_found_rows(false)
            .setup(SESSION.to_vec());
        let options =
            |(host, port): &(String, u16)| usual.clone().ip_or_hostname(host.clone()).tcp_port(*port).into();
        Ok(Self { hosts: address.hosts.iter().map(options).collect(), last: AtomicUsize::new(0) })
    }

    /// Tries the hosts in turn, first the one that worked last.
    async fn try_connect(&self) -> Result<Conn, StoreError> {
        let (first, count) = (self.last.load(Ordering::Relaxed), self.hosts.len());
        let mut last = StoreError::unreachable("no host is known");
        for at in (0..count).map(|at| (first + at) % count) {
            match timeout(HOST_TIMEOUT, self.connect_to(&self.hosts[at])).await {
                Ok(Ok(connection)) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = StoreError::unreachable("connecting took too long"),
            }
        }
        Err(last)
    }

    async fn connect_to(&self, host: &Opts) -> Result<Conn, StoreError> {
        let error = |error| error::store_error(&error, "");
        let mut connection = Conn::new(host.clone()).await.map_err(error)?;
        if self.hosts.len() > 1 {
            let found: Option<(String, String)> =
                connection.query_first(IS_READ_ONLY).await.map_err(error)?;
            let is_off = |value: &String| matches!(&value[..], "0" | "OFF");
            if !found.is_some_and(|(server, engine)| is_off(&server) && is_off(&engine)) {
                return Err(StoreError::ReadOnly(
                    "no host takes writes: those that answer are read-only".to_owned(),
                ));
            }
        }
        Ok(connection)
    }
}

impl SqlConnector for MysqlConnector {
    type Connection = MysqlConnection;

    fn connect(&self) -> SqlConnecting<'_, MysqlConnection> {
        Box::pin(async { Ok(MysqlConnection(Mutex::new(Some(self.try_connect().await?)))) })
    }
}

impl sql::SqlConnection for MysqlConnection {
    const MAX_UNANSWERED: usize = 1;
    const MAX_CONNECTIONS: usize = 8;
    const SILENCE_TIMEOUT: Duration = Duration::from_millis(1500);

    fn is_broken(&self) -> bool {
        false
    }

    // No other request uses it.
    fn close(&self) {}
}

impl SqlQueries for MysqlConnection {
    type Own = MysqlStatements;

    async fn load(&self, statements: &Statements<MysqlStatements>, key: Key) -> SqlReply<Option<Stored>> {
        let row = self.row(&statements.table, &statements.load, vec![bytes_of(key).into()]).await?;
        let clock = clock(row.as_ref())?;
        let column = |at| row.as_ref().and_then(|row| row.as_ref(at));
        let stored = match (column(1), column(2)) {
            (Some(Value::NULL), _) => None,
            (Some(Value::Int(version)), Some(Value::Bytes(bytes))) => {
                Some(Stored { version: RecordVersion(version.cast_unsigned()), bytes: bytes.clone() })
            }
            _ => return Err(StoreError::UnexpectedResponse("columns of other types".to_owned())),
        };
        Ok(Clocked::with_clock(stored, clock))
    }

    async fn swap(&self, statements: &Statements<MysqlStatements>, swap: &SwapRequest) -> SqlReply<Swap> {
        let asked = MysqlSwap::of(swap);
        let text = match asked.statements()[..] {
            [SwapStatement::Insert] => &statements.own.insert,
            [SwapStatement::Replace] => &statements.own.replace,
            [SwapStatement::ReplaceOrStep] => &statements.own.replace_or_step,
            _ => {
                let Clocked { mut value, clock } = self.swap_all(statements, slice::from_ref(swap)).await?;
                return Ok(Clocked { value: value.pop().unwrap_or(Err(StoreError::WriteConflict))?, clock });
            }
        };
        let (written, number) = self.write(&statements.table, text, asked.params()).await?;
        match asked.result(written, number) {
            Some((swap, clock)) => Ok(Clocked { value: swap, clock: clock.map(StoreClock::Exact) }),
            None => {
                let found = self.load(statements, swap.key).await?;
                Ok(Clocked { value: conflict(swap.old, found.value)?, clock: found.clock })
            }
        }
    }

    /// All statements are sent at once; of what was lost the row is read after that.
    async fn swap_all(
        &self,
        statements: &Statements<MysqlStatements>,
        swaps: &[SwapRequest],
    ) -> SqlReply<SwapResults> {
        let asked: Vec<_> = swaps.iter().map(MysqlSwap::of).collect();
        let texts: Vec<_> = asked
            .iter()
            .flat_map(|swap| swap.statements().into_iter().map(|kind| swap.text(statements, kind)))
            .collect();
        let mut done = self.write_all(&statements.table, &texts.join("; ")).await?.into_iter();
        let (mut results, mut clock) = (Vec::new(), None);
        for (swap, asked) in swaps.iter().zip(&asked) {
            let ends = done.by_ref().take(asked.statements().len());
            let won = ends.filter_map(|(written, number)| asked.result(written, number)).last();
            results.push(match won {
                Some((swap, told)) => {
                    clock = told.map(StoreClock::Exact).or(clock);
                    Ok(swap)
                }
                None => conflict(swap.old, self.load(statements, swap.key).await?.value),
            });
        }
        Ok(Clocked { value: results, clock })
    }

    async fn probe(&self, statements: &Statements<MysqlStatements>, key: Key) -> SqlReply<()> {
        let key: Vec<Value> = vec![bytes_of(key).into()];
        let (_, clock) = self.write(&statements.table, &statements.probe, key).await?;
        let clock =
            clock.ok_or_else(|| StoreError::UnexpectedResponse("a write without a time".to_owned()))?;
        Ok(Clocked::with_clock((), time(clock)))
    }

    async fn purge(&self, statements: &Statements<MysqlStatements>) -> SqlReply<u64> {
        let locked = self.row(&statements.table, &statements.own.purge.lock, Vec::new()).await?;
        if locked.as_ref().and_then(|row| row.as_ref(0)) != Some(&Value::Int(1)) {
            return Ok(Clocked::without_clock(0));
        }
        let (removed, _) = self.write(&statements.table, &statements.own.purge.remove, ()).await?;
        self.write(&statements.table, &statements.own.purge.unlock, ()).await?;
        Ok(Clocked::without_clock(removed))
    }

    async fn execute(&self, table: &str, text: &str) -> Result<(), StoreError> {
        let mut connection = self.0.lock().await;
        match connection.as_mut().ok_or_else(closed)?.query_drop(text).await {
            Err(Error::Server(error)) if error.code == DUPLICATE_COLUMN => Ok(()),
            done => done.map_err(|error| error::store_error(&error, table)),
        }
    }
}

impl MysqlConnection {
    /// Runs a query that returns at most one row.
    async fn row(&self, table: &str, text: &str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
        let mut connection = self.0.lock().await;
        let connection = connection.as_mut().ok_or_else(closed)?;
        let row = connection.exec_first(text, values).await;
        row.map_err(|error: Error| error::store_error(&error, table))
    }

    /// Runs a statement. Returns the number of rows that it wrote, and its `LAST_INSERT_ID`.
    async fn write(
        &self,
        table: &str,
        text: &str,
        values: impl Into<Params> + Send,
    ) -> Result<(u64, Option<u64>), StoreError> {
        let mut connection = self.0.lock().await;
        let connection = connection.as_mut().ok_or_else(closed)?;
        let done = connection.exec_drop(text, values.into()).await;
        done.map_err(|error| error::store_error(&error, table))?;
        Ok((connection.affected_rows(), connection.last_insert_id()))
    }

    /// Runs several statements. Returns the same for each.
    async fn write_all(&self, table: &str, text: &str) -> Result<Vec<(u64, Option<u64>)>, StoreError> {
        let mut connection = self.0.lock().await;
        let connection = connection.as_mut().ok_or_else(closed)?;
        let store_error = |error| error::store_error(&error, table);
        let mut result = connection.query_iter(text).await.map_err(store_error)?;
        let mut done = Vec::new();
        loop {
            done.push((result.affected_rows(), result.last_insert_id()));
            if result.is_empty() {
                result.drop_result().await.map_err(store_error)?;
                return Ok(done);
            }
            // Goes on to the result of the next statement.
            let _: Vec<Row> = result.collect().await.map_err(store_error)?;
        }
    }
}

impl Drop for MysqlConnection {
    fn drop(&mut self) {
        let connection = self.0.get_mut().take();
        // Without this the driver would try to disconnect for as long as the server does not listen.
        if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
            runtime.spawn(timeout(DISCONNECT_TIMEOUT, connection.disconnect()));
        }
    }
}

fn closed() -> StoreError {
    StoreError::unreachable("the connection was closed")
}

/// The database's clock, from the first column.
fn clock(row: Option<&Row>) -> Result<Time, StoreError> {
    match row.and_then(|row| row.as_ref(0)) {
        Some(Value::Int(micros)) => Ok(time(micros.unsigned_abs())),
        _ => Err(StoreError::UnexpectedResponse("no time".to_owned())),
    }
}

fn time(micros: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1000))
}

/// MySQL has no way to add a column only where it is missing.
const DUPLICATE_COLUMN: u16 = 1060;

/// More than the longest record.
const MAX_PACKET_LEN: usize = 1 << 20;

const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// For each of several hosts: one that is down must not use up the time of the others.
const HOST_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that replicates from another one; a replica of Aurora, which says so in the second column only.
const IS_READ_ONLY: &str = "SELECT @@global.read_only, @@global.innodb_read_only";
