//! Buckets as rows of a table: the part that PostgreSQL and MySQL share.
//!
//! The statements, and how their results are read, are left to each database ([`SqlQueries`]). A probe writes a row of
//! the table: without the table every request fails, on a replica every write, and a database whose probes succeed would
//! be called and given up again several times a second.

use std::sync::Arc;
use std::time::Duration;

use super::{SqlConnection, SqlConnector, SqlPool};
use crate::compare_and_swap::{
    Clocked, CompareAndSwap, RecordVersion, ServerId, StoreError, StoreFuture, StoreRecord, Stored, Swap,
    SwapRequest, SwapResults,
};
use crate::{StepProgram, StepShape};
use tollgate_bucket::Key;

/// A database's reply, or its error.
pub(crate) type SqlReply<T> = Result<Clocked<T>, StoreError>;

/// A connection that runs the store operations as statements of its database.
pub(crate) trait SqlQueries: SqlConnection {
    /// The statements that only this database has: how it swaps and purges.
    type Own: Send + Sync + 'static;

    fn load(
        &self,
        statements: &Statements<Self::Own>,
        key: Key,
    ) -> impl Future<Output = SqlReply<Option<Stored>>> + Send;

    /// Replaces, steps or inserts one row.
    fn swap(
        &self,
        statements: &Statements<Self::Own>,
        swap: &SwapRequest,
    ) -> impl Future<Output = SqlReply<Swap>> + Send;

    /// Replaces, steps or inserts several rows in one request, each by itself.
    fn swap_all(
        &self,
        statements: &Statements<Self::Own>,
        swaps: &[SwapRequest],
    ) -> impl Future<Output = SqlReply<SwapResults>> + Send;

    /// Writes the row of this key, whatever is there.
    fn probe(
        &self,
        statements: &Statements<Self::Own>,
        key: Key,
    ) -> impl Future<Output = SqlReply<()>> + Send;

    /// Removes a batch of rows that are due, unless another gate does.
    fn purge(&self, statements: &Statements<Self::Own>) -> impl Future<Output = SqlReply<u64>> + Send;

    /// Runs a statement about this table that returns no rows.
    fn execute(&self, table: &str, text: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The statements about one table.
pub(crate) struct Statements<T> {
    pub(crate) table: String,
    pub(crate) load: String,
    pub(crate) probe: String,
    /// Change nothing, but need the same permissions as the others.
    pub(crate) permission_checks: [String; 4],
    pub(crate) schema: Vec<String>,
    /// What a table of an earlier version lacks; fails if it lacks nothing, which the connection passes over.
    pub(crate) upgrade: Vec<String>,
    pub(crate) own: T,
}

/// Buckets in one table.
pub(crate) struct SqlStore<D: SqlConnector<Connection: SqlQueries>> {
    pool: SqlPool<D>,
    statements: Arc<Statements<Own<D>>>,
    /// The row that only this gate's probes write, so that no gate waits for another one.
    probe_key: Key,
    is_unencrypted: bool,
}

/// The statements that only a connector's database has.
type Own<D> = <<D as SqlConnector>::Connection as SqlQueries>::Own;

impl<D: SqlConnector<Connection: SqlQueries>> SqlStore<D> {
    /// A store without connections yet; `is_unencrypted` says whether its traffic can be read on the way.
    ///
    /// # Errors
    /// If there is no runtime to run in.
    pub(crate) fn new(
        connector: D,
        statements: Statements<Own<D>>,
        is_unencrypted: bool,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            pool: SqlPool::new(connector)?,
            statements: Arc::new(statements),
            probe_key: Key(RecordVersion::random().0.into()),
            is_unencrypted,
        })
    }
}

impl<D: SqlConnector<Connection: SqlQueries>> SqlStore<D> {
    fn swap_one(&self, swap: SwapRequest) -> StoreFuture<'_, Swap> {
        let statements = Arc::clone(&self.statements);
        Box::pin(self.pool.call(move |connection| async move { connection.swap(&statements, &swap).await }))
    }
}

