//! Buckets as rows of a table: the part that PostgreSQL and MySQL share.
//!
//! What a database is told, and how its answers are read, is its own ([`SqlQueries`]). The surprising thing: a probe names
//! the table too. A database that is there without it answers no question, and one that seemed to be back would be asked
//! and given up again several times a second.

use std::sync::Arc;

use super::{PurgeCursor, SqlConnection, SqlConnector, SqlPool};
use crate::bucket::Key;
use crate::store::compare_and_swap::{
    Clocked, CompareAndSwap, RecordVersion, StoreError, StoreFuture, StoreRecord, Stored, Swap,
};

/// What a database said, or why it did not.
pub(in crate::store) type SqlReply<T> = Result<Clocked<T>, StoreError>;

/// A connection, and the questions as its database hears them.
pub(in crate::store) trait SqlQueries: SqlConnection {
    /// What is said in order to clean.
    type Purge: Send + Sync + 'static;

    fn load(
        &self,
        texts: &Statements<Self::Purge>,
        key: Key,
    ) -> impl Future<Output = SqlReply<Option<Stored>>> + Send;

    fn swap(
        &self,
        texts: &Statements<Self::Purge>,
        key: Key,
        old: Option<RecordVersion>,
        new: &StoreRecord,
    ) -> impl Future<Output = SqlReply<Swap>> + Send;

    fn probe(&self, texts: &Statements<Self::Purge>) -> impl Future<Output = SqlReply<()>> + Send;

    /// Cleans the next window, unless another gate is at it.
    fn purge(
        &self,
        texts: &Statements<Self::Purge>,
        broom: &PurgeCursor,
    ) -> impl Future<Output = SqlReply<u64>> + Send;

    /// Says something about this table that is answered by nothing.
    fn execute(&self, table: &str, text: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What is said about one table.
pub(in crate::store) struct Statements<T> {
    pub(in crate::store) table: String,
    pub(in crate::store) load: String,
    /// Where a version is expected.
    pub(in crate::store) replace: String,
    /// Where nothing is expected.
    pub(in crate::store) insert: String,
    pub(in crate::store) probe: String,
    /// Do nothing, but need the rights that the others need.
    pub(in crate::store) permission_checks: [String; 4],
    pub(in crate::store) purge: T,
    pub(in crate::store) schema: Vec<String>,
}

/// Buckets in one table.
pub(in crate::store) struct SqlStore<D: SqlConnector<Connection: SqlQueries>> {
    pool: SqlPool<D>,
    statements: Arc<Statements<Purge<D>>>,
    purge_cursor: Arc<PurgeCursor>,
    is_exposed: bool,
}

/// What cleans the table at the other end.
type Purge<D> = <<D as SqlConnector>::Connection as SqlQueries>::Purge;

impl<D: SqlConnector<Connection: SqlQueries>> SqlStore<D> {
    /// Not asked yet; `is_exposed` says whether what is said to it can be read on the way.
    ///
    /// # Errors
    /// If there is no runtime here to ask in.
    pub(in crate::store) fn new(
        dial: D,
        texts: Statements<Purge<D>>,
        is_exposed: bool,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            pool: SqlPool::new(dial)?,
            statements: Arc::new(texts),
            purge_cursor: Arc::default(),
            is_exposed,
        })
    }
}

impl<D: SqlConnector<Connection: SqlQueries>> CompareAndSwap for SqlStore<D> {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.pool.call(move |link| async move { link.load(&texts, key).await }))
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.pool.call(move |link| async move { link.swap(&texts, key, old, &new).await }))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.pool.call(|link| async move { link.probe(&texts).await }))
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        let texts = Arc::clone(&self.statements);
        let mut found = exposed(self.is_exposed);
        Box::pin(self.pool.call_alone(|link| async move {
            let mut trials = Vec::new();
            for trial in &texts.permission_checks {
                trials.push(link.execute(&texts.table, trial).await);
            }
            found.extend(refusals(trials)?);
            Ok(Clocked::without_clock(found))
        }))
    }

    fn purge(&self) -> StoreFuture<'_, u64> {
        let (texts, broom) = (Arc::clone(&self.statements), Arc::clone(&self.purge_cursor));
        Box::pin(self.pool.call_alone(|link| async move { link.purge(&texts, &broom).await }))
    }

    fn schema(&self) -> Vec<String> {
        self.statements.schema.clone()
    }

    fn migrate(&self) -> StoreFuture<'_, ()> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.pool.call_alone(|link| async move {
            for statement in &texts.schema {
                link.execute(&texts.table, statement).await?;
            }
            Ok(Clocked::without_clock(()))
        }))
    }
}

/// What an operator should know of a connection in clear text.
fn exposed(is_exposed: bool) -> Vec<String> {
    let said = is_exposed
        .then(|| "the connection is not encrypted: add `sslmode=verify-full` to the address".to_owned());
    said.into_iter().collect()
}

/// The refusals among what came of the trials, each once.
fn refusals(trials: impl IntoIterator<Item = Result<(), StoreError>>) -> Result<Vec<String>, StoreError> {
    let mut refusals = Vec::new();
    for trial in trials {
        match trial {
            Err(StoreError::Refused(why)) if refusals.contains(&why) => {}
            Err(StoreError::Refused(why)) => refusals.push(why),
            other => other?,
        }
    }
    Ok(refusals)
}
