//! Reads the responses of a memcached server from bytes in any slices.
//!
//! It knows the meta commands and `stats`; which request a response belongs to is left to the connection. An error of
//! the grammar ends the reading, because the start of the next response is not known any more.

use crate::MAX_TEXT_LEN;
use tollgate_bucket::MAX_RECORD_LEN;

/// Reads responses.
#[derive(Debug, Default)]
pub struct ResponseReader {
    bytes: Vec<u8>,
    /// The number of bytes that have been read.
    read: usize,
}

/// One line, with the value behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemcachedResponse {
    /// The response to a meta command.
    Meta {
        /// The result.
        code: MetaCode,
        /// The CAS number, if the request asked for it.
        cas: Option<u64>,
        /// The number of the request.
        opaque: Option<u32>,
        /// The seconds that the value has left, if the request asked for them and they end.
        ttl: Option<u64>,
        /// The value, if the request asked for it.
        value: Option<Vec<u8>>,
    },
    /// A line of `stats`.
    Stat(String, String),
    /// The end of `stats`.
    End,
    /// The server refuses the request, or cannot serve it now.
    Refused(String),
    /// The server does not understand the request.
    Misunderstood(String),
}

/// The result of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaCode {
    /// `HD`: done.
    Done,
    /// `VA`: a value follows.
    Value,
    /// `EN`: there is no value.
    Miss,
    /// `NS`: there is a value already.
    NotStored,
    /// `EX`: there is another value by now.
    Exists,
    /// `NF`: there is no value any more.
    NotFound,
}

/// Why bytes are not a response of a memcached server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// The line is longer than any that was requested.
    #[error("a line of more than {MAX_LINE_LEN} bytes")]
    Line,
    /// The value is longer than any that was written here.
    #[error("a value of more than {MAX_VALUE_LEN} bytes")]
    Value,
    /// Anything else.
    #[error("not a line of memcached")]
    Grammar,
}

/// Bytes of the longest line, without its end.
pub const MAX_LINE_LEN: usize = 1024;

/// Bytes of the longest value: that of a text of all gates, longer than any bucket, and some room for foreign values.
pub const MAX_VALUE_LEN: usize = MAX_TEXT_LEN + 1024;
const _: () = assert!(MAX_RECORD_LEN < MAX_TEXT_LEN);

impl ResponseReader {
    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next response, once it is complete.
    ///
    /// # Errors
    /// [`BadResponse`] if the bytes are not a response; so does every later call.
    pub fn next_response(&mut self) -> Result<Option<MemcachedResponse>, BadResponse> {
        let rest = &self.bytes[self.read..];
        let Some((line, length)) = first_line(rest)? else { return Ok(None) };
        let line = std::str::from_utf8(line).map_err(|_| BadResponse::Grammar)?;
        let Some(value) = length_of_value(line)? else {
            let answer = bare(line)?;
            self.read += length;
            return Ok(Some(answer));
        };
        let Some(found) = rest[length..].get(..value + 2) else { return Ok(None) };
        let found = found.strip_suffix(b"\r\n").ok_or(BadResponse::Grammar)?;
        let answer = meta(MetaCode::Value, line.split(' ').skip(2), Some(found.to_vec()))?;
        self.read += length + value + 2;
        Ok(Some(answer))
    }
}

/// The first line without its end, and its length with it.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, BadResponse> {
    let looked_at = &bytes[..bytes.len().min(MAX_LINE_LEN + 2)];
    match looked_at.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let line = looked_at[..end].strip_suffix(b"\r").ok_or(BadResponse::Grammar)?;
            Ok(Some((line, end + 1)))
        }
        None if looked_at.len() < MAX_LINE_LEN + 2 => Ok(None),
        None => Err(BadResponse::Line),
    }
}

/// The length of the value behind this line; `None` if there is none.
fn length_of_value(line: &str) -> Result<Option<usize>, BadResponse> {
    let Some(rest) = line.strip_prefix("VA ") else { return Ok(None) };
    let length = number(rest.split(' ').next().unwrap_or_default())?;
    match usize::try_from(length) {
        Ok(length) if length <= MAX_VALUE_LEN => Ok(Some(length)),
        _ => Err(BadResponse::Value),
    }
}

fn bare(line: &str) -> Result<MemcachedResponse, BadResponse> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let code = match first {
        "HD" => MetaCode::Done,
        "EN" => MetaCode::Miss,
        "NS" => MetaCode::NotStored,
        "EX" => MetaCode::Exists,
        "NF" => MetaCode::NotFound,
        "END" if rest.is_empty() => return Ok(MemcachedResponse::End),
        "STAT" => {
            let (name, value) = rest.split_once(' ').ok_or(BadResponse::Grammar)?;
            return Ok(MemcachedResponse::Stat(name.to_owned(), value.to_owned()));
        }
        "SERVER_ERROR" => return Ok(MemcachedResponse::Refused(printable(rest))),
        "CLIENT_ERROR" => return Ok(MemcachedResponse::Misunderstood(printable(rest))),
        "ERROR" if rest.is_empty() => return Ok(MemcachedResponse::Misunderstood(printable(line))),
        // The server has too many connections.
        "ERROR" => return Ok(MemcachedResponse::Refused(printable(rest))),
        _ => return Err(BadResponse::Grammar),
    };
    meta(code, rest.split(' ').filter(|flag| !flag.is_empty()), None)
}

/// Reads the flags that our requests ask for, and ignores others.
fn meta<'a>(
    code: MetaCode,
    flags: impl Iterator<Item = &'a str>,
    value: Option<Vec<u8>>,
) -> Result<MemcachedResponse, BadResponse> {
    let (mut cas, mut opaque, mut ttl) = (None, None, None);
    for flag in flags {
        match flag.split_at_checked(1) {
            Some(("c", text)) => cas = Some(number(text)?),
            Some(("O", text)) => {
                opaque = Some(u32::try_from(number(text)?).map_err(|_| BadResponse::Grammar)?);
            }
            Some(("t", "-1")) => {}
            Some(("t", text)) => ttl = Some(number(text)?),
            _ => {}
        }
    }
    Ok(MemcachedResponse::Meta { code, cas, opaque, ttl, value })
}

fn number(text: &str) -> Result<u64, BadResponse> {
    // `parse` takes a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| BadResponse::Grammar)
    } else {
        Err(BadResponse::Grammar)
    }
}

/// A text as it may appear in our own messages.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).take(100).collect()
}

#[cfg(test)]
mod tests;
