//! The span of one request, by OpenTelemetry's semantic conventions for HTTP servers (1.27 and later).
//!
//! It holds no query, and an address only where logs may hold whole addresses.

use http::uri::Authority;
use http::{HeaderValue, Method, Version};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as OtelStatus;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status, span};

use super::resource::{number, text};
use crate::event::{AccessLogEntry, AttemptRecord, RequestSpan};
use crate::observe::attempt_fields::of_span;
use crate::observe::client_format::ClientFormatter;

/// The span of a request that has ended.
pub(super) fn span_of(entry: &AccessLogEntry, request: &RequestSpan, clients: &ClientFormatter) -> Span {
    let attempt = entry.attempt.as_deref();
    let (method, original) = method(&entry.method);
    let is_error = entry.status.is_server_error();
    let mut attributes = vec![
        text("http.request.method", method),
        number("http.response.status_code", i64::from(entry.status.as_u16())),
        text("network.protocol.version", version(entry.version)),
        text("url.path", entry.target.path()),
        text("url.scheme", if request.is_secure { "https" } else { "http" }),
    ];
    attributes.extend(original.map(|original| text("http.request.method_original", original)));
    attributes.extend(is_error.then(|| text("error.type", entry.status.as_str())));
    attributes.extend(server(entry.host.as_ref()));
    let agent = entry.user_agent.as_ref().and_then(|agent| agent.to_str().ok());
    attributes.extend(agent.map(|agent| text("user_agent.original", agent)));
    let address = clients.whole_address(entry.client);
    attributes.extend(address.map(|address| text("client.address", &address.to_string())));
    attributes.extend(attempt.into_iter().flat_map(of_span).map(|(name, value)| text(name, value)));
    let remote = SpanFlags::ContextHasIsRemoteMask as u32 | SpanFlags::ContextIsRemoteMask as u32;
    let code = if is_error { OtelStatus::Error } else { OtelStatus::Unset };
    Span {
        trace_id: request.trace_id.to_be_bytes().to_vec(),
        span_id: request.span_id.to_be_bytes().to_vec(),
        parent_span_id: request.parent_id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        flags: u32::from(request.is_sampled) | request.parent_id.map_or(0, |_| remote),
        name: name(if original.is_some() { "HTTP" } else { method }, attempt),
        kind: span::SpanKind::Server as i32,
        start_time_unix_nano: entry.at.as_nanos(),
        end_time_unix_nano: entry.at.after(entry.duration).as_nanos(),
        attributes,
        status: Some(Status { code: code as i32, ..Status::default() }),
        ..Span::default()
    }
}

/// The method and the route: names of spans come from the configuration, because a backend keeps a list of them.
fn name(method: &str, attempt: Option<&AttemptRecord>) -> String {
    match attempt {
        Some(attempt) => format!("{method} {}", attempt.route_name()),
        None => method.to_owned(),
    }
}

/// A method that the conventions know, or `_OTHER` and the method as sent.
fn method(method: &Method) -> (&str, Option<&str>) {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH") => {
            (known, None)
        }
        other => ("_OTHER", Some(other)),
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

fn server(host: Option<&HeaderValue>) -> impl Iterator<Item = KeyValue> {
    let authority: Option<Authority> = host.and_then(|host| host.to_str().ok()?.parse().ok());
    let address = authority.as_ref().map(|authority| text("server.address", authority.host()));
    let port = authority.and_then(|authority| authority.port_u16());
    address.into_iter().chain(port.map(|port| number("server.port", i64::from(port))))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;
    use crate::observe::samples::entry;
    use crate::observe::settings::ClientsShown;
    use crate::policy::key::PrefixLengths;

    const REQUEST: RequestSpan = RequestSpan {
        trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
        span_id: 7,
        parent_id: Some(9),
        is_sampled: true,
        is_secure: true,
    };

    fn span(entry: &AccessLogEntry, shown: ClientsShown) -> Span {
        span_of(entry, &REQUEST, &ClientFormatter::new(shown, PrefixLengths::default()))
    }

    fn value(span: &Span, key: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
        match found.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(text.clone()),
            Value::IntValue(number) => Some(number.to_string()),
            _ => None,
        }
    }

    #[test]
    fn a_span_has_the_attributes_of_the_conventions_and_the_decision() {
        let span = span(&entry(), ClientsShown::Full);
        assert_eq!((span.name.as_str(), span.kind, span.flags), ("POST login", 2, 0x301));
        assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1_234_567);
        for (key, expected) in [
            ("http.request.method", "POST"),
            ("http.response.status_code", "429"),
            ("network.protocol.version", "1.1"),
            ("url.path", "/login"),
            ("url.scheme", "https"),
            ("server.address", "intranet.example.org"),
            ("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64)"),
            ("client.address", "203.0.113.9"),
            ("tollgate.route", "login"),
            ("tollgate.limit", "address"),
            ("tollgate.verdict", "refuse"),
        ] {
            assert_eq!(value(&span, key).as_deref(), Some(expected), "{key}");
        }
        for absent in ["url.query", "error.type", "tollgate.outcome", "http.request.method_original"] {
            assert_eq!(value(&span, absent), None, "{absent}");
        }
    }

    #[test]
    fn an_address_is_in_no_span_unless_logs_may_hold_whole_ones() {
        for shown in [ClientsShown::Prefix, ClientsShown::Hash] {
            let shown = format!("{:?}", span(&entry(), shown));
            assert!(!shown.contains("203.0.113") && !shown.contains("client.address"), "{shown}");
        }
    }

    #[test]
    fn no_query_and_no_long_value_is_in_a_span() {
        let mut long = entry();
        long.user_agent = Some(HeaderValue::from_str(&"x".repeat(30_000)).unwrap());
        long.method = Method::from_bytes(b"BREW").unwrap();
        (long.status, long.attempt) = (http::StatusCode::BAD_GATEWAY, None);
        let span = span(&long, ClientsShown::Full);
        assert!(!format!("{span:?}").contains("next="), "{span:?}");
        assert_eq!(value(&span, "user_agent.original").unwrap().len(), 1_024);
        assert_eq!(span.name, "HTTP");
        assert_eq!(value(&span, "http.request.method_original").as_deref(), Some("BREW"));
        assert_eq!(value(&span, "error.type").as_deref(), Some("502"));
        assert_eq!(span.status.unwrap().code, OtelStatus::Error as i32);
    }
}
