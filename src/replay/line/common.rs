//! The common and the combined format of Apache and nginx, and tollgate's own combined style.
//!
//! Apache writes the time of the arrival, nginx that of the end of the response.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::{AccessLogFormat, LineError, LoggedRequest, client, request_line, status, timestamp};

pub(super) fn parse(line: &[u8]) -> Result<(LoggedRequest<'_>, AccessLogFormat), LineError> {
    let open = memchr(b'[', line).ok_or(LineError::UnknownFormat)?;
    let close = open + memchr(b']', &line[open..]).ok_or(LineError::UnknownFormat)?;
    let head = text(&line[..open]).trim_end();
    let mut words = head.splitn(3, ' ');
    let (Some(address), Some(_ident), Some(user)) = (words.next(), words.next(), words.next()) else {
        return Err(LineError::UnknownFormat);
    };
    let rest = line[close..].strip_prefix(b"] \"").ok_or(LineError::UnknownFormat)?;
    let end = quote(rest).ok_or(LineError::NoRequest)?;
    let mut words = rest[end + 1..].splitn(4, |&byte| byte == b' ').skip(1);
    let status = status(text(words.next().unwrap_or_default()))?;
    let has_referer = words.nth(1).is_some_and(|rest| rest.starts_with(b"\""));
    let (method, target) = request_line(unescape(&rest[..end]));
    let request = LoggedRequest {
        arrived: timestamp::common(text(&line[open + 1..close])).ok_or(LineError::NoTime)?,
        client: client(address)?,
        method,
        target,
        host: None,
        user: Some(Cow::Borrowed(user)).filter(|user| user != "-" && user != "\"\""),
        status,
        location: None,
        gate: None,
    };
    Ok((request, if has_referer { AccessLogFormat::Combined } else { AccessLogFormat::Common }))
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
