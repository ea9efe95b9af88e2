//! Reads one line of an access log.
//!
//! A line shows method, target, status, client and time; some formats show the host, the user, a `Location`. What the
//! line means for the limits is left to `attempt`.

mod common;
mod haproxy;
mod json;
mod pattern;
mod timestamp;

use std::borrow::Cow;

pub use self::json::{AttemptId, GateLine};
pub use self::pattern::{LogPattern, LogPatternError};
use crate::event::AttemptEnd;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// Bytes of a line; a longer one is not read.
pub const MAX_LINE: usize = 64 << 10;

/// A format of access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// `client ident user [time] "request" status bytes "referer" "user agent"`, of Apache, nginx and tollgate.
    Combined,
    /// The same without the last two fields.
    Common,
    /// One JSON object in each line: of tollgate (access log or decision log), Caddy, Traefik, or of nginx with variables by
    /// their own names.
    Json,
    /// HAProxy's `option httplog`, with or without a header of syslog.
    Haproxy,
    /// That of a [`LogPattern`].
    Pattern,
}

/// How all lines of a log are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLineFormat {
    /// In this format.
    Known(AccessLogFormat),
    /// As this pattern says.
    Pattern(LogPattern),
}

/// What is known of the format of a log before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatChoice {
    /// Each line shows its own.
    Found,
    /// This one.
    Known(AccessLogFormat),
    /// The columns that a line `#Fields:` names.
    Columns,
    /// The one of these that reads most lines.
    AnyOf(Vec<LogPattern>),
}

/// One request, as far as its line shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRequest<'a> {
    /// When the request arrived, as nearly as the line shows.
    pub arrived: Time,
    /// The client.
    pub client: Client,
    /// The method; empty if the client sent no HTTP.
    pub method: Cow<'a, str>,
    /// The target as sent, without the escapes of the log.
    pub target: Cow<'a, str>,
    /// The host, if the format has it.
    pub host: Option<Cow<'a, str>>,
    /// The user of `Authorization: Basic`, or the hash of the account, if the format has it and there is one.
    pub user: Option<Cow<'a, str>>,
    /// The status of the response, 100 to 999.
    pub status: u16,
    /// The `Location` of the response, if the format has it and there is one.
    pub location: Option<Cow<'a, str>>,
    /// More fields, which only tollgate's own JSON format has.
    pub gate: Option<GateFields<'a>>,
    /// The route and the request of a line of the decision log; such a line has no method, target or status.
    pub decision: Option<DecisionFields<'a>>,
}

/// Whose decision a line of the decision log tells: an attempt has a line for each limit, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionFields<'a> {
    /// The name of the route.
    pub route: Cow<'a, str>,
    /// The id of the request, if it has one.
    pub request_id: Option<Cow<'a, str>>,
}

/// What tollgate's own JSON format shows of the gate's decision.
#[derive(Debug, Clone, PartialEq)]
pub struct GateFields<'a> {
    /// Whether the gate counted the request as an attempt.
    pub is_attempt: bool,
    /// The limit that refused it.
    pub refused_by: Option<Cow<'a, str>>,
    /// From the arrival to the decision.
    pub decided: Span,
    /// How it was settled.
    pub settled: Option<AttemptEnd>,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is longer than [`MAX_LINE`].
    #[error("longer than 64 KiB")]
    TooLong,
    /// It has none of the formats.
    #[error(
        "in no known format: expected the combined or common format, JSON, or HAProxy's; else give --format '...'"
    )]
    UnknownFormat,
    /// It is not as the given format says.
    #[error("not in the format that was given")]
    OtherFormat,
    /// It is an object that no log of tollgate has.
    #[error("neither of tollgate's decision log nor of its access log")]
    NotOfGate,
    /// A JSON object is broken off or not an object.
    #[error("no JSON object")]
    BadJson,
    /// There is no address of a client.
    #[error("no address of a client")]
    NoClient,
    /// The clients are hashed.
    #[error("the client is a hash: replay needs log.clients = \"full\" or \"prefix\"")]
    HashedClient,
    /// There is no time, or none that can be read.
    #[error("no time")]
    NoTime,
    /// There is no request line.
    #[error("no request")]
    NoRequest,
    /// There is no status.
    #[error("no status")]
    NoStatus,
}

