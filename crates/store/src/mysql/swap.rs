//! The values of a swap, for one statement or for several that are sent at once.
//!
//! The driver has no prepared statement that does several things. So several are sent as text, with their values in it;
//! these are numbers and hexadecimal digits only. The SQL is left to [`statements`](super::statements).

use mysql_async::{Params, Value};

use super::statements::MysqlStatements;
use crate::compare_and_swap::{RecordVersion, Swap, SwapRequest};
use crate::sql::{Statements, bytes_of, readable};
use tollgate_bucket::{Span, Time};

/// A swap, its version, and what its statements are told.
pub(super) struct MysqlSwap {
    version: RecordVersion,
    /// The bytes before the last word of the state.
    header: Vec<u8>,
    /// The time of a step; `None` if there is none.
    now: Option<Time>,
    old: Option<RecordVersion>,
    values: Vec<(&'static str, Value)>,
}

/// A statement of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwapStatement {
    Insert,
    Replace,
    ReplaceOrStep,
}

impl MysqlSwap {
    pub(super) fn of(SwapRequest { key, old, new, program }: &SwapRequest) -> Self {
        let version = RecordVersion::random();
        let header = new.bytes.len().saturating_sub(8);
        let sum = program.as_ref().and_then(|program| Some((program.sum()?, program.until)));
        let mut values: Vec<(_, Value)> = vec![
            ("version", version.0.cast_signed().into()),
            ("state", hex(&new.bytes).into()),
            ("name", readable(&new.limit).into()),
            ("full_at", (new.full_at.as_nanos() / 1000).into()),
            // A statement's clock stands still while it waits for a row, for a second at most.
            ("ttl", new.ttl.plus(Span::from_secs(1)).as_nanos().div_ceil(1000).into()),
            ("key", bytes_of(*key).into()),
            // No row has version zero.
            ("old", old.map_or(0, |RecordVersion(old)| old.cast_signed()).into()),
        ];
        if let Some((sum, until)) = sum {
            values.extend([
                ("header", header.into()),
                ("now", sum.now.into()),
                ("add", sum.add.into()),
                ("floor", sum.floor.into()),
                ("limit", sum.limit.into()),
                ("max_ttl", sum.max_ttl.into()),
                ("from", (sum.from / 1000).into()),
                ("until", (until.as_nanos() / 1000).into()),
            ]);
        }
        let now = sum.map(|(sum, _)| Time::from_nanos(sum.now.unsigned_abs()));
        Self { version, header: new.bytes[..header].to_vec(), now, old: *old, values }
    }

    /// Its statements in their order: a row that a rival inserted is stepped, and one is inserted where there is none.
    pub(super) fn statements(&self) -> Vec<SwapStatement> {
        match (self.old, self.now) {
            (None, None) => vec![SwapStatement::Insert],
            (None, Some(_)) => vec![SwapStatement::ReplaceOrStep, SwapStatement::Insert],
            (Some(_), None) => vec![SwapStatement::Replace],
            (Some(_), Some(_)) => vec![SwapStatement::ReplaceOrStep],
        }
    }

    /// The values of a prepared statement.
    pub(super) fn params(&self) -> Params {
        Params::Named(
            self.values.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone())).collect(),
        )
    }

    /// The text of a statement with the values in it.
    pub(super) fn text(&self, statements: &Statements<MysqlStatements>, kind: SwapStatement) -> String {
        let template = match kind {
            SwapStatement::Insert => &statements.own.insert,
            SwapStatement::Replace => &statements.own.replace,
            SwapStatement::ReplaceOrStep => &statements.own.replace_or_step,
        };
        let mut text = String::with_capacity(template.len() + 512);
        let mut parts = template.split(':');
        text.extend(parts.next());
        for part in parts {
            let length = part.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
            let (name, rest) = part.split_at(length.unwrap_or(part.len()));
            match self.values.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => text.push_str(&literal(value)),
                // A time of day.
                None => text.extend([":", name]),
            }
            text.push_str(rest);
        }
        text
    }

    /// What a statement did that wrote this many rows and returned this number; `None` if it did nothing. Also the
    /// database's clock, if it told it.
    pub(super) fn result(&self, written: u64, number: Option<u64>) -> Option<(Swap, Option<Time>)> {
        let version = self.version;
        match (number.filter(|_| written > 0)?, self.now) {
            (tat, Some(now)) if tat >= FIRST_NANOS => {
                let found = [&self.header[..], &tat.to_be_bytes()].concat();
                Some((Swap::Stepped { found, now, version }, None))
            }
            (clock, _) => Some((Swap::Done(version), Some(Time::from_nanos(clock.saturating_mul(1000))))),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn literal(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Bytes(bytes) => format!("x'{}'", hex(bytes)),
        _ => "NULL".to_owned(),
    }
}

/// Numbers from here on are nanoseconds since 1970, smaller ones microseconds: until the year 2286.
const FIRST_NANOS: u64 = 10_000_000_000_000_000;
