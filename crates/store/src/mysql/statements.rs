//! The statements for MySQL and MariaDB. Everything but the table's name is a parameter, and the name is made of
//! letters, digits and `_`.
//!
//! `LAST_INSERT_ID(x)` makes a write return a number of our own: the database's clock. Assignments take effect from
//! left to right, and later ones see earlier ones, so `expires_at` is written last.

use crate::sql::{BATCH, PERIOD, Statements};

/// How MySQL swaps and purges.
pub(super) struct MysqlStatements {
    /// Inserts a row where there is none.
    pub(super) insert: String,
    /// Replaces a row of the expected version.
    pub(super) replace: String,
    /// Replaces a row of the expected version, or steps another one.
    pub(super) replace_or_step: String,
    pub(super) purge: PurgeStatements,
}

/// One gate purges at a time. The lock's name is hashed, because MySQL limits its length.
pub(super) struct PurgeStatements {
    pub(super) lock: String,
    pub(super) unlock: String,
    pub(super) remove: String,
}

/// The statements about this table.
pub(super) fn statements(table: &str) -> Statements<MysqlStatements> {
    // Independent of the session's time zone, and the same throughout a statement.
    let full_at = format!("TIMESTAMPADD(MICROSECOND, :full_at, {EPOCH})");
    let expires_at = "TIMESTAMPADD(MICROSECOND, :ttl, UTC_TIMESTAMP(6))";
    let updated_at = format!("TIMESTAMPADD(MICROSECOND, LAST_INSERT_ID({CLOCK}), {EPOCH})");
    let probed_at = &updated_at;
    let taken =
        |column: &str| format!("{column} = IF(expires_at <= UTC_TIMESTAMP(6), VALUES({column}), {column})");
    let all_taken =
        ["version", "state", "limit_name", "full_at", "updated_at", "expires_at"].map(taken).join(", ");
    let written = "`key`, version, state, limit_name, full_at, expires_at, updated_at";
    let columns = format!("SELECT {written}, due FROM {table} WHERE FALSE");
    Statements {
        table: table.to_owned(),
        load: format!(
            "SELECT {CLOCK}, held.version, held.state FROM (SELECT 1) AS one \
             LEFT JOIN {table} AS held ON held.`key` = ? AND held.expires_at > UTC_TIMESTAMP(6)"
        ),
        probe: format!(
            "INSERT INTO {table} (`key`, version, state, limit_name, full_at, expires_at, updated_at) \
             VALUES (?, 1, '', 'probe', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {probed_at}) \
             ON DUPLICATE KEY UPDATE full_at = VALUES(full_at), expires_at = VALUES(expires_at), \
             updated_at = {probed_at}"
        ),
        permission_checks: [
            columns,
            format!("INSERT INTO {table} ({written}) SELECT {written} FROM {table} WHERE FALSE"),
            format!("UPDATE {table} SET version = version WHERE FALSE"),
            format!("DELETE FROM {table} WHERE FALSE"),
        ],
        schema: vec![create(table)],
        upgrade: vec![format!("ALTER TABLE {table} ADD COLUMN {}, ADD {}", due(), due_index(table))],
        own: MysqlStatements {
            replace: format!(
                "UPDATE {table} SET version = :version, state = UNHEX(:state), limit_name = :name, full_at = {full_at}, \
                 updated_at = {updated_at}, expires_at = {expires_at} \
                 WHERE `key` = :key AND version = :old AND expires_at > UTC_TIMESTAMP(6)"
            ),
            replace_or_step: replace_or_step(table),
            insert: format!(
                "INSERT INTO {table} (version, state, limit_name, full_at, updated_at, expires_at, `key`) \
                 VALUES (:version, UNHEX(:state), :name, {full_at}, {updated_at}, {expires_at}, :key) ON DUPLICATE KEY UPDATE {all_taken}"
            ),
            purge: PurgeStatements::new(table),
        },
    }
}

