//! Distributed traces: reads `traceparent` of a request, and writes the gate's own span into it for the upstream.
//!
//! By W3C Trace Context, level 1 (<https://www.w3.org/TR/trace-context-1/>). Exporting spans is left to listeners to
//! events. Without a [`Tracer`] no header is read or written.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::passed::PassedHeaders;
use super::request_id::RequestIds;
use crate::event::RequestSpan;

/// Chooses which requests are traced.
#[derive(Debug, Clone, Copy)]
pub struct Tracer {
    sample_ppm: u32,
}

/// The caller's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ParentSpan {
    trace_id: u128,
    span_id: u64,
    is_sampled: bool,
}

impl Tracer {
    /// Samples this number of a million requests that come without a valid `traceparent`.
    #[must_use]
    pub fn new(sample_ppm: u32) -> Self {
        Self { sample_ppm }
    }

    /// The span of a request: of the caller's trace, sampled if the caller says so; without one of a new trace, if it
    /// is sampled; otherwise `None`.
    pub fn begin(&self, headers: &HeaderMap, ids: &RequestIds, is_secure: bool) -> Option<Box<RequestSpan>> {
        let parent = parent(headers);
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => ids.next_bits() % MILLION < u64::from(self.sample_ppm),
        };
        if parent.is_none() && !is_sampled {
            return None;
        }
        let new_trace = || u128::from(ids.next_bits()) << 64 | u128::from(ids.next_bits() | 1);
        Some(Box::new(RequestSpan {
            trace_id: parent.map_or_else(new_trace, |parent| parent.trace_id),
            // The lowest bit keeps it from being zero, which is not an id.
            span_id: ids.next_bits() | 1,
            parent_id: parent.map(|parent| parent.span_id),
            is_sampled,
            is_secure,
        }))
    }

    /// Names the span as the parent of what the upstream does. A `tracestate` goes on only with the trace that it
    /// belongs to, and a malformed `traceparent` not at all.
    pub fn propagate(&self, headers: &mut PassedHeaders, span: Option<&RequestSpan>) {
        if span.is_none_or(|span| span.parent_id.is_none()) {
            headers.remove(&TRACESTATE);
        }
        match span.and_then(traceparent) {
            Some(value) => headers.set(TRACEPARENT, value),
            None => headers.remove(&TRACEPARENT),
        }
    }
}

fn traceparent(span: &RequestSpan) -> Option<HeaderValue> {
    let RequestSpan { trace_id, span_id, is_sampled, .. } = span;
    let text = format!("00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(*is_sampled));
    HeaderValue::try_from(text).ok()
}

/// The caller's span, if there is exactly one valid `traceparent`.
fn parent(headers: &HeaderMap) -> Option<ParentSpan> {
    let mut lines = headers.get_all(TRACEPARENT).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => parse(line.as_bytes()),
        _ => None,
    }
}

/// Section 3.2. A later version may add fields behind the known ones.
fn parse(text: &[u8]) -> Option<ParentSpan> {
    let (known, rest) = text.split_at_checked(TRACEPARENT_LEN)?;
    let version = hex(known.get(..2)?)?;
    let is_whole = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    let has_dashes = [2, 35, 52].iter().all(|&at| known.get(at) == Some(&b'-'));
    if !is_whole || !has_dashes {
        return None;
    }
    let trace_id = hex(known.get(3..35)?).filter(|&id| id != 0)?;
    let span_id = hex(known.get(36..52)?).and_then(|id| u64::try_from(id).ok()).filter(|&id| id != 0)?;
    let flags = hex(known.get(53..)?)?;
    Some(ParentSpan { trace_id, span_id, is_sampled: flags & 1 == 1 })
}

