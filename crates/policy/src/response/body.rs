//! A response body, as rules see it.
//!
//! Text is compared byte by byte, as UTF-8; in another charset only ASCII text can be searched, if ASCII bytes stand
//! for themselves there. A body that cannot be read is not an empty one: conditions on it are undecided.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use memchr::memmem::find;
use serde_json::Value;

use super::charset::Charset;
use super::coding::{Codings, Undecodable};
use super::{BodyPrefix, ResponseView};

/// The view of a body.
#[derive(Debug)]
pub(crate) enum BodyView<'a> {
    /// Not read yet.
    NotRead,
    /// Cannot be read.
    Unreadable,
    /// Its beginning, or all of it.
    Read(BodyText<'a>),
}

/// The decoded beginning of a body.
pub(crate) struct BodyText<'a> {
    bytes: Cow<'a, [u8]>,
    /// Whether the body is complete.
    is_whole: bool,
    charset: Charset,
    /// Whether the headers declare JSON.
    is_json: bool,
    json: OnceCell<Result<Option<Value>, Undecodable>>,
}

impl<'a> BodyView<'a> {
    /// The view before the body is received.
    pub(crate) fn before_body(response: &ResponseView<'_>) -> Self {
        if codings(response).is_ok() { Self::NotRead } else { Self::Unreadable }
    }

    /// The view of the received part of the body.
    pub(crate) fn read(response: &ResponseView<'_>, body: BodyPrefix<'a>) -> Self {
        let text = codings(response).and_then(|codings| codings.decode_prefix(body.bytes, body.complete));
        text.map_or(Self::Unreadable, |prefix| {
            let is_json = is_json(response.headers);
            let charset = Charset::of(response.headers, &prefix.bytes);
            let (bytes, is_whole) = (prefix.bytes, prefix.is_whole);
            Self::Read(BodyText { bytes, is_whole, charset, is_json, json: OnceCell::new() })
        })
    }

    /// Whether the body can never be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable)
    }
}

impl BodyText<'_> {
    /// Whether the body contains this text.
    pub(crate) fn contains(&self, text: &str) -> Result<bool, Undecodable> {
        match find(&self.bytes, text.as_bytes()) {
            Some(_) => Ok(true),
            None if self.is_whole && self.charset.shows(text, &self.bytes) => Ok(false),
            None => Err(Undecodable),
        }
    }

    /// The body as a JSON document; `None` if it is none.
    pub(crate) fn json(&self) -> Result<Option<&Value>, Undecodable> {
        self.json.get_or_init(|| self.parse()).as_ref().map(Option::as_ref).map_err(|error| *error)
    }

    fn parse(&self) -> Result<Option<Value>, Undecodable> {
        if !self.is_whole || !self.charset.shows("{", &self.bytes) {
            return Err(Undecodable);
        }
        let text = self.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.bytes).trim_ascii();
        match serde_json::from_slice(text) {
            Ok(document) => Ok(Some(document)),
            // Too deep, in another charset, or broken; it is declared as JSON, so its content is unknown.
            Err(_) if self.is_json && !text.is_empty() => Err(Undecodable),
            Err(_) => Ok(None),
        }
    }
}

impl std::fmt::Debug for BodyText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BodyText({} bytes, whole: {})", self.bytes.len(), self.is_whole)
    }
}

/// The codings of a response with a whole body; an error for others: the response to `HEAD` has no body, 304 refers to
/// an older one, and a range may leave out the searched part (RFC 9110, sections 9.3.2, 15.4.5 and 14.2).
fn codings(response: &ResponseView<'_>) -> Result<Codings, Undecodable> {
    let is_part = matches!(response.status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED);
    let none = response.method == Method::HEAD || response.status.is_informational();
    let ranges = media_types(response.headers).any(|kind| kind.eq_ignore_ascii_case(b"multipart/byteranges"));
    if is_part || none || ranges || is_coded_on_the_way(response.headers) {
        return Err(Undecodable);
    }
    Codings::of(response.headers)
}

/// Whether the response has transfer codings other than `chunked`, which the gate does not decode.
fn is_coded_on_the_way(headers: &HeaderMap) -> bool {
    let plain = |name: &[u8]| {
        [&b""[..], b"chunked", b"identity"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let lines = headers.get_all(TRANSFER_ENCODING).iter();
    lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).any(|name| !plain(name.trim_ascii()))
}

fn is_json(headers: &HeaderMap) -> bool {
    media_types(headers).any(|kind| {
        let kind = kind.to_ascii_lowercase();
        [&b"/json"[..], b"+json"].iter().any(|suffix| kind.ends_with(suffix))
    })
}

/// The media types of all lines, without parameters.
fn media_types(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(CONTENT_TYPE).iter();
    lines.filter_map(|line| line.as_bytes().split(|&byte| byte == b';').next()).map(<[u8]>::trim_ascii)
}