/// An update of a row that has the version `:old`, or otherwise of one that can be stepped. Its number is the clock in
/// microseconds if the version was that, otherwise the last word of the state before: nanoseconds, a thousand times as
/// many. Rivals wait for the row, and the conditions are those of the row after that.
fn replace_or_step(table: &str) -> String {
    let tat = "CAST(CONV(HEX(RIGHT(state, 8)), 16, 10) AS SIGNED)";
    let next = format!(":now + GREATEST(GREATEST({tat} - :now, 0) + :add, :floor)");
    let is_expected = "version = :old";
    // A parameter counts as text in an expression, whose letters may have several bytes.
    let new = "UNHEX(:state)";
    let micros = |nanos: &str| format!("({nanos}) DIV 1000 + 1");
    let (full_at, lives) = (micros(&next), micros(&format!("GREATEST({next} - :now, 1000000000)")));
    // From left to right: what the others need of the row is written last.
    format!(
        "UPDATE {table} SET limit_name = :name, \
         updated_at = TIMESTAMPADD(MICROSECOND, \
         IF({is_expected}, LAST_INSERT_ID({CLOCK}), {CLOCK} + 0 * LAST_INSERT_ID({tat})), {EPOCH}), \
         full_at = TIMESTAMPADD(MICROSECOND, IF({is_expected}, :full_at, {full_at}), {EPOCH}), \
         expires_at = TIMESTAMPADD(MICROSECOND, IF({is_expected}, :ttl, {lives} + 1000000), UTC_TIMESTAMP(6)), \
         state = IF({is_expected}, {new}, CONCAT(LEFT({new}, :header), UNHEX(LPAD(HEX({next}), 16, '0')))), \
         version = :version \
         WHERE `key` = :key AND expires_at > UTC_TIMESTAMP(6) AND ({is_expected} OR IF(\
         LENGTH(state) = :header + 8 AND LEFT(state, :header) = LEFT({new}, :header) AND ORD(RIGHT(state, 8)) < 64, \
         {tat} > 0 AND {tat} - :now <= :max_ttl AND GREATEST({tat} - :now, 0) <= :limit AND {CLOCK} >= :from AND {CLOCK} < :until, FALSE))"
    )
}

impl PurgeStatements {
    fn new(table: &str) -> Self {
        let name = format!("SHA1(CONCAT(DATABASE(), '.', '{table}'))");
        Self {
            lock: format!("SELECT GET_LOCK({name}, 0)"),
            unlock: format!("DO RELEASE_LOCK({name})"),
            remove: format!(
                "DELETE FROM {table} WHERE due < \
                 TIMESTAMPDIFF(SECOND, {EPOCH}, UTC_TIMESTAMP() - INTERVAL 1 MINUTE) DIV {PERIOD} \
                 ORDER BY due LIMIT {BATCH}"
            ),
        }
    }
}

/// Microseconds since 1970.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
const EPOCH: &str = "TIMESTAMP'1970-01-01 00:00:00'";

/// The settings of each connection. Without gap locks, writers of neighbouring keys do not lock each other out; the
/// server, too, gives up a statement that waits longer than this for a row; no value is truncated silently.
pub(super) const SESSION: [&str; 2] = [
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION innodb_lock_wait_timeout = 1, autocommit = 1, sql_mode = 'STRICT_ALL_TABLES'",
];

fn create(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
         `key` BINARY(16) NOT NULL PRIMARY KEY, \
         version BIGINT NOT NULL, \
         state BLOB NOT NULL, \
         limit_name VARCHAR(100) CHARACTER SET utf8mb4 NOT NULL, \
         full_at DATETIME(6) NOT NULL, \
         expires_at DATETIME(6) NOT NULL, \
         updated_at DATETIME(6) NOT NULL, \
         {}, {}\
         ) ENGINE=InnoDB",
        due(),
        due_index(table)
    )
}

/// It changes once in a period and not with every write, so its index costs little.
fn due() -> String {
    format!("due BIGINT GENERATED ALWAYS AS (TIMESTAMPDIFF(SECOND, {EPOCH}, expires_at) DIV {PERIOD}) STORED")
}

fn due_index(table: &str) -> String {
    format!("INDEX {table}_due (due)")
}