impl<D: SqlConnector<Connection: SqlQueries>> CompareAndSwap for SqlStore<D> {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        let statements = Arc::clone(&self.statements);
        Box::pin(self.pool.call(move |connection| async move { connection.load(&statements, key).await }))
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        self.swap_one(SwapRequest { key, old, new, program: None })
    }

    fn can_step(&self, shape: &StepShape) -> bool {
        matches!(shape, StepShape::Continuous(_))
    }

    fn swap_or_step(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: StepProgram,
    ) -> StoreFuture<'_, Swap> {
        self.swap_one(SwapRequest { key, old, new, program: Some(program) })
    }

    fn can_swap_together(&self, _keys: &[Key]) -> bool {
        true
    }

    fn swap_all(&self, swaps: Vec<SwapRequest>) -> StoreFuture<'_, SwapResults> {
        let statements = Arc::clone(&self.statements);
        Box::pin(
            self.pool.call(move |connection| async move { connection.swap_all(&statements, &swaps).await }),
        )
    }

    fn probe(&self, _server: ServerId) -> StoreFuture<'_, ()> {
        let (statements, key) = (Arc::clone(&self.statements), self.probe_key);
        Box::pin(self.pool.call(move |connection| async move { connection.probe(&statements, key).await }))
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        let statements = Arc::clone(&self.statements);
        let mut found = warn_of_plain_text(self.is_unencrypted);
        Box::pin(self.pool.call_alone(|connection| async move {
            let mut results = Vec::new();
            for check in &statements.permission_checks {
                results.push(connection.execute(&statements.table, check).await);
            }
            found.extend(refusals(results)?);
            Ok(Clocked::without_clock(found))
        }))
    }

    fn purge(&self) -> StoreFuture<'_, u64> {
        let statements = Arc::clone(&self.statements);
        Box::pin(self.pool.call_alone(|connection| async move { connection.purge(&statements).await }))
    }

    fn schema(&self) -> Vec<String> {
        let Statements { schema, upgrade, .. } = &*self.statements;
        let upgrade =
            upgrade.iter().map(|statement| format!("-- a table of an earlier version: {statement};"));
        schema.iter().map(|statement| format!("{statement};")).chain(upgrade).collect()
    }

    fn migrate(&self) -> StoreFuture<'_, ()> {
        let statements = Arc::clone(&self.statements);
        Box::pin(self.pool.call_alone(|connection| async move {
            for statement in statements.schema.iter().chain(&statements.upgrade) {
                change(&*connection, &statements.table, statement).await?;
            }
            Ok(Clocked::without_clock(()))
        }))
    }
}

/// Runs a statement that may be run again: of several that change a schema at once databases let some fail.
async fn change(connection: &impl SqlQueries, table: &str, statement: &str) -> Result<(), StoreError> {
    for _ in 1..CHANGE_TRIES {
        if connection.execute(table, statement).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(CHANGE_PAUSE).await;
    }
    connection.execute(table, statement).await
}

/// The warning about a connection in clear text.
fn warn_of_plain_text(is_unencrypted: bool) -> Vec<String> {
    let warning = is_unencrypted
        .then(|| "the connection is not encrypted: add `sslmode=verify-full` to the address".to_owned());
    warning.into_iter().collect()
}

/// The distinct refusals among these results.
fn refusals(results: impl IntoIterator<Item = Result<(), StoreError>>) -> Result<Vec<String>, StoreError> {
    let mut refusals = Vec::new();
    for result in results {
        match result {
            Err(StoreError::Refused(why) | StoreError::ReadOnly(why)) if refusals.contains(&why) => {}
            Err(StoreError::Refused(why) | StoreError::ReadOnly(why)) => refusals.push(why),
            other => other?,
        }
    }
    Ok(refusals)
}

/// As many rivals may come first.
const CHANGE_TRIES: u32 = 10;
const CHANGE_PAUSE: Duration = Duration::from_millis(50);
