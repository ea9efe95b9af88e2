//! Buckets in PostgreSQL, or in what speaks like it (YugabyteDB): a table with one row for each bucket.
//!
//! `postgres://user:password@host:port/database`, with several hosts or a Unix socket's directory the way the
//! [driver](tokio_postgres::Config) knows them, and `sslmode=disable|require|verify-full` and `sslrootcert=FILE`; `require`
//! checks the certificate too. The surprising thing: no statement is prepared by name, so a pooler that hands each
//! statement to another connection (PgBouncer in transaction mode) may stand between.

mod address;
mod fault;
mod link;
mod statements;

use std::sync::Arc;

use super::address::Remote;
use super::compare_and_swap::{
    Answer, Asking, CompareAndSwap, Namespace, Record, StoreError, Stored, Swap, Version,
};
use super::sql::{Broom, Lines, exposed};
use crate::bucket::Key;

use self::link::Server;
use self::statements::Statements;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(address::parse(url)?))
}

/// Buckets in one table.
struct Postgres {
    lines: Lines<Server>,
    statements: Arc<Statements>,
    broom: Arc<Broom>,
    is_exposed: bool,
}

impl Remote for address::Postgres {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        Ok(Arc::new(Postgres {
            lines: Lines::new(Server::new(self)?)?,
            statements: Arc::new(Statements::new(&names.table())),
            broom: Arc::default(),
            is_exposed: self.is_exposed(),
        }))
    }
}

impl CompareAndSwap for Postgres {
    fn load(&self, key: Key) -> Asking<'_, Option<Stored>> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.lines.ask(move |link| async move { link.load(&texts, key).await }))
    }

    fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Asking<'_, Swap> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.lines.ask(move |link| async move { link.swap(&texts, key, old, &new).await }))
    }

    fn probe(&self) -> Asking<'_, ()> {
        Box::pin(self.lines.ask(|link| async move { link.probe().await }))
    }

    fn inspect(&self) -> Asking<'_, Vec<String>> {
        let texts = Arc::clone(&self.statements);
        let mut found = exposed(self.is_exposed);
        Box::pin(self.lines.ask_alone(|link| async move {
            found.extend(link.trials(&texts).await?);
            Ok(Answer::timeless(found))
        }))
    }

    fn tidy(&self) -> Asking<'_, u64> {
        let (texts, broom) = (Arc::clone(&self.statements), Arc::clone(&self.broom));
        Box::pin(self.lines.ask_alone(|link| async move { link.tidy(&texts, &broom).await }))
    }

    fn schema(&self) -> Vec<String> {
        self.statements.schema.clone()
    }

    fn migrate(&self) -> Asking<'_, ()> {
        let texts = Arc::clone(&self.statements);
        Box::pin(self.lines.ask_alone(|link| async move { link.migrate(&texts).await }))
    }
}
