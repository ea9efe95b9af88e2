//! Formats a line: the combined format of Apache and nginx, or a JSON object.
//!
//! Text of a client goes through `escape`. The time is that of the request's arrival, as in Apache's log, so lines of
//! slow responses are out of order.

use http::{HeaderValue, Uri, Version};

use crate::event::{AccessLogEntry, AttemptRecord};
use crate::observe::attempt_fields::of_request;
use crate::observe::client_format::ClientFormatter;
use crate::observe::escape;
use crate::observe::json_fields::{decimal, fields, key, moment, number, put, text, thousandths};

/// `client - - [time] "request" status bytes "referer" "user agent"`, and `refused_by="limit"` or `would_refuse="limit"`
/// only where that is so: programs that read the format take other lines as ever, and most ignore what follows. The request
/// is `-` where the client sent none.
pub(super) fn combined(line: &mut Vec<u8>, second: &str, clients: &ClientFormatter, entry: &AccessLogEntry) {
    clients.write(entry.client, line);
    put(line, &[" - - [", second, "] \""]);
    if entry.is_request {
        escape::combined(entry.method.as_str().as_bytes(), line);
        line.push(b' ');
        with_target(&entry.target, |target| escape::combined(target, line));
        put(line, &[" ", protocol(entry.version), "\" "]);
    } else {
        put(line, &["-\" "]);
    }
    number(line, entry.status.as_u16());
    line.push(b' ');
    number(line, entry.bytes);
    for field in [&entry.referer, &entry.user_agent] {
        match field {
            Some(value) => {
                line.extend_from_slice(b" \"");
                escape::combined(value.as_bytes(), line);
                line.push(b'"');
            }
            None => put(line, &[" \"-\""]),
        }
    }
    if let Some(attempt) = entry.attempt.as_deref() {
        // The names of limits need no escape.
        for (key, limit) in [("refused_by", attempt.refused_by()), ("would_refuse", attempt.would_refuse())] {
            limit.into_iter().for_each(|name| put(line, &[" ", key, "=\"", name, "\""]));
        }
    }
    line.push(b'\n');
}

/// A JSON object in one line; an absent value is `null`.
pub(super) fn json(line: &mut Vec<u8>, second: &str, clients: &ClientFormatter, entry: &AccessLogEntry) {
    put(line, &["{\"time\":\"", second, "."]);
    let nanos = entry.at.as_nanos() % 1_000_000_000;
    // Buckets count nanoseconds: with fewer digits `tollgate replay` could not repeat a decision.
    [nanos / 1_000_000, nanos / 1_000 % 1_000, nanos % 1_000]
        .into_iter()
        .for_each(|part| thousandths(line, part));
    line.extend_from_slice(b"Z\",\"client\":\"");
    clients.write(entry.client, line);
    line.push(b'"');
    if entry.is_request {
        text(line, "method", Some(entry.method.as_str().as_bytes()));
        with_target(&entry.target, |target| text(line, "target", Some(target)));
        text(line, "protocol", Some(protocol(entry.version).as_bytes()));
    } else {
        ["method", "target", "protocol"].into_iter().for_each(|name| text(line, name, None));
    }
    text(line, "host", bytes(&entry.host));
    key(line, "status");
    number(line, entry.status.as_u16());
    key(line, "bytes");
    number(line, entry.bytes);
    key(line, "duration_ms");
    decimal(line, entry.duration, 1_000);
    key(line, "added_us");
    decimal(line, entry.added, 1);
    let attempt = entry.attempt.as_deref();
    fields(line, &of_request(attempt));
    text(line, "request_id", bytes(&entry.request_id));
    text(line, "referer", bytes(&entry.referer));
    text(line, "user_agent", bytes(&entry.user_agent));
    moment(line, "decided_us", entry.at, attempt.map(|attempt| attempt.decided));
    moment(line, "settled_us", entry.at, attempt.and_then(AttemptRecord::settled_at));
    put(line, &[",\"complete\":", if entry.complete { "true" } else { "false" }, "}\n"]);
}

fn bytes(value: &Option<HeaderValue>) -> Option<&[u8]> {
    value.as_ref().map(HeaderValue::as_bytes)
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
