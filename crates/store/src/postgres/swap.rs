//! What the function that swaps is told, as values for one row or as arrays for several, and what it returns.
//!
//! A row that a rival inserted is stepped, too. The SQL is left to [`statements`](super::statements).

use std::time::SystemTime;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::row::{Parameter, column, stored, wall};
use crate::compare_and_swap::{RecordVersion, StoreError, Stored, Swap, SwapRequest};
use crate::sql::{bytes_of, conflict, readable};
use tollgate_bucket::Time;

/// A swap as the function takes it.
pub(super) struct SwapValues {
    pub(super) key: Vec<u8>,
    written: i64,
    bytes: Vec<u8>,
    name: String,
    full_at: SystemTime,
    ttl: i64,
    expected: Option<i64>,
    header: i32,
    /// The numbers of a [`StepSum`](crate::StepSum): its time, and what it adds, its floor, its limit and the longest
    /// life of a state.
    sum: [Option<i64>; 5],
    /// Between which times a step is taken.
    since: Option<SystemTime>,
    until: Option<SystemTime>,
}

/// An array for a parameter.
type Column<'a> = Box<dyn ToSql + Sync + Send + 'a>;

impl SwapValues {
    pub(super) fn of(SwapRequest { key, old, new, program }: &SwapRequest) -> Self {
        let sum = program.as_ref().and_then(|program| Some((program.sum()?, program.until)));
        let numbers = sum.map(|(sum, _)| [sum.now, sum.add, sum.floor, sum.limit, sum.max_ttl]);
        Self {
            key: bytes_of(*key).to_vec(),
            written: RecordVersion::random().0.cast_signed(),
            bytes: new.bytes.clone(),
            name: readable(&new.limit),
            full_at: wall(new.full_at),
            ttl: i64::try_from(new.ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX),
            expected: old.map(|RecordVersion(old)| old.cast_signed()),
            header: i32::try_from(new.bytes.len().saturating_sub(8)).unwrap_or(0),
            sum: numbers.map_or([None; 5], |numbers| numbers.map(Some)),
            since: sum.map(|(sum, _)| wall(Time::from_nanos(sum.from.unsigned_abs()))),
            until: sum.map(|(_, until)| wall(until)),
        }
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 15] {
        let [now, add, floor, limit, max_ttl] = &self.sum;
        [
            (&self.key, Type::BYTEA),
            (&self.written, Type::INT8),
            (&self.bytes, Type::BYTEA),
            (&self.name, Type::TEXT),
            (&self.full_at, Type::TIMESTAMPTZ),
            (&self.ttl, Type::INT8),
            (&self.expected, Type::INT8),
            (&self.header, Type::INT4),
            (now, Type::INT8),
            (add, Type::INT8),
            (floor, Type::INT8),
            (limit, Type::INT8),
            (max_ttl, Type::INT8),
            (&self.since, Type::TIMESTAMPTZ),
            (&self.until, Type::TIMESTAMPTZ),
        ]
    }

    /// The parameters for several rows, in the same order.
    pub(super) fn columns(rows: &[Self]) -> [(Column<'_>, Type); 15] {
        let sum = |at| (column_of(rows, move |row| row.sum[at]), Type::INT8_ARRAY);
        [
            (column_of(rows, |row| &row.key), Type::BYTEA_ARRAY),
            (column_of(rows, |row| row.written), Type::INT8_ARRAY),
            (column_of(rows, |row| &row.bytes), Type::BYTEA_ARRAY),
            (column_of(rows, |row| &row.name), Type::TEXT_ARRAY),
            (column_of(rows, |row| row.full_at), Type::TIMESTAMPTZ_ARRAY),
            (column_of(rows, |row| row.ttl), Type::INT8_ARRAY),
            (column_of(rows, |row| row.expected), Type::INT8_ARRAY),
            (column_of(rows, |row| row.header), Type::INT4_ARRAY),
            sum(0),
            sum(1),
            sum(2),
            sum(3),
            sum(4),
            (column_of(rows, |row| row.since), Type::TIMESTAMPTZ_ARRAY),
            (column_of(rows, |row| row.until), Type::TIMESTAMPTZ_ARRAY),
        ]
    }

    /// The result, from the row that the function returned.
    pub(super) fn result(&self, row: &Row) -> Result<Swap, StoreError> {
        let version = RecordVersion(self.written.cast_unsigned());
        match (column::<Option<bool>>(row, 1)?, stored(row, 2)?, self.sum[0]) {
            (Some(true), ..) => Ok(Swap::Done(version)),
            (Some(false), Some(Stored { bytes: found, .. }), Some(now)) => {
                Ok(Swap::Stepped { found, now: Time::from_nanos(now.unsigned_abs()), version })
            }
            (_, found, _) => conflict(self.expected.map(|old| RecordVersion(old.cast_unsigned())), found),
        }
    }
}

fn column_of<'r, T: ToSql + Sync + Send + 'r>(
    rows: &'r [SwapValues],
    value: impl Fn(&'r SwapValues) -> T,
) -> Column<'r> {
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}
