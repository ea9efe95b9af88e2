//! How a line looks: the combined format of Apache and nginx, or a JSON object.
//!
//! Everything that a stranger sent goes through `escape`. The surprising thing: the time is the one when the request
//! arrived, as in Apache's log, so lines of slow answers are not in order.

use http::{HeaderValue, Uri, Version};

use super::escape;
use crate::event::AccessLogEntry;
use crate::observe::client_format::ClientFormatter;
use crate::time::Span;

/// `client - - [time] "request" status bytes "referer" "user agent"`.
pub(super) fn combined(
    line: &mut Vec<u8>,
    second: &str,
    clients: &ClientFormatter,
    answered: &AccessLogEntry,
) {
    clients.write(answered.client, line);
    put(line, &[" - - [", second, "] \""]);
    escape::combined(answered.method.as_str().as_bytes(), line);
    line.push(b' ');
    with_target(&answered.target, |target| escape::combined(target, line));
    put(line, &[" ", protocol(answered.version), "\" "]);
    number(line, answered.status.as_u16());
    line.push(b' ');
    number(line, answered.bytes);
    for field in [&answered.referer, &answered.user_agent] {
        line.extend_from_slice(b" \"");
        escape::combined(field.as_ref().map_or(b"-", HeaderValue::as_bytes), line);
        line.push(b'"');
    }
    line.push(b'\n');
}

/// An object in one line; what is missing is `null`.
pub(super) fn json(line: &mut Vec<u8>, second: &str, clients: &ClientFormatter, answered: &AccessLogEntry) {
    put(line, &["{\"time\":\"", second, "."]);
    thousandths(line, answered.at.as_nanos() / 1_000_000 % 1_000);
    line.extend_from_slice(b"Z\",\"client\":\"");
    clients.write(answered.client, line);
    line.push(b'"');
    text(line, "method", Some(answered.method.as_str().as_bytes()));
    with_target(&answered.target, |target| text(line, "target", Some(target)));
    text(line, "protocol", Some(protocol(answered.version).as_bytes()));
    text(line, "host", bytes(&answered.host));
    key(line, "status");
    number(line, answered.status.as_u16());
    key(line, "bytes");
    number(line, answered.bytes);
    key(line, "duration_ms");
    decimal(line, answered.duration, 1_000);
    key(line, "added_us");
    decimal(line, answered.added, 1);
    text(line, "route", answered.route.as_ref().map(|name| name.as_bytes()));
    text(line, "refused_by", answered.refused_by.as_ref().map(|name| name.as_bytes()));
    text(line, "request_id", bytes(&answered.request_id));
    text(line, "referer", bytes(&answered.referer));
    text(line, "user_agent", bytes(&answered.user_agent));
    put(line, &[",\"complete\":", if answered.complete { "true" } else { "false" }, "}\n"]);
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

/// Usually a path; whoever sends an absolute or an authority form costs an allocation.
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
