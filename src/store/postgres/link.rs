//! One connection to PostgreSQL, and the questions as it hears them.
//!
//! Questions follow each other without waiting for answers. The surprising thing: the driver reads answers in a task of
//! its own, so an answer that nobody waits for any more is read and thrown away there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Postgres;
use super::fault;
use crate::bucket::Key;
use crate::store::compare_and_swap::{Answer, Record, StoreError, Stored, Swap, Version};
use crate::store::sql::address::Tls;
use crate::store::sql::{
    Broom, Dial, Dialled, Heard, Link as _, Questions, Statements, bytes_of, lost, readable,
};
use crate::store::{sql, tls};
use crate::time::Time;

/// How connections are made.
pub(super) struct Server {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

/// A connection. Closed when dropped.
pub(super) struct Link {
    client: Client,
    reader: JoinHandle<()>,
}

impl Server {
    pub(super) fn new(address: &Postgres) -> Result<Self, StoreError> {
        let tls = match &address.tls {
            Tls::Off => None,
            Tls::On(roots) => Some(MakeRustlsConnect::new(tls::client(roots.as_deref())?)),
        };
        Ok(Self { config: address.config.clone(), tls })
    }

    async fn connect(&self) -> Result<Link, Error> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Link { client, reader: tokio::spawn(async { drop(connection.await) }) }
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Link { client, reader: tokio::spawn(async { drop(connection.await) }) }
            }
        })
    }
}

impl Dial for Server {
    type Link = Link;

    fn dial(&self) -> Dialled<'_, Link> {
        Box::pin(async { self.connect().await.map_err(|error| fault::of(&error, "")) })
    }
}

impl sql::Link for Link {
    const AT_ONCE: usize = 64;
    const MOST: usize = 4;
    const SILENCE: Duration = Duration::from_secs(1);

    fn is_broken(&self) -> bool {
        self.client.is_closed()
    }

    fn cut(&self) {
        self.reader.abort();
    }
}

impl Questions for Link {
    type Tidy = String;

    async fn load(&self, texts: &Statements<String>, key: Key) -> Heard<Option<Stored>> {
        let row = self.ask(&texts.table, &texts.load, &[(&&bytes_of(key)[..], Type::BYTEA)]).await?;
        Ok(Answer::at(stored(&row, 1)?, clock(&row)?))
    }

    async fn swap(
        &self,
        texts: &Statements<String>,
        key: Key,
        old: Option<Version>,
        new: &Record,
    ) -> Heard<Swap> {
        let written = Version::random();
        let (key, bytes, version) = (bytes_of(key), &new.bytes, written.0.cast_signed());
        let (name, full_at) = (readable(&new.limit), wall(new.full_at));
        let ttl = i64::try_from(new.ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX);
        let expected = old.map(|Version(old)| old.cast_signed());
        let key = &key[..];
        let mut values: Vec<Value<'_>> = vec![
            (&key, Type::BYTEA),
            (&version, Type::INT8),
            (bytes, Type::BYTEA),
            (&name, Type::TEXT),
            (&full_at, Type::TIMESTAMPTZ),
            (&ttl, Type::INT8),
        ];
        let text = if let Some(expected) = &expected {
            values.push((expected, Type::INT8));
            &texts.replace
        } else {
            &texts.take
        };
        let row = self.ask(&texts.table, text, &values).await?;
        let swap = if column(&row, 1)? { Swap::Done(written) } else { lost(old, stored(&row, 2)?)? };
        Ok(Answer::at(swap, clock(&row)?))
    }

    async fn probe(&self, texts: &Statements<String>) -> Heard<()> {
        let row = self.ask(&texts.table, &texts.probe, &[]).await?;
        Ok(Answer::at((), clock(&row)?))
    }

    async fn tidy(&self, texts: &Statements<String>, broom: &Broom) -> Heard<u64> {
        let values: [Value<'_>; 2] = [(&lock(&texts.table), Type::INT8), (&broom.stands(), Type::BYTEA)];
        let row = self.ask(&texts.table, &texts.tidy, &values).await?;
        let removed = column::<i64>(&row, 0)?.unsigned_abs();
        broom.moves(column(&row, 1)?, removed);
        Ok(Answer::timeless(removed))
    }

    async fn say(&self, table: &str, text: &str) -> Result<(), StoreError> {
        self.client.batch_execute(text).await.map_err(|error| fault::of(&error, table))
    }
}

impl Link {
    /// Asks what is answered by one row.
    async fn ask(&self, table: &str, text: &str, values: &[Value<'_>]) -> Result<Row, StoreError> {
        let row = self.client.query_typed_one(text, values).await;
        row.map_err(|error| fault::of(&error, table))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
    }
}

/// A parameter and what it is.
type Value<'a> = (&'a (dyn ToSql + Sync), Type);

fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| StoreError::Garbled(error.to_string()))
}

/// The version and the bytes in two columns, both empty if nothing stands there.
fn stored(row: &Row, at: usize) -> Result<Option<Stored>, StoreError> {
    let Some(version) = column::<Option<i64>>(row, at)? else { return Ok(None) };
    Ok(Some(Stored { version: Version(version.cast_unsigned()), bytes: column(row, at + 1)? }))
}

/// The database's clock, which stands in the first column.
fn clock(row: &Row) -> Result<Time, StoreError> {
    let since = column::<SystemTime>(row, 0)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}

fn wall(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(time.as_nanos())
}

/// The number of the lock under which this table is cleaned (FNV-1a).
fn lock(table: &str) -> i64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    table.bytes().fold(0xcbf2_9ce4_8422_2325, step).cast_signed()
}