/// At most 32 digits, in lower case only.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `VERSION-TRACE_ID-PARENT_ID-FLAGS`: 2, 32, 16 and 2 digits.
const TRACEPARENT_LEN: usize = 55;
const MILLION: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::super::received_head::ReceivedHead;
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    fn text(headers: &HeaderMap, name: &str) -> Option<String> {
        headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    /// What the upstream gets, and the span.
    fn traced(sample_ppm: u32, lines: &[(&'static str, &str)]) -> (HeaderMap, Option<RequestSpan>) {
        let (tracer, headers) = (Tracer::new(sample_ppm), headers(lines));
        let span = tracer.begin(&headers, &RequestIds::default(), false);
        let mut passed = PassedHeaders::new(headers, ReceivedHead::default());
        tracer.propagate(&mut passed, span.as_deref());
        (passed.into_map(), span.map(|span| *span))
    }

    #[test]
    fn a_trace_goes_on_under_a_new_parent_with_its_state() {
        for (flags, is_sampled) in [("01", true), ("00", false), ("ff", true)] {
            let incoming = VALID.replace("-01", &format!("-{flags}"));
            let (headers, span) = traced(0, &[("traceparent", &incoming), ("tracestate", "a=1,b=2")]);
            let span = span.unwrap();
            assert_eq!(span.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
            assert_eq!((span.parent_id, span.is_sampled), (Some(0x00f0_67aa_0ba9_02b7), is_sampled));
            assert_ne!(span.span_id, 0x00f0_67aa_0ba9_02b7);
            let sent = format!(
                "00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-{:02x}",
                span.span_id,
                u8::from(is_sampled)
            );
            assert_eq!(text(&headers, "traceparent"), Some(sent));
            assert_eq!(text(&headers, "tracestate").as_deref(), Some("a=1,b=2"));
        }
    }

    #[test]
    fn a_malformed_traceparent_and_its_state_go_no_further() {
        let upper = VALID.to_ascii_uppercase();
        for line in [
            "",
            "00",
            &VALID[..54],
            &format!("{VALID}-"),
            &format!("{VALID}0"),
            &VALID.replace("00-4b", "ff-4b"),
            &VALID.replace("00-4b", "0g-4b"),
            &format!("{}x", VALID.replace("00-4b", "01-4b")),
            &upper,
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            &VALID.replace('-', "_"),
        ] {
            let (headers, span) = traced(0, &[("traceparent", line), ("tracestate", "a=1")]);
            assert!(span.is_none() && headers.is_empty(), "{line}: {headers:?}");
        }
        let (headers, _) = traced(0, &[("traceparent", VALID), ("traceparent", VALID)]);
        assert!(headers.is_empty(), "two of them are none");
        let (headers, _) = traced(0, &[("tracestate", "a=1")]);
        assert!(headers.is_empty(), "a state without a trace is none");
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_passed_on_as_ours() {
        for line in [VALID.replace("00-4b", "cc-4b"), format!("{}-more", VALID.replace("00-4b", "cc-4b"))] {
            let (headers, span) = traced(0, &[("traceparent", &line)]);
            assert!(span.unwrap().is_sampled);
            assert!(text(&headers, "traceparent").unwrap().starts_with("00-4bf92f3577b3"), "{line}");
        }
    }

    #[test]
    fn without_a_traceparent_the_share_decides() {
        let (tracer, ids) = (Tracer::new(250_000), RequestIds::default());
        let begun = (0..10_000).filter_map(|_| tracer.begin(&HeaderMap::new(), &ids, false)).count();
        assert!((2_200..2_800).contains(&begun), "{begun} of 10000 at a quarter");
        let (headers, span) = traced(1_000_000, &[("tracestate", "a=1")]);
        let span = span.unwrap();
        assert!(span.is_sampled && span.parent_id.is_none() && span.trace_id >> 64 != 0);
        assert!(text(&headers, "traceparent").unwrap().ends_with("-01"));
        assert_eq!(text(&headers, "tracestate"), None);
        assert_eq!(traced(0, &[]).1, None);
    }
}
