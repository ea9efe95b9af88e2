//! Writes the head of a response, and says how its body is framed.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::Body as _;
use hyper::ext::ReasonPhrase;

use crate::proxy::body::ResponseBody;
use crate::proxy::headers::passed::{HeaderCase, push_line};
use crate::proxy::request::response_terms::ResponseTerms;
use crate::proxy::respond::CachedRefusal;

/// How the body of a response is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFraming {
    /// It has none.
    Empty,
    Length,
    Chunked,
    UntilClose,
}

/// The bytes of a kept refusal with its body, and whether the connection is kept open after it. `may_stay`: whether the gate
/// keeps it.
pub(super) fn encode_kept(
    refusal: &CachedRefusal,
    request_id: &HeaderValue,
    body: &[u8],
    terms: ResponseTerms,
    may_stay: bool,
    case: HeaderCase,
) -> (Vec<u8>, bool) {
    let mut bytes = Vec::with_capacity(TYPICAL_HEAD + body.len());
    push_status(refusal.status(), None, &mut bytes);
    refusal.lines().write(request_id, case, &mut bytes);
    push_line(&CONTENT_LENGTH, itoa::Buffer::new().format(body.len()), case, &mut bytes);
    push_date(case, &mut bytes);
    let stays = may_stay && terms.keeps_alive;
    push_connection(stays, terms.is_old, case, &mut bytes);
    bytes.extend_from_slice(body);
    (bytes, stays)
}

/// The bytes of a head, the framing of its body, and whether the connection is kept open after it. `may_stay`: whether
/// the gate keeps it.
pub(super) fn encode(
    response: &Response<ResponseBody>,
    terms: ResponseTerms,
    may_stay: bool,
    case: HeaderCase,
) -> (Vec<u8>, ResponseFraming, bool) {
    let (body, headers, status) = (response.body(), response.headers(), response.status());
    let (carried, length) = (body.carried(), body.size_hint().exact());
    // A short body is sent in one piece with its head.
    let room = length
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| *length <= ResponseBody::SHORT);
    let mut bytes = Vec::with_capacity(TYPICAL_HEAD + room.unwrap_or(0));
    push_status(status, response.extensions().get(), &mut bytes);
    let has = |name: &HeaderName| {
        headers.contains_key(name) || carried.is_some_and(|carried| carried.contains(name))
    };
    if let Some(carried) = carried {
        carried.write(case, &mut bytes);
    }
    let mut closes = false;
    for (name, value) in headers {
        if *name == CONNECTION {
            closes = true;
        } else {
            push_line(name, value, case, &mut bytes);
        }
    }
    if status == StatusCode::SWITCHING_PROTOCOLS {
        bytes.extend_from_slice(b"\r\n");
        return (bytes, ResponseFraming::Empty, false);
    }
    let is_empty = terms.is_head
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = match length {
        _ if is_empty => ResponseFraming::Empty,
        _ if has(&CONTENT_LENGTH) => ResponseFraming::Length,
        Some(length) => {
            push_line(&CONTENT_LENGTH, itoa::Buffer::new().format(length), case, &mut bytes);
            ResponseFraming::Length
        }
        None if terms.is_old => ResponseFraming::UntilClose,
        None => {
            push_line(&TRANSFER_ENCODING, "chunked", case, &mut bytes);
            ResponseFraming::Chunked
        }
    };
    if !has(&DATE) {
        push_date(case, &mut bytes);
    }
    let stays = may_stay && !closes && terms.keeps_alive && framing != ResponseFraming::UntilClose;
    push_connection(stays, terms.is_old, case, &mut bytes);
    (bytes, framing, stays)
}

fn push_status(status: StatusCode, reason: Option<&ReasonPhrase>, bytes: &mut Vec<u8>) {
    let reason = reason.map(ReasonPhrase::as_bytes);
    let reason = reason.or_else(|| status.canonical_reason().map(str::as_bytes)).unwrap_or_default();
    for part in [b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason, b"\r\n"] {
        bytes.extend_from_slice(part);
    }
}

/// Ends the head.
fn push_connection(stays: bool, is_old: bool, case: HeaderCase, bytes: &mut Vec<u8>) {
    match (stays, is_old) {
        (true, true) => push_line(&CONNECTION, "keep-alive", case, bytes),
        (false, false) => push_line(&CONNECTION, "close", case, bytes),
        (true, false) | (false, true) => {}
    }
    bytes.extend_from_slice(b"\r\n");
}

thread_local! {
    /// The time in seconds since 1970, and its text.
    static LATEST_DATE: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// The time as in RFC 9110, 5.6.7, formatted once a second.
#[expect(clippy::disallowed_methods, reason = "`Date` follows the clock of the machine, also when it is set")]
fn push_date(case: HeaderCase, bytes: &mut Vec<u8>) {
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    LATEST_DATE.with_borrow_mut(|(latest, text)| {
        if *latest != seconds {
            (*latest, *text) = (seconds, httpdate::fmt_http_date(now));
        }
        push_line(&DATE, text.as_str(), case, bytes);
    });
}

/// Bytes of a head in most cases.
const TYPICAL_HEAD: usize = 768;