/// Reads a line without its line feed. Without a format it finds out. Also returns the format.
///
/// # Errors
/// See [`LineError`].
pub fn parse<'l>(
    line: &'l [u8],
    format: Option<&LogLineFormat>,
) -> Result<(LoggedRequest<'l>, AccessLogFormat), LineError> {
    if line.len() > MAX_LINE {
        return Err(LineError::TooLong);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let known = match format {
        Some(LogLineFormat::Pattern(pattern)) => {
            return pattern.parse(line).map(|request| (request, AccessLogFormat::Pattern));
        }
        Some(LogLineFormat::Known(known)) => Some(*known),
        None => None,
    };
    match known {
        Some(AccessLogFormat::Combined | AccessLogFormat::Common) => common::parse(line),
        Some(AccessLogFormat::Json) => json::parse(line).map(|request| (request, AccessLogFormat::Json)),
        Some(AccessLogFormat::Haproxy) => {
            haproxy::parse(line).map(|request| (request, AccessLogFormat::Haproxy))
        }
        Some(AccessLogFormat::Pattern) => Err(LineError::OtherFormat),
        None if line.trim_ascii_start().starts_with(b"{") => {
            json::parse(line).map(|request| (request, AccessLogFormat::Json))
        }
        None => common::parse(line).or_else(|error| match haproxy::parse(line) {
            Ok(request) => Ok((request, AccessLogFormat::Haproxy)),
            Err(LineError::UnknownFormat) => Err(error),
            Err(of_haproxy) => Err(of_haproxy),
        }),
    }
}

/// Reads a line of tollgate's own JSON logs, without its line feed.
///
/// # Errors
/// See [`LineError`]. A line of another program is [`LineError::NotOfGate`].
pub fn parse_gate_line(line: &[u8]) -> Result<GateLine<'_>, LineError> {
    match line.len() > MAX_LINE {
        true => Err(LineError::TooLong),
        false => json::parse_gate_line(line),
    }
}

/// A time as logs write it, by RFC 3339.
pub(super) fn time_of(text: &str) -> Option<Time> {
    timestamp::any(text)
}

/// An address, without the port that some servers log with it; `-` and `unix:` stand for a Unix socket.
fn client(text: &str) -> Result<Client, LineError> {
    if matches!(text, "-" | "unix:" | "@") {
        return Ok(Client::UnixSocket);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(text);
    // The interface of a link-local address says nothing about the client.
    let bare = bare.split('%').next().unwrap_or_default();
    match bare.parse().or_else(|error| bare.rsplit_once(':').map_or(Err(error), |(ip, _port)| ip.parse())) {
        Ok(ip) => Ok(Client::from_ip(ip)),
        Err(_) if text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Err(LineError::HashedClient)
        }
        Err(_) => Err(LineError::NoClient),
    }
}

/// Method and target of a request line (RFC 9112, section 3); both empty if it is none, as when a client spoke TLS.
fn request_line(text: Cow<'_, str>) -> (Cow<'_, str>, Cow<'_, str>) {
    let none = || (Cow::Borrowed(""), Cow::Borrowed(""));
    match text {
        Cow::Borrowed(text) => split_request(text).map_or_else(none, |(m, t)| (m.into(), t.into())),
        Cow::Owned(text) => {
            split_request(&text).map_or_else(none, |(m, t)| (m.to_owned().into(), t.to_owned().into()))
        }
    }
}

fn split_request(text: &str) -> Option<(&str, &str)> {
    let (method, rest) = text.split_once(' ')?;
    let target = rest.rsplit_once(' ').filter(|(_, version)| version.starts_with("HTTP/"));
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_graphic());
    is_method.then_some((method, target.map_or(rest, |(target, _)| target)))
}

fn status(text: &str) -> Result<u16, LineError> {
    text.parse().ok().filter(|status| (100..1000).contains(status)).ok_or(LineError::NoStatus)
}

#[cfg(test)]
mod tests;
