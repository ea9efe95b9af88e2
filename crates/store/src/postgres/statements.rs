//! The statements for PostgreSQL. Everything but the table's name is a parameter, and the name is made of letters,
//! digits and `_`.
//!
//! No statement is prepared by name, so each is planned again, which costs more than to run it. So `tollgate migrate` installs
//! functions: the database keeps their plans per connection, for all users of the connection. Every statement uses
//! `clock_timestamp()`, because `now()` stands still while a statement waits.

use crate::sql::{BATCH, PERIOD, Statements};

/// How PostgreSQL swaps and purges.
pub(super) struct PostgresStatements {
    /// Replaces, steps or inserts one row.
    pub(super) swap: String,
    /// The same with arrays, for several rows.
    pub(super) swap_all: String,
    pub(super) purge: String,
}

/// The statements about this table.
pub(super) fn statements(table: &str) -> Statements<PostgresStatements> {
    let written = "key, version, state, limit_name, full_at, expires_at";
    let columns = format!("SELECT {written}, due FROM {table} WHERE false");
    let arguments = |prefix: &str| (1..=15).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>().join(", ");
    let (values, elements) = (arguments("$"), arguments("a"));
    Statements {
        table: table.to_owned(),
        load: format!("SELECT * FROM {table}_load($1)"),
        probe: format!(
            "SELECT * FROM {table}_swap($1, 1, '', 'probe', clock_timestamp(), 0, \
             NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
        ),
        permission_checks: [
            columns,
            format!("INSERT INTO {table} ({written}) SELECT {written} FROM {table} WHERE false"),
            format!("UPDATE {table} SET version = version WHERE false"),
            format!("DELETE FROM {table} WHERE false"),
        ],
        schema: schema(table),
        upgrade: Vec::new(),
        own: PostgresStatements {
            swap: format!("SELECT * FROM {table}_swap({values})"),
            swap_all: format!(
                "SELECT done.* FROM unnest({values}) WITH ORDINALITY AS asked ({elements}, nth), \
                 LATERAL {table}_swap({elements}) AS done ORDER BY nth"
            ),
            purge: purge(table),
        },
    }
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
        load_function(table),
        swap_function(table),
    ]
}

/// Returns the clock, and the version and the state of a row that is there.
fn load_function(table: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION {table}_load(asked bytea, OUT clock timestamptz, OUT found_version bigint, \
         OUT found_state bytea) LANGUAGE plpgsql AS $function$ BEGIN \
         SELECT version, state INTO found_version, found_state FROM {table} \
         WHERE key = asked AND expires_at > clock_timestamp(); \
         clock := clock_timestamp(); \
         END $function$"
    )
}

/// Replaces a row of the expected version, inserts one where none is expected, or steps another one, if `added` is not null:
/// `header` is the length of what comes before the state, the five after it are the numbers of a [`StepSum`](crate::StepSum), and
/// a step is taken between `since` and `until`. Returns the clock; true if it wrote, false if it stepped; and what it found.
/// Rivals wait for the row. They wait for half a second at most: a connection that is given up would go on waiting, and
/// the next one too. As a setting of the connection that would leak through a pooler.
fn swap_function(table: &str) -> String {
    let micros = |number: &str| format!("{number} * interval '1 microsecond'");
    let (lives, full_at) = (micros("ttl"), micros("(next / 1000 + 1)"));
    let stepped_lives = micros("(greatest(next - as_of, 1000000000) / 1000 + 1)");
    format!(
        "CREATE OR REPLACE FUNCTION {table}_swap(asked bytea, written bigint, bytes bytea, name text, full_again timestamptz, \
         ttl bigint, expected bigint, header int, as_of bigint, added bigint, lowest bigint, most bigint, max_ttl bigint, \
         since timestamptz, until timestamptz, OUT clock timestamptz, OUT is_written boolean, OUT found_version bigint, \
         OUT found_state bytea) LANGUAGE plpgsql AS $function$ DECLARE tat bigint; next bigint; \
         BEGIN PERFORM set_config('lock_timeout', '500ms', true); \
         IF expected IS NULL THEN \
         INSERT INTO {table} AS held (key, version, state, limit_name, full_at, expires_at) \
         VALUES (asked, written, bytes, name, full_again, clock_timestamp() + {lives}) \
         ON CONFLICT (key) DO UPDATE SET version = excluded.version, state = excluded.state, limit_name = excluded.limit_name, \
         full_at = excluded.full_at, expires_at = excluded.expires_at WHERE held.expires_at <= clock_timestamp(); \
         clock := clock_timestamp(); \
         IF FOUND THEN is_written := true; RETURN; END IF; \
         END IF; \
         SELECT version, state INTO found_version, found_state FROM {table} \
         WHERE key = asked AND expires_at > clock_timestamp() FOR NO KEY UPDATE; \
         clock := clock_timestamp(); \
         IF found_version = expected THEN is_written := true; \
         UPDATE {table} SET version = written, state = bytes, limit_name = name, full_at = full_again, \
         expires_at = clock + {lives} WHERE key = asked; RETURN; END IF; \
         IF added IS NULL OR length(found_state) <> header + 8 \
         OR substring(found_state FOR header) <> substring(bytes FOR header) THEN RETURN; END IF; \
         tat := ('x' || encode(substring(found_state FROM header + 1), 'hex'))::bit(64)::bigint; \
         IF tat > 0 AND clock >= since AND clock < until AND tat - as_of <= max_ttl AND greatest(tat - as_of, 0) <= most \
         THEN is_written := false; next := as_of + greatest(greatest(tat - as_of, 0) + added, lowest); \
         UPDATE {table} SET version = written, state = substring(bytes FOR header) || int8send(next), limit_name = name, \
         full_at = timestamptz 'epoch' + {full_at}, expires_at = clock + {stepped_lives} WHERE key = asked; END IF; \
         END $function$"
    )
}
