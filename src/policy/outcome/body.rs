//! A response body, as rules see it.
//!
//! Text is compared byte by byte, as UTF-8: a page in another charset is searched as it came for ASCII letters, where they
//! are themselves. A body that cannot be read is not an empty one: what a rule asks of it is not known.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use super::charset::Charset;
use super::coding::{Codings, Undecodable};
use super::glob::find;
use super::{BodyPrefix, ResponseView};

/// What there is to look at.
#[derive(Debug)]
pub(super) enum BodyView<'a> {
    /// Nothing yet.
    NotRead,
    /// Nothing that can be read.
    Unreadable,
    /// The beginning of the body, or all of it.
    Read(BodyText<'a>),
}

/// The beginning of a body.
pub(super) struct BodyText<'a> {
    bytes: Cow<'a, [u8]>,
    /// Whether that is all of it.
    is_whole: bool,
    charset: Charset,
    /// Whether the headers call it JSON.
    is_json: bool,
    json: OnceCell<Result<Option<Value>, Undecodable>>,
}

impl<'a> BodyView<'a> {
    /// Before the body is there.
    pub(super) fn before_body(answer: &ResponseView<'_>) -> Self {
        if codings(answer).is_ok() { Self::NotRead } else { Self::Unreadable }
    }

    /// With what is there of the body.
    pub(super) fn read(answer: &ResponseView<'_>, body: BodyPrefix<'a>) -> Self {
        let text = codings(answer).and_then(|codings| codings.decode_prefix(body.bytes, body.complete));
        text.map_or(Self::Unreadable, |beginning| {
            let is_json = is_json(answer.headers);
            let charset = Charset::of(answer.headers, &beginning.bytes);
            let (bytes, is_whole) = (beginning.bytes, beginning.is_whole);
            Self::Read(BodyText { bytes, is_whole, charset, is_json, json: OnceCell::new() })
        })
    }

    /// Whether nothing will ever be known of it.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable)
    }
}

impl BodyText<'_> {
    /// Whether it holds this text.
    pub(super) fn contains(&self, wanted: &str) -> Result<bool, Undecodable> {
        match find(&self.bytes, wanted.as_bytes()) {
            Some(_) => Ok(true),
            None if self.is_whole && self.charset.shows(wanted, &self.bytes) => Ok(false),
            None => Err(Undecodable),
        }
    }

    /// The JSON document that it is; `None` if it is something else.
    pub(super) fn json(&self) -> Result<Option<&Value>, Undecodable> {
        self.json.get_or_init(|| self.parse()).as_ref().map(Option::as_ref).map_err(|error| *error)
    }

    fn parse(&self) -> Result<Option<Value>, Undecodable> {
        if !self.is_whole || !self.charset.shows("{", &self.bytes) {
            return Err(Undecodable);
        }
        let text = self.bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.bytes).trim_ascii();
        match serde_json::from_slice(text) {
            Ok(document) => Ok(Some(document)),
            // Too deep, in another charset, or broken: whoever calls it JSON means to say something by it.
            Err(_) if self.is_json && !text.is_empty() => Err(Undecodable),
            Err(_) => Ok(None),
        }
    }
}

impl std::fmt::Debug for BodyText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Text({} bytes, whole: {})", self.bytes.len(), self.is_whole)
    }
}

/// What was done to the body of an answer that has a whole one: the answer to `HEAD` has none, 304 refers to an older
/// one, and a range may leave out just what is looked for (RFC 9110, sections 9.3.2, 15.4.5 and 14.2).
fn codings(answer: &ResponseView<'_>) -> Result<Codings, Undecodable> {
    let is_part = matches!(answer.status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED);
    let none = answer.method == Method::HEAD || answer.status.is_informational();
    let ranges = media_types(answer.headers).any(|kind| kind.eq_ignore_ascii_case(b"multipart/byteranges"));
    if is_part || none || ranges || is_coded_on_the_way(answer.headers) {
        return Err(Undecodable);
    }
    Codings::of(answer.headers)
}

/// Codings of one hop, which HTTP knows beside those of the content, and nobody undoes.
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

/// Without parameters.
fn media_types(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(CONTENT_TYPE).iter();
    lines.filter_map(|line| line.as_bytes().split(|&byte| byte == b';').next()).map(<[u8]>::trim_ascii)
}
