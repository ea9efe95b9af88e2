//! The statements for PostgreSQL. Everything but the table's name is a parameter, and the name is made of letters,
//! digits and `_`.
//!
//! A statement sees the rows as of its start, but waits for a locked row and then checks the new one; so the row that
//! it reports after a conflict may be older than the conflict. That is left to
//! [`conflict`](crate::sql::conflict). Every statement uses `clock_timestamp()`, because `now()` stands still
//! while a statement waits.

use super::swap_all;
use crate::sql::{BATCH, PERIOD, Statements};

/// The statements about this table.
pub(super) fn statements(table: &str) -> Statements<String> {
    let is_live = "held.key = $1 AND held.expires_at > clock_timestamp()";
    let expires = "clock_timestamp() + $6 * interval '1 microsecond'";
    // Stops waiting for a row that another transaction holds, for this statement only: a connection that is given up
    // would go on waiting for it, and the next one too. As a setting of the connection it would leak through a pooler.
    let lock_timeout = "set_config('lock_timeout', '500ms', true) IS NOT NULL";
    let found = format!(
        "SELECT clock_timestamp(), EXISTS (SELECT FROM won), held.version, held.state FROM (SELECT 1) AS one \
         LEFT JOIN {table} AS held ON {is_live} AND NOT EXISTS (SELECT FROM won)"
    );
    let written = "key, version, state, limit_name, full_at, expires_at";
    let columns = format!("SELECT {written}, due FROM {table} WHERE false");
    Statements {
        table: table.to_owned(),
        load: format!(
            "SELECT clock_timestamp(), held.version, held.state FROM (SELECT 1) AS one \
             LEFT JOIN {table} AS held ON {is_live}"
        ),
        replace: format!(
            "WITH won AS (UPDATE {table} AS held SET version = $2, state = $3, limit_name = $4, full_at = $5, \
             expires_at = {expires} WHERE {is_live} AND held.version = $7 AND {lock_timeout} RETURNING 1) {found}"
        ),
        replace_or_step: replace_or_step(table),
        swap_all: swap_all::statement(table),
        insert: format!(
            "WITH won AS (INSERT INTO {table} AS held (key, version, state, limit_name, full_at, expires_at) \
             SELECT $1, $2, $3, $4, $5, {expires} WHERE {lock_timeout} ON CONFLICT (key) DO UPDATE SET \
             version = excluded.version, state = excluded.state, limit_name = excluded.limit_name, \
             full_at = excluded.full_at, expires_at = {expires} WHERE held.expires_at <= clock_timestamp() \
             RETURNING 1) {found}"
        ),
        probe: format!(
            "INSERT INTO {table} AS held (key, version, state, limit_name, full_at, expires_at) \
             VALUES ($1, 1, '', 'probe', clock_timestamp(), clock_timestamp()) ON CONFLICT (key) DO UPDATE SET \
             full_at = excluded.full_at, expires_at = excluded.expires_at RETURNING clock_timestamp()"
        ),
        permission_checks: [
            columns,
            format!("INSERT INTO {table} ({written}) SELECT {written} FROM {table} WHERE false"),
            format!("UPDATE {table} SET version = version WHERE false"),
            format!("DELETE FROM {table} WHERE false"),
        ],
        purge: purge(table),
        schema: schema(table),
        upgrade: Vec::new(),
    }
}

/// Rivals wait for the row in `held`, which is read again after that, and not before the update: what is decided there
/// stays true. `$8` is the length of what comes before the state, `$9` the time of the step, `$10` to `$13` the numbers
/// of a [`StepSum`](crate::StepSum), `$14` and `$15` the times between which a step is taken.
fn replace_or_step(table: &str) -> String {
    let micros = |nanos: &str| format!("(({nanos}) / 1000 + 1) * interval '1 microsecond'");
    let (full_at, lives) = (micros("next"), micros("greatest(next - $9, 1000000000)"));
    format!(
        "WITH held AS MATERIALIZED (SELECT version, state, clock_timestamp() AS now, \
         CASE WHEN length(state) = $8 + 8 AND substring(state FOR $8) = substring($3 FOR $8) \
         THEN ('x' || encode(substring(state FROM $8 + 1), 'hex'))::bit(64)::bigint END AS tat \
         FROM {table} WHERE key = $1 AND expires_at > clock_timestamp() \
         AND set_config('lock_timeout', '500ms', true) IS NOT NULL FOR NO KEY UPDATE), \
         found AS MATERIALIZED (SELECT version, state, version = $7 AS is_expected, \
         CASE WHEN tat > 0 AND now >= $14 AND now < $15 AND tat - $9 <= $13 AND greatest(tat - $9, 0) <= $12 \
         THEN $9 + greatest(greatest(tat - $9, 0) + $10, $11) END AS next FROM held), \
         won AS (UPDATE {table} SET version = $2, limit_name = $4, \
         state = CASE WHEN is_expected THEN $3 ELSE substring($3 FOR $8) || int8send(next) END, \
         full_at = CASE WHEN is_expected THEN $5 ELSE timestamptz 'epoch' + {full_at} END, \
         expires_at = clock_timestamp() + CASE WHEN is_expected THEN $6 * interval '1 microsecond' ELSE {lives} END \
         FROM found WHERE key = $1 AND (is_expected OR next IS NOT NULL) RETURNING is_expected) \
         SELECT clock_timestamp(), won.is_expected, found.version, found.state \
         FROM (SELECT 1) AS one LEFT JOIN found ON true LEFT JOIN won ON true"
    )
}

/// One gate purges at a time: the lock belongs to the transaction, so it ends with it in any case, and a pooler may
/// stand between.
fn purge(table: &str) -> String {
    // As a subquery the clock is read once, so that the index serves.
    let late = format!(
        "due < (SELECT floor((extract(epoch FROM clock_timestamp()) - 60) / {PERIOD})::bigint) \
         AND (SELECT is_mine FROM gate)"
    );
    format!(
        "WITH gate AS (SELECT pg_try_advisory_xact_lock($1) AS is_mine), \
         gone AS (DELETE FROM {table} WHERE key IN \
         (SELECT key FROM {table} WHERE {late} ORDER BY due LIMIT {BATCH}) AND {late} RETURNING 1) \
         SELECT count(*) FROM gone"
    )
}

/// Each page keeps free room (`fillfactor`), and no column that a swap changes has an index, but for `due`, which changes
/// once in a period. So a swap writes one row in its own page (a HOT update), and the dead row is reused without a vacuum.
fn schema(table: &str) -> Vec<String> {
    let due = format!(
        "due bigint GENERATED ALWAYS AS \
         (floor(extract(epoch FROM expires_at AT TIME ZONE 'UTC') / {PERIOD})::bigint) STORED"
    );
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
         key bytea PRIMARY KEY, \
         version bigint NOT NULL, \
         state bytea NOT NULL, \
         limit_name text NOT NULL, \
         full_at timestamptz NOT NULL, \
         expires_at timestamptz NOT NULL, \
         {due}\
         ) WITH (fillfactor = 70)"
    );
    vec![
        create,
        format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {due}"),
        format!("CREATE INDEX IF NOT EXISTS {table}_due ON {table} (due ASC)"),
    ]
}
