//! What a server's answers mean.
//!
//! Nothing is asked here. The surprising thing: an error that the server words itself is told on, but no more of it than
//! a line takes, since it may be anything.

use std::fmt::Display;

use redis::{ErrorKind, RedisError, Value};

use crate::store::compare_and_swap::{Answer, StoreError, Stored, Version};
use crate::time::{Span, Time};

/// What the script found.
pub(super) struct Found {
    /// Whether it wrote.
    pub(super) written: bool,
    /// What stands there, if it did not write.
    pub(super) stored: Option<Stored>,
}

/// Reads the script's answer.
pub(super) fn found(value: Value) -> Result<Answer<Found>, StoreError> {
    let Value::Array(parts) = value else { return Err(garbled()) };
    let parts: [Value; 4] = parts.try_into().map_err(|_| garbled())?;
    let [Value::Int(written), Value::BulkString(version), record, time] = parts else {
        return Err(garbled());
    };
    let clock = clock(time)?;
    let stored = match record {
        Value::BulkString(bytes) => Some(Stored { bytes, version: self::version(&version)? }),
        Value::Nil => None,
        _ => return Err(garbled()),
    };
    Ok(Answer::at(Found { written: written == 1, stored }, clock))
}

/// Reads the answer to `TIME`: seconds and microseconds, in letters.
pub(super) fn clock(value: Value) -> Result<Time, StoreError> {
    let Value::Array(parts) = value else { return Err(garbled()) };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = &parts[..] else { return Err(garbled()) };
    let number = |bytes: &[u8]| str::from_utf8(bytes).ok()?.parse::<u64>().ok();
    let (Some(seconds), Some(micros)) = (number(seconds), number(micros)) else { return Err(garbled()) };
    let since = Span::from_secs(seconds).plus(Span::from_nanos(micros.saturating_mul(1000)));
    Ok(Time::from_nanos(since.as_nanos()))
}

/// What it means for a store.
pub(super) fn fault(error: &RedisError) -> StoreError {
    let said: String = error.to_string().chars().filter(|letter| !letter.is_control()).take(200).collect();
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => StoreError::Unreachable(said),
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => StoreError::Garbled(said),
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
pub(super) fn garbled() -> StoreError {
    StoreError::Garbled("not the answer to what was asked".to_owned())
}

fn version(bytes: &[u8]) -> Result<Version, StoreError> {
    bytes.try_into().map(|bytes| Version(u64::from_be_bytes(bytes))).map_err(|_| garbled())
}
