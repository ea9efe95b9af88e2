//! Formats a line: the combined format of Apache and nginx, or a JSON object.
//!
//! Text of a client goes through `escape`. The time is that of the request's arrival, as in Apache's log, so lines of
//! slow responses are out of order.

use http::{HeaderValue, Uri, Version};

use super::escape;
use crate::event::AccessLogEntry;
use crate::observe::client_format::ClientFormatter;
use crate::time::Span;

/// `client - - [time] "request" status bytes "referer" "user agent"`.
pub(super) fn combined(line: &mut Vec<u8>, second: &str, clients: &ClientFormatter, entry: &AccessLogEntry) {
    clients.write(entry.client, line);
    put(line, &[" - - [", second, "] \""]);
    escape::combined(entry.method.as_str().as_bytes(), line);
    line.push(b' ');
    with_target(&entry.target, |target| escape::combined(target, line));
    put(line, &[" ", protocol(entry.version), "\" "]);
    number(line, entry.status.as_u16());
    line.push(b' ');
    number(line, entry.bytes);
    for field in [&entry.referer, &entry.user_agent] {
        line.extend_from_slice(b" \"");
        escape::combined(field.as_ref().map_or(b"-", HeaderValue::as_bytes), line);
        line.push(b'"');
    }
    line.push(b'\n');
}

/// A JSON object in one line; an absent value is `null`.
pub(super) fn json(line: &mut Vec<u8>, second: &str, clients: &ClientFormatter, entry: &AccessLogEntry) {
    put(line, &["{\"time\":\"", second, "."]);
    thousandths(line, entry.at.as_nanos() / 1_000_000 % 1_000);
    line.extend_from_slice(b"Z\",\"client\":\"");
    clients.write(entry.client, line);
    line.push(b'"');
    text(line, "method", Some(entry.method.as_str().as_bytes()));
    with_target(&entry.target, |target| text(line, "target", Some(target)));
    text(line, "protocol", Some(protocol(entry.version).as_bytes()));
    text(line, "host", bytes(&entry.host));
    key(line, "status");
    number(line, entry.status.as_u16());
    key(line, "bytes");
    number(line, entry.bytes);
    key(line, "duration_ms");
    decimal(line, entry.duration, 1_000);
    key(line, "added_us");
    decimal(line, entry.added, 1);
    text(line, "route", entry.route.as_ref().map(|name| name.as_bytes()));
    text(line, "refused_by", entry.refused_by.as_ref().map(|name| name.as_bytes()));
    text(line, "request_id", bytes(&entry.request_id));
    text(line, "referer", bytes(&entry.referer));
    text(line, "user_agent", bytes(&entry.user_agent));
    put(line, &[",\"complete\":", if entry.complete { "true" } else { "false" }, "}\n"]);
}

fn put(line: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| line.extend_from_slice(part.as_bytes()));
}

fn key(line: &mut Vec<u8>, name: &str) {
    put(line, &[",\"", name, "\":"]);
}

fn text(line: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    key(line, name);
    let Some(value) = value else { return put(line, &["null"]) };
    line.push(b'"');
    escape::json(value, line);
    line.push(b'"');
}

fn bytes(value: &Option<HeaderValue>) -> Option<&[u8]> {
    value.as_ref().map(HeaderValue::as_bytes)
}

fn number(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A span in units of `nanos` thousand nanoseconds, to the thousandth.
fn decimal(line: &mut Vec<u8>, span: Span, nanos: u64) {
    let thousandths_of_it = span.as_nanos() / nanos;
    number(line, thousandths_of_it / 1_000);
    line.push(b'.');
    thousandths(line, thousandths_of_it % 1_000);
}

/// Three digits.
fn thousandths(line: &mut Vec<u8>, number: u64) {
    let digit = |divisor: u64| b'0' + u8::try_from(number / divisor % 10).unwrap_or(0);
    line.extend_from_slice(&[digit(100), digit(10), digit(1)]);
}

/// Usually a path; the absolute and the authority form cost an allocation.
fn with_target<T>(target: &Uri, then: impl FnOnce(&[u8]) -> T) -> T {
    match (target.scheme(), target.authority(), target.path_and_query()) {
        (None, None, Some(path)) => then(path.as_str().as_bytes()),
        _ => then(target.to_string().as_bytes()),
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

#[cfg(test)]
mod tests;
