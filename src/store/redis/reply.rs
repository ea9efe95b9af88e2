//! Reads the replies and errors of a server.
//!
//! Nothing is asked here. The surprising thing: an error that the server words itself is told on, but no more of it than
//! a line takes, since it may be anything.

use std::fmt::Display;

use redis::{ErrorKind, RedisError, Value};

use crate::store::compare_and_swap::{Clocked, RecordVersion, StoreError, Stored};
use crate::time::{Span, Time};

/// What the script found.
pub(super) struct ScriptReply {
    /// Whether it wrote.
    pub(super) written: bool,
    /// What stands there, if it did not write.
    pub(super) stored: Option<Stored>,
}

/// Reads the script's answer.
pub(super) fn script_reply(value: Value) -> Result<Clocked<ScriptReply>, StoreError> {
    let Value::Array(parts) = value else { return Err(unexpected()) };
    let parts: [Value; 4] = parts.try_into().map_err(|_| unexpected())?;
    let [Value::Int(written), Value::BulkString(version), record, time] = parts else {
        return Err(unexpected());
    };
    let clock = clock(time)?;
    let stored = match record {
        Value::BulkString(bytes) => Some(Stored { bytes, version: self::version(&version)? }),
        Value::Nil => None,
        _ => return Err(unexpected()),
    };
    Ok(Clocked::with_clock(ScriptReply { written: written == 1, stored }, clock))
}

/// Reads the answer to `TIME`: seconds and microseconds, in letters.
pub(super) fn clock(value: Value) -> Result<Time, StoreError> {
    let Value::Array(parts) = value else { return Err(unexpected()) };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = &parts[..] else {
        return Err(unexpected());
    };
    let number = |bytes: &[u8]| str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let (Some(seconds), Some(micros)) = (number(seconds), number(micros)) else { return Err(unexpected()) };
    let since = Span::from_secs(seconds).plus(Span::from_nanos(micros.saturating_mul(1000)));
    Ok(Time::from_nanos(since.as_nanos()))
}

/// What it means for a store.
pub(super) fn store_error(error: &RedisError) -> StoreError {
    let said: String = error.to_string().chars().filter(|letter| !letter.is_control()).take(200).collect();
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => StoreError::Unreachable(said),
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => StoreError::UnexpectedResponse(said),
        (_, Some(code)) => {
            let detail = error.detail().unwrap_or_default();
            let line = format!("{code} {detail}");
            StoreError::Refused(line.chars().filter(|letter| !letter.is_control()).take(200).collect())
        }
        _ => StoreError::Refused(said),
    }
}

/// There is no connection, and this is why.
pub(super) fn unreachable(why: impl Display) -> StoreError {
    StoreError::Unreachable(why.to_string())
}

/// It answered something else than it should have.
pub(super) fn unexpected() -> StoreError {
    StoreError::UnexpectedResponse("not the answer to what was asked".to_owned())
}

fn version(bytes: &[u8]) -> Result<RecordVersion, StoreError> {
    bytes.try_into().map(|bytes| RecordVersion(u64::from_be_bytes(bytes))).map_err(|_| unexpected())
}
