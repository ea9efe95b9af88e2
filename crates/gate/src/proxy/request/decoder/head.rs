//! Finds and parses the head of a request.

use std::mem::MaybeUninit;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use httparse::{ParserConfig, Status};
use memchr::{memchr, memrchr};

use super::FramingError;
use super::framing::Framing;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::headers::received_name::received_name;

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// Method, target, version and headers.
    pub request: Request<()>,
    /// What it was parsed from.
    pub received: ReceivedHead,
    /// The first violation in the head: where the body ends is not known then.
    pub fault: Option<FramingError>,
    pub(super) framing: Framing,
}

/// Why there is no head that a service could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The request line is longer than [`MAX_HEAD`].
    #[error("the request line is too long")]
    LineTooLong,
    /// The head is longer than [`MAX_HEAD`], or has more than [`MAX_HEADERS`] headers.
    #[error("the head is too long")]
    TooLong,
    /// It is not HTTP/1.
    #[error("this is not HTTP/1: {0}")]
    Malformed(&'static str),
}

/// Looks for the end of a head, line by line.
#[derive(Debug, Default)]
pub(super) struct HeadSearch {
    /// Where the line begins that is not complete yet, and how far it was looked at.
    line: usize,
    searched: usize,
    has_first_line: bool,
    empty_lines: u8,
    fault: Option<FramingError>,
}

impl HeadSearch {
    /// The end of the empty line behind the headers; `None` if it has not come.
    pub(super) fn find_end(&mut self, buffer: &[u8]) -> Result<Option<usize>, HeadError> {
        while let Some(at) = memchr(b'\n', buffer.get(self.searched..).unwrap_or_default()) {
            let end = self.searched + at;
            let line = &buffer[self.line..end];
            let text = line.strip_suffix(b"\r").unwrap_or_else(|| {
                self.fault.get_or_insert(FramingError::BareLineFeed);
                line
            });
            (self.line, self.searched) = (end + 1, end + 1);
            match (text.is_empty(), self.has_first_line) {
                (true, true) if self.line <= MAX_HEAD => return Ok(Some(self.line)),
                (true, true) => return Err(HeadError::TooLong),
                (true, false) => self.skip_empty_line(),
                (false, _) => self.has_first_line = true,
            }
        }
        self.searched = buffer.len();
        match buffer.len() > MAX_HEAD {
            true if self.has_first_line => Err(HeadError::TooLong),
            true => Err(HeadError::LineTooLong),
            false => Ok(None),
        }
    }

    fn skip_empty_line(&mut self) {
        self.empty_lines = self.empty_lines.saturating_add(1);
        if self.empty_lines > 1 {
            self.fault.get_or_insert(FramingError::EmptyLines);
        }
    }

    /// The first violation of lines.
    pub(super) fn fault(self) -> Option<FramingError> {
        self.fault
    }
}

/// Parses a complete head. `fault` is a violation that was found in its lines.
pub(super) fn parse(bytes: Bytes, mut fault: Option<FramingError>) -> Result<RequestHead, HeadError> {
    let head = encoded(&bytes).unwrap_or_else(|| bytes.clone());
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let status = ParserConfig::default().parse_request_with_uninit_headers(&mut parsed, &head, &mut lines);
    match status {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(HeadError::Malformed("its head ends in two places")),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLong),
        Err(_) => return Err(HeadError::Malformed("its lines do not parse")),
    }
    let method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes())
        .map_err(|_| HeadError::Malformed("its method is not a token"))?;
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.version_mut() = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    *request.uri_mut() = uri(head.slice_ref(parsed.path.unwrap_or_default().as_bytes()))?;
    let mut framing = Framing::None;
    let headers = request.headers_mut();
    headers.reserve(parsed.headers.len());
    for line in &*parsed.headers {
        let recorded = framing.record(line.name.as_bytes(), line.value);
        fault = fault.or(recorded.err());
        append(headers, &head, line)?;
    }
    if framing == Framing::Chunks && request.version() == Version::HTTP_10 {
        fault = fault.or(Some(FramingError::TransferEncoding));
    }
    if fault.is_some() {
        framing = Framing::None;
    }
    let received = ReceivedHead::new(bytes, &head, parsed.headers);
    Ok(RequestHead { request, received, fault, framing })
}

fn append(headers: &mut HeaderMap, head: &Bytes, line: &httparse::Header<'_>) -> Result<(), HeadError> {
    let malformed = HeadError::Malformed("a header is malformed");
    let name = received_name(line.name.as_bytes()).map_err(|_| malformed)?;
    let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value)).map_err(|_| malformed)?;
    // RFC 9110, 8.6: equal lengths are one; others are a violation.
    if name != CONTENT_LENGTH || !headers.contains_key(CONTENT_LENGTH) {
        headers.append(name, value);
    }
    Ok(())
}

fn uri(target: Bytes) -> Result<Uri, HeadError> {
    // Servers differ in whether a fragment is a part of the path.
    let is_whole = !target.contains(&b'#');
    let uri = is_whole.then(|| Uri::from_maybe_shared(target).ok()).flatten();
    uri.ok_or(HeadError::Malformed("its target is no URI"))
}

/// A head whose first line has such bytes as old clients send, with these percent-encoded, as other servers read them.
fn encoded(head: &Bytes) -> Option<Bytes> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let end = start + memchr(b'\n', &head[start..])?;
    let line = &head[start..end];
    // Without a branch for each byte.
    if !line.iter().fold(false, |found, byte| found | is_tolerated(*byte)) {
        return None;
    }
    let target = start + memchr(b' ', line)?..start + memrchr(b' ', line)?;
    let mut encoded = BytesMut::with_capacity(head.len() + 64);
    encoded.put_slice(&head[..target.start]);
    for &byte in head.get(target.clone())? {
        if is_tolerated(byte) {
            encoded.put_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            encoded.put_u8(byte);
        }
    }
    encoded.put_slice(&head[target.end..]);
    Some(encoded.freeze())
}

/// Bytes that old clients send as they are, and that a [`Uri`] does not take.
fn is_tolerated(byte: u8) -> bool {
    (byte >= 0x80) | (byte == b'"') | (byte == b'<') | (byte == b'>') | (byte == b'`')
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Bytes of a head.
pub const MAX_HEAD: usize = 32 * 1024;
/// Headers of a request.
pub const MAX_HEADERS: usize = 100;
