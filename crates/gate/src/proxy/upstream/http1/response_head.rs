//! Parses the head of a response, and says where its body ends (RFC 9112, 6.3).
//!
//! Old servers write heads that RFC 9112 lets a recipient take: lines that end with LF alone, several blanks in the first
//! line, folded lines (which become one), and the same length twice. What is ambiguous is refused, with its line.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Response, StatusCode, Version};
use httparse::{ParserConfig, Status};
use hyper::ext::ReasonPhrase;
use memchr::memchr_iter;

use super::ResponseError;
use crate::event::BrokenAnswer;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::proxy::headers::received_name::received_name;
use crate::proxy::upstream::framing::DeclaredFraming;

/// The head of a response.
pub(in crate::proxy::upstream) struct ResponseHead {
    pub(in crate::proxy::upstream) response: Response<()>,
    /// What it was parsed from.
    pub(super) received: ReceivedHead,
    pub(super) framing: BodyFraming,
    /// Whether the upstream keeps the connection open.
    pub(super) keeps_alive: bool,
    /// Whether it has a `WWW-Authenticate`.
    pub(in crate::proxy::upstream) has_challenge: bool,
}

impl ResponseHead {
    /// Hands on an interim response, with its head.
    pub(in crate::proxy::upstream) fn pass_on(self, pass_on: &dyn Fn(Response<()>, ReceivedHead)) {
        pass_on(self.response, self.received);
    }
}

/// Where the body of a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// After this many bytes.
    Length(u64),
    Chunked,
    /// Where the connection does.
    UntilClose,
}

/// Takes a head out of the buffer; `None` if it is incomplete. `searched` is how much of the buffer was looked at before.
///
/// # Errors
/// The head is malformed, ambiguous or longer than 64 KiB.
pub(super) fn take(
    buffer: &mut BytesMut,
    searched: &mut usize,
    method: &Method,
) -> Result<Option<ResponseHead>, ResponseError> {
    let Some(end) = end_of_head(buffer, *searched) else {
        // What is no HTTP is an error at once: the upstream may wait for us now.
        if *searched == 0 {
            check_beginning(buffer)?;
        }
        *searched = buffer.len();
        return if buffer.len() < MAX_HEAD {
            Ok(None)
        } else {
            Err(ResponseError::malformed("its head is too long"))
        };
    };
    *searched = 0;
    let head = buffer.split_to(end).freeze();
    let parsed = match parse(head.clone(), method) {
        Err(_) if has_fold(&head) => parse(unfolded(&head), method),
        parsed => parsed,
    };
    parsed.map(Some)
}

/// The end of the empty line after the headers. Empty lines before the first line are skipped, as httparse does.
fn end_of_head(buffer: &[u8], searched: usize) -> Option<usize> {
    let start = buffer.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    // The last three bytes may be the beginning of the end.
    let from = searched.saturating_sub(3).max(start);
    memchr_iter(b'\n', buffer.get(from..)?).find_map(|at| match buffer.get(from + at + 1..)? {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
    })
}

fn check_beginning(buffer: &[u8]) -> Result<(), ResponseError> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let begun = parser().parse_response_with_uninit_headers(&mut parsed, buffer, &mut lines);
    // A fold is known only when all of it is there.
    match begun {
        Err(error) if !has_fold(buffer) => Err(unparsed(buffer, error)),
        _ => Ok(()),
    }
}

fn parser() -> ParserConfig {
    let mut parser = ParserConfig::default();
    parser.allow_multiple_spaces_in_response_status_delimiters(true);
    parser
}

fn has_fold(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).any(|at| matches!(head.get(at + 1), Some(b' ' | b'\t')))
}

/// A head with one line in place of each folded one (RFC 9112, 5.2), which does not parse. A first line is never
/// continued.
fn unfolded(head: &[u8]) -> Bytes {
    let mut head = head.to_vec();
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    let ends: Vec<usize> = memchr_iter(b'\n', &head[start..]).map(|at| start + at).skip(1).collect();
    for end in ends {
        if matches!(head.get(end + 1), Some(b' ' | b'\t')) {
            head[end] = b' ';
            if head[end - 1] == b'\r' {
                head[end - 1] = b' ';
            }
        }
    }
    head.into()
}

