//! HAProxy's HTTP log format (HAProxy configuration manual, section 8.2.3), with or without a header of syslog.
//!
//! Its times have no zone: they are taken as UTC, which changes nothing between lines.

use memchr::memchr_iter;

use super::common::{quote, unescape};
use super::{LineError, LoggedRequest, client, request_line, status, timestamp};

pub(super) fn parse(line: &[u8]) -> Result<LoggedRequest<'_>, LineError> {
    let is_time = |&at: &usize| line.get(at + 3) == Some(&b'/') && line.get(at + 7) == Some(&b'/');
    let open = memchr_iter(b'[', line).find(is_time).ok_or(LineError::UnknownFormat)?;
    let head = std::str::from_utf8(&line[..open]).map_err(|_| LineError::UnknownFormat)?.trim_end();
    let peer = head.rsplit(' ').next().unwrap_or_default();
    // Each client has its port behind it, also an IPv6 address without brackets.
    let (address, _port) = peer.rsplit_once(':').ok_or(LineError::UnknownFormat)?;
    let rest = &line[open + 1..];
    let Some(begin) = memchr::memchr(b'"', rest).map(|at| at + 1) else {
        return without_request(address, rest);
    };
    let fields = std::str::from_utf8(&rest[..begin]).map_err(|_| LineError::UnknownFormat)?;
    let (time, fields) = fields.split_once("] ").ok_or(LineError::UnknownFormat)?;
    // Frontend, backend and server, timers, status.
    let code = fields.split_ascii_whitespace().nth(3).ok_or(LineError::UnknownFormat)?;
    let end = quote(&rest[begin..]).map_or(rest.len(), |end| begin + end);
    let (method, target) = request_line(unescape(&rest[begin..end]));
    Ok(LoggedRequest {
        arrived: timestamp::common(time).ok_or(LineError::NoTime)?,
        client: client(address)?,
        method,
        target,
        host: None,
        user: None,
        // `-1` stands for a request that got no response.
        status: if code == "-1" { 503 } else { status(code)? },
        location: None,
        gate: None,
        decision: None,
    })
}

/// A connection of which no request came: the handshake of TLS failed, or the PROXY header.
fn without_request<'a>(address: &str, rest: &[u8]) -> Result<LoggedRequest<'a>, LineError> {
    let text = std::str::from_utf8(rest).map_err(|_| LineError::UnknownFormat)?;
    let (time, what) = text.split_once("] ").ok_or(LineError::UnknownFormat)?;
    if !what.contains(": ") {
        return Err(LineError::UnknownFormat);
    }
    Ok(LoggedRequest {
        arrived: timestamp::common(time).ok_or(LineError::NoTime)?,
        client: client(address)?,
        method: "".into(),
        target: "".into(),
        host: None,
        user: None,
        status: 400,
        location: None,
        gate: None,
        decision: None,
    })
}
