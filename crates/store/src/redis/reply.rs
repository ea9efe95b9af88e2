//! Reads the replies and errors of a server.
//!
//! A server's error text is passed on without control characters and cut to 200 characters, because it may be anything.
//! Sending is left to [`connection`](super::connection).

use redis::{ErrorKind, RedisError, Value};

use crate::compare_and_swap::{Clocked, RecordVersion, StoreError, Stored};
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

/// Reads the reply of the script, which has a part for each key.
pub(super) fn script_replies(value: Value) -> Result<Clocked<Vec<ScriptReply>>, StoreError> {
    let Value::Array(parts) = value else { return Err(unexpected()) };
    let mut parts = parts.into_iter();
    let clock = clock(parts.next().ok_or_else(unexpected)?)?;
    let replies = parts.map(|part| script_reply(part, clock)).collect::<Result<_, _>>()?;
    Ok(Clocked::with_clock(replies, clock))
}

fn script_reply(part: Value, clock: Time) -> Result<ScriptReply, StoreError> {
    let Value::Array(parts) = part else { return Err(unexpected()) };
    let mut parts = parts.into_iter();
    let (Some(Value::Int(written)), Some(Value::BulkString(version))) = (parts.next(), parts.next()) else {
        return Err(unexpected());
    };
    Ok(match (written, parts.next()) {
        (1, _) => ScriptReply::Written,
        (2, Some(Value::BulkString(bytes))) => ScriptReply::Stepped(bytes, clock),
        (0, Some(Value::BulkString(bytes))) => {
            ScriptReply::Found(Some(Stored { bytes, version: self::version(&version)? }))
        }
        (0, None | Some(Value::Nil)) => ScriptReply::Found(None),
        _ => return Err(unexpected()),
    })
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
            StoreError::Refused(line.chars().filter(|letter| !letter.is_control()).take(200).collect())
        }
        _ => StoreError::Refused(text),
    }
}

/// The error of a reply of another type than expected.
pub(super) fn unexpected() -> StoreError {
    StoreError::UnexpectedResponse("a reply of another type".to_owned())
}

fn version(bytes: &[u8]) -> Result<RecordVersion, StoreError> {
    bytes.try_into().map(|bytes| RecordVersion(u64::from_be_bytes(bytes))).map_err(|_| unexpected())
}