/// The first line that does not parse by itself.
fn unparsed(head: &[u8], error: httparse::Error) -> ResponseError {
    let why = match error {
        httparse::Error::HeaderName => "the name of a header is not valid",
        httparse::Error::HeaderValue => "the value of a header has control bytes",
        httparse::Error::NewLine => "a line ends in the middle",
        httparse::Error::Status => "its first line is not a status line",
        httparse::Error::TooManyHeaders => return ResponseError::malformed("it has more than 256 headers"),
        httparse::Error::Token | httparse::Error::Version => "it is not HTTP/1",
    };
    let is_bad = |(number, line): &(usize, &[u8])| {
        let mut alone = [httparse::EMPTY_HEADER; 1];
        *number > 0 && httparse::parse_headers(&[line, b"\n\n".as_slice()].concat(), &mut alone).is_err()
    };
    let bad = head.split(|byte| *byte == b'\n').enumerate().find(is_bad).map_or(0, |(number, _)| number);
    ResponseError::Malformed(BrokenAnswer { why, line: u16::try_from(bad + 1).ok() })
}

fn parse(head: Bytes, method: &Method) -> Result<ResponseHead, ResponseError> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let status = parser().parse_response_with_uninit_headers(&mut parsed, &head, &mut lines);
    let status = status.map_err(|error| unparsed(&head, error))?;
    if status != Status::Complete(head.len()) {
        return Err(ResponseError::malformed("its head ends in two places"));
    }
    let mut response = Response::new(());
    *response.version_mut() = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    *response.status_mut() = StatusCode::from_u16(parsed.code.unwrap_or_default())
        .map_err(|_| ResponseError::malformed("its status is not valid"))?;
    let reason = parsed.reason.unwrap_or_default();
    if response.status().canonical_reason() != Some(reason)
        && let Ok(reason) = ReasonPhrase::try_from(head.slice_ref(reason.as_bytes()))
    {
        response.extensions_mut().insert(reason);
    }
    let headers = response.headers_mut();
    headers.reserve(parsed.headers.len());
    let (mut declared, mut persistence, mut has_challenge) =
        (DeclaredFraming::None, Persistence::default(), false);
    for line in &*parsed.headers {
        let malformed = || ResponseError::malformed("a header is malformed");
        let name = received_name(line.name.as_bytes()).map_err(|_| malformed())?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(line.value)).map_err(|_| malformed())?;
        let before = declared;
        declared = declared.with(&name, line.value);
        if name == CONNECTION {
            persistence.add(line.value);
        }
        has_challenge |= name == WWW_AUTHENTICATE;
        if name != CONTENT_LENGTH || before != declared {
            headers.append(name, value);
        }
    }
    let framing = body_framing(&response, declared, method)?;
    let keeps_alive = framing != BodyFraming::UntilClose && persistence.keeps_alive(response.version());
    let received = ReceivedHead::new(head.clone(), &head, parsed.headers);
    Ok(ResponseHead { response, received, framing, keeps_alive, has_challenge })
}

fn body_framing(
    response: &Response<()>,
    declared: DeclaredFraming<'_>,
    method: &Method,
) -> Result<BodyFraming, ResponseError> {
    let framing = match declared {
        DeclaredFraming::None => BodyFraming::UntilClose,
        DeclaredFraming::Length(digits) => BodyFraming::Length(length(digits)?),
        DeclaredFraming::Chunked if response.version() == Version::HTTP_10 => {
            return Err(ResponseError::malformed("HTTP/1.0 has no chunks"));
        }
        DeclaredFraming::Chunked => BodyFraming::Chunked,
        DeclaredFraming::Ambiguous => return Err(ResponseError::malformed("its length is ambiguous")),
    };
    let has_body = !response.status().is_informational()
        && !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        && method != Method::HEAD;
    Ok(if has_body { framing } else { BodyFraming::Length(0) })
}

/// The length that a header gives; [`DeclaredFraming`] has looked at its form.
fn length(digits: &[u8]) -> Result<u64, ResponseError> {
    let length = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    length.filter(|length| *length <= MAX_LENGTH).ok_or(ResponseError::malformed("its length is too large"))
}

/// What `Connection` says of the connection.
#[derive(Debug, Clone, Copy, Default)]
struct Persistence {
    says_close: bool,
    says_keep_alive: bool,
}

impl Persistence {
    /// Adds a line.
    fn add(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.says_close |= token.eq_ignore_ascii_case(b"close");
            self.says_keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn keeps_alive(self, version: Version) -> bool {
        !self.says_close && (version != Version::HTTP_10 || self.says_keep_alive)
    }
}

/// Old applications set more than a request may have.
const MAX_HEADERS: usize = 256;
const MAX_HEAD: usize = 64 * 1024;
/// hyper reserves the largest numbers.
const MAX_LENGTH: u64 = u64::MAX - 2;
