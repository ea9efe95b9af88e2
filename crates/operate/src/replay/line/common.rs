//! The common and the combined format of Apache and nginx, and tollgate's own combined style.
//!
//! Apache writes the time of the arrival, nginx that of the end of the response. Other programs may add before the
//! client: the name of the site (Debian's `other_vhosts_access.log`), a header of syslog, of Docker or of Kubernetes.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use smallvec::SmallVec;

use super::{AccessLogFormat, LineError, LoggedRequest, client, request_line, status, timestamp};
use crate::time::Time;

pub(super) fn parse(line: &[u8]) -> Result<(LoggedRequest<'_>, AccessLogFormat), LineError> {
    let (open, close, arrived) = find_time(line)?;
    let (address, user) = find_client(text(&line[..open]).trim_end()).ok_or(LineError::UnknownFormat)?;
    let rest = line[close..].strip_prefix(b"] \"").ok_or(LineError::UnknownFormat)?;
    let end = quote(rest).ok_or(LineError::NoRequest)?;
    let mut words = rest[end + 1..].splitn(4, |&byte| byte == b' ').skip(1);
    let status = status(text(words.next().unwrap_or_default()))?;
    let has_referer = words.nth(1).is_some_and(|rest| rest.starts_with(b"\""));
    let (method, target) = request_line(unescape(&rest[..end]));
    let request = LoggedRequest {
        arrived: arrived.ok_or(LineError::NoTime)?,
        client: client(address)?,
        method,
        target,
        host: None,
        user: Some(Cow::Borrowed(user)).filter(|user| user != "-" && user != "\"\""),
        status,
        location: None,
        gate: None,
        decision: None,
    };
    Ok((request, if has_referer { AccessLogFormat::Combined } else { AccessLogFormat::Common }))
}

/// Where the time is, and the time, if it can be read: not each bracket holds one.
fn find_time(line: &[u8]) -> Result<(usize, usize, Option<Time>), LineError> {
    let brackets = memchr_iter(b'[', line).filter_map(|open| {
        let close = open + memchr(b']', &line[open..])?;
        Some((open, close, timestamp::common(text(&line[open + 1..close]))))
    });
    let mut first = None;
    for found in brackets.take(MAX_BRACKETS) {
        if found.2.is_some() {
            return Ok(found);
        }
        first.get_or_insert(found);
    }
    first.ok_or(LineError::UnknownFormat)
}

/// The client and the user: `client ident user`, behind anything else. In a list of addresses (`X-Forwarded-For`), the
/// client is the first one.
fn find_client(head: &str) -> Option<(&str, &str)> {
    let words: SmallVec<[(usize, &str); 16]> = words(head).collect();
    let is_address =
        |word: &str| client(word.trim_end_matches(',')).is_ok_and(|client| client.ip().is_some());
    let followed = words.len().checked_sub(2)?;
    let mut at = words[..followed].iter().rposition(|(_, word)| is_address(word)).unwrap_or(0);
    let user = words.get(at + 2).map(|(start, _)| &head[*start..])?;
    while at > 0 && words[at - 1].1.ends_with(',') && is_address(words[at - 1].1) {
        at -= 1;
    }
    Some((words[at].1.trim_end_matches(','), user))
}

/// The words of a text, and where each begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

/// Where the quoted text ends: the first quote that is not escaped.
pub(super) fn quote(rest: &[u8]) -> Option<usize> {
    let is_escaped = |at: usize| rest[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1;
    memchr_iter(b'"', rest).find(|&at| !is_escaped(at))
}

/// Undoes `\xNN`, `\"` and `\\`. Bytes that are no UTF-8 are replaced: the gate answers such a request with 400.
pub(super) fn unescape(bytes: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', bytes).is_none() {
        return String::from_utf8_lossy(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escape = (byte == b'\\').then(|| escaped(after)).flatten();
        let (byte, length) = escape.unwrap_or((byte, 0));
        plain.push(byte);
        rest = &rest[length..];
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

/// The byte that an escape stands for, and its length after the backslash.
fn escaped(after: &[u8]) -> Option<(u8, usize)> {
    match after {
        [byte @ (b'"' | b'\\'), ..] => Some((*byte, 1)),
        [b'x', high, low, ..] => {
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            Some((u8::try_from(digit(high)? * 16 + digit(low)?).ok()?, 3))
        }
        [b'n', ..] => Some((b'\n', 1)),
        [b't', ..] => Some((b'\t', 1)),
        [b'r', ..] => Some((b'\r', 1)),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

const MAX_BRACKETS: usize = 8;
