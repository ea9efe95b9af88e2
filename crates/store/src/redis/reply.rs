//! Reads the replies and errors of a server.
//!
//! A server's error text is passed on without control characters and cut to 200 characters, because it may be anything.
//! Sending is left to [`connection`](super::connection).

use redis::{ErrorKind, RedisError, Value};
use smallvec::SmallVec;

use crate::compare_and_swap::{Clocked, RecordVersion, StoreClock, StoreError, Stored};
use tollgate_bucket::{Span, Time};

/// The reply of the script.
pub(super) enum ScriptReply {
    /// It wrote what it was given.
    Written,
    /// It stepped the record with these bytes, at the time of the reply.
    Stepped(Vec<u8>, Time),
    /// It wrote nothing, and found this record.
    Found(Option<Stored>),
}

/// Reads the reply of the script: the clock, if it was read, and what became of each key.
pub(super) fn script_replies(value: Value) -> Result<Clocked<SmallVec<[ScriptReply; 1]>>, StoreError> {
    let Value::Array(parts) = value else { return Err(unexpected()) };
    let mut parts = parts.into_iter();
    let clock = match parts.next() {
        Some(Value::Nil) => None,
        Some(time) => Some(clock(time)?),
        None => return Err(unexpected()),
    };
    let mut replies = SmallVec::new();
    while let Some(part) = parts.next() {
        replies.push(match (part, clock) {
            (Value::Int(1), _) => ScriptReply::Written,
            (Value::Int(2), Some(now)) => {
                ScriptReply::Stepped(stored(parts.next().ok_or_else(unexpected)?)?.bytes, now)
            }
            (Value::Nil, _) => ScriptReply::Found(None),
            (found, _) => ScriptReply::Found(Some(stored(found)?)),
        });
    }
    Ok(Clocked { value: replies, clock: clock.map(StoreClock::Exact) })
}

/// A value is the version and the record.
fn stored(value: Value) -> Result<Stored, StoreError> {
    let Value::BulkString(bytes) = value else { return Err(unexpected()) };
    let (version, record) = bytes.split_first_chunk().ok_or_else(unexpected)?;
    Ok(Stored { bytes: record.to_vec(), version: RecordVersion(u64::from_be_bytes(*version)) })
}

/// Reads the reply to `TIME`: seconds and microseconds, as decimal text.
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

/// Maps an error to [`StoreError`].
pub(super) fn store_error(error: &RedisError) -> StoreError {
    let text: String = error.to_string().chars().filter(|letter| !letter.is_control()).take(200).collect();
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => StoreError::Unreachable(text),
        (ErrorKind::Parse | ErrorKind::UnexpectedReturnType, _) => StoreError::UnexpectedResponse(text),
        (_, Some(code)) => {
            let detail = error.detail().unwrap_or_default();
            let line = format!("{code} {detail}");
            let line = line.chars().filter(|letter| !letter.is_control()).take(200).collect();
            // A server that has just started reads its data first; a cluster may wait for a replica to be promoted.
            // Nothing was done.
            if matches!(code, "LOADING" | "CLUSTERDOWN") {
                StoreError::NotConnected(line)
            } else {
                StoreError::Refused(line)
            }
        }
        _ => StoreError::Refused(text),
    }
}

/// The error of a reply of another type than expected.
pub(super) fn unexpected() -> StoreError {
    StoreError::UnexpectedResponse("a reply of another type".to_owned())
}
