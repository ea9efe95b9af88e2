//! Several buckets in one statement: each row is replaced, stepped or inserted by itself.
//!
//! A row that a rival inserted is stepped, too. What one bucket alone needs is left to
//! [`statements`](super::statements).

use std::time::SystemTime;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::row::{Parameter, column, stored, wall};
use crate::compare_and_swap::{RecordVersion, StoreError, Stored, Swap, SwapRequest, SwapResults};
use crate::sql::{bytes_of, conflict, readable};
use tollgate_bucket::Time;

/// The statement about this table. Rows are locked in the order of their keys, so that rivals wait for each other and
/// never in a circle.
pub(super) fn statement(table: &str) -> String {
    let micros = |nanos: &str| format!("(({nanos}) / 1000 + 1) * interval '1 microsecond'");
    let (full_at, lives) = (micros("next"), micros("greatest(next - as_of, 1000000000)"));
    let expires = |ttl: &str| format!("clock_timestamp() + {ttl} * interval '1 microsecond'");
    let (in_time, taken_over) = (expires("ttl"), expires("asked.ttl"));
    format!(
        "WITH asked AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
         $15) WITH ORDINALITY AS asked (key, new_version, new_state, name, new_full_at, ttl, expected, header, as_of, add, \
         lowest, most, max_ttl, since, until, nth) WHERE set_config('lock_timeout', '500ms', true) IS NOT NULL), \
         held AS MATERIALIZED (SELECT asked.*, version, state, clock_timestamp() AS now, \
         CASE WHEN length(state) = header + 8 AND substring(state FOR header) = substring(new_state FOR header) \
         THEN ('x' || encode(substring(state FROM header + 1), 'hex'))::bit(64)::bigint END AS tat \
         FROM asked JOIN {table} AS kept USING (key) WHERE expires_at > clock_timestamp() \
         ORDER BY key FOR NO KEY UPDATE OF kept), \
         found AS MATERIALIZED (SELECT *, coalesce(version = expected, false) AS is_expected, \
         CASE WHEN tat > 0 AND now >= since AND now < until AND tat - as_of <= max_ttl \
         AND greatest(tat - as_of, 0) <= most \
         THEN as_of + greatest(greatest(tat - as_of, 0) + add, lowest) END AS next FROM held), \
         won AS (UPDATE {table} AS kept SET version = new_version, limit_name = name, \
         state = CASE WHEN is_expected THEN new_state ELSE substring(new_state FOR header) || int8send(next) END, \
         full_at = CASE WHEN is_expected THEN new_full_at ELSE timestamptz 'epoch' + {full_at} END, \
         expires_at = CASE WHEN is_expected THEN {in_time} ELSE clock_timestamp() + {lives} END \
         FROM found WHERE kept.key = found.key AND (is_expected OR next IS NOT NULL) RETURNING nth, is_expected), \
         fresh AS (INSERT INTO {table} AS kept (key, version, state, limit_name, full_at, expires_at) \
         SELECT key, new_version, new_state, name, new_full_at, {taken_over} FROM asked \
         WHERE expected IS NULL AND nth NOT IN (SELECT nth FROM held) ORDER BY key \
         ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, \
         limit_name = excluded.limit_name, full_at = excluded.full_at, expires_at = excluded.expires_at \
         WHERE kept.expires_at <= clock_timestamp() RETURNING key) \
         SELECT clock_timestamp(), CASE WHEN fresh.key IS NULL THEN won.is_expected ELSE true END, \
         found.version, found.state FROM asked LEFT JOIN found USING (nth) LEFT JOIN won USING (nth) \
         LEFT JOIN fresh ON fresh.key = asked.key ORDER BY nth"
    )
}

/// The swaps as columns.
#[derive(Default)]
pub(super) struct SwapColumns {
    keys: Vec<Vec<u8>>,
    versions: Vec<i64>,
    states: Vec<Vec<u8>>,
    names: Vec<String>,
    full_at: Vec<SystemTime>,
    ttl: Vec<i64>,
    old: Vec<Option<i64>>,
    headers: Vec<i32>,
    /// The numbers of a [`StepSum`](crate::StepSum): its time, and what it adds, its floor, its limit and the longest
    /// life of a state.
    sums: [Vec<Option<i64>>; 5],
    /// Between which times a step is taken.
    since: Vec<Option<SystemTime>>,
    until: Vec<Option<SystemTime>>,
}

impl SwapColumns {
    pub(super) fn of(swaps: &[SwapRequest]) -> Self {
        let mut columns = Self::default();
        swaps.iter().for_each(|swap| columns.push(swap));
        columns
    }

    fn push(&mut self, SwapRequest { key, old, new, program }: &SwapRequest) {
        self.keys.push(bytes_of(*key).to_vec());
        self.versions.push(RecordVersion::random().0.cast_signed());
        self.states.push(new.bytes.clone());
        self.names.push(readable(&new.limit));
        self.full_at.push(wall(new.full_at));
        self.ttl.push(i64::try_from(new.ttl.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX));
        self.old.push(old.map(|RecordVersion(old)| old.cast_signed()));
        self.headers.push(i32::try_from(new.bytes.len().saturating_sub(8)).unwrap_or(0));
        let sum = program.as_ref().and_then(|program| Some((program.sum()?, program.until)));
        let numbers = sum.map(|(sum, _)| [sum.now, sum.add, sum.floor, sum.limit, sum.max_ttl]);
        for (at, column) in self.sums.iter_mut().enumerate() {
            column.push(numbers.map(|numbers| numbers[at]));
        }
        self.since.push(sum.map(|(sum, _)| wall(Time::from_nanos(sum.from.unsigned_abs()))));
        self.until.push(sum.map(|(_, until)| wall(until)));
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 15] {
        let [now, add, floor, limit, max_ttl] = &self.sums;
        [
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.versions, Type::INT8_ARRAY),
            (&self.states, Type::BYTEA_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
            (&self.full_at, Type::TIMESTAMPTZ_ARRAY),
            (&self.ttl, Type::INT8_ARRAY),
            (&self.old, Type::INT8_ARRAY),
            (&self.headers, Type::INT4_ARRAY),
            (now, Type::INT8_ARRAY),
            (add, Type::INT8_ARRAY),
            (floor, Type::INT8_ARRAY),
            (limit, Type::INT8_ARRAY),
            (max_ttl, Type::INT8_ARRAY),
            (&self.since, Type::TIMESTAMPTZ_ARRAY),
            (&self.until, Type::TIMESTAMPTZ_ARRAY),
        ]
    }

    /// The results, one from each row.
    pub(super) fn results(&self, rows: &[Row]) -> Result<SwapResults, StoreError> {
        if rows.len() != self.keys.len() {
            return Err(StoreError::UnexpectedResponse("another number of rows".to_owned()));
        }
        Ok(rows.iter().enumerate().map(|(at, row)| self.result(at, row)).collect())
    }

    fn result(&self, at: usize, row: &Row) -> Result<Swap, StoreError> {
        let version = RecordVersion(self.versions[at].cast_unsigned());
        let old = self.old[at].map(|old| RecordVersion(old.cast_unsigned()));
        match (column::<Option<bool>>(row, 1)?, stored(row, 2)?, self.sums[0][at]) {
            (Some(true), ..) => Ok(Swap::Done(version)),
            (Some(false), Some(Stored { bytes: found, .. }), Some(now)) => {
                Ok(Swap::Stepped { found, now: Time::from_nanos(now.unsigned_abs()), version })
            }
            (_, found, _) => conflict(old, found),
        }
    }
}
