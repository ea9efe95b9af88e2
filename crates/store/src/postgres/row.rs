//! What goes into a statement and comes out of a row: parameters with their types, columns and times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use crate::compare_and_swap::{RecordVersion, StoreError, Stored};
use tollgate_bucket::Time;

/// A parameter and its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The value of a column.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| StoreError::UnexpectedResponse(error.to_string()))
}

/// The version and the bytes in two columns, both null if there is no row.
pub(super) fn stored(row: &Row, at: usize) -> Result<Option<Stored>, StoreError> {
    let Some(version) = column::<Option<i64>>(row, at)? else { return Ok(None) };
    Ok(Some(Stored { version: RecordVersion(version.cast_unsigned()), bytes: column(row, at + 1)? }))
}

/// The database's clock, from the first column.
pub(super) fn clock(row: &Row) -> Result<Time, StoreError> {
    let since = column::<SystemTime>(row, 0)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}

/// A time as the database takes it.
pub(super) fn wall(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(time.as_nanos())
}
