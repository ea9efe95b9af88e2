//! The request validator: reads the bytes beside hyper and reports the first request that two servers could read
//! differently.
//!
//! hyper accepts lines that end in a bare line feed, `Content-Length: 005`, blanks behind the size of a chunk and more,
//! and its parsed form does not show them. A [`Validator`] reads the bytes as they arrive. It changes none, and reads
//! no headers but those that frame a body; `target` checks the parsed head. It stops at the first violation, since
//! nothing after it is served. So it only has to follow clean requests, and always agrees with hyper on where they end.

mod chunk;
mod framing;

use memchr::memchr;

use self::framing::{Framing, MAX_FRAMING_LEN};

/// A violation of the framing rules; two servers could read the bytes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A line that does not end in CR LF.
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    /// More empty lines before a request than the one that RFC 9112, 2.2, asks servers to ignore.
    #[error("empty lines before the request")]
    EmptyLines,
    /// Anything but plain digits without a leading zero, or two that differ.
    #[error("the Content-Length is not one plain number")]
    ContentLength,
    /// Anything but one `chunked`.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// The beginning of HTTP/2. hyper would close the connection without a response.
    #[error("this is HTTP/2")]
    Preface,
    /// `Content-Length` beside `Transfer-Encoding`.
    #[error("the request is framed twice")]
    TwoFramings,
    /// Anything but one to sixteen hexadecimal digits, or an extension that is too long or has control bytes.
    #[error("the size of a chunk is not a plain number")]
    ChunkSize,
    /// The data of a chunk does not end where its size says.
    #[error("a chunk is not as long as it says")]
    ChunkEnd,
    /// A trailer that is no header, is longer than 1,024 bytes, or is the 33rd.
    #[error("the trailers are not a list of headers")]
    Trailer,
}

/// The first violation on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The violated rule.
    pub error: FramingError,
    /// The number of the request, from 1.
    pub request: u64,
    /// How many of the bytes last read hyper may get; `None` is all of them. In a body it gets the bytes before the
    /// violation.
    pub allowed: Option<usize>,
}

/// Validates the bytes of one connection.
#[derive(Debug)]
pub struct Validator {
    next: ValidatorState,
    framing: Framing,
    request: u64,
    /// The beginning of an incomplete line; of a long header line only its two ends.
    partial: Vec<u8>,
}

/// The element that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValidatorState {
    Line(ExpectedLine),
    /// A number of bytes to skip, then a line.
    Bytes(u64, ExpectedLine),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedLine {
    /// A request line, after this number of empty lines.
    Request(u8),
    Field,
    ChunkSize,
    ChunkEnd,
    /// A trailer, after this number of others, or the end of the body.
    Trailer(u8),
}

impl Validator {
    /// A validator for a new connection.
    #[must_use]
    pub fn new() -> Self {
        let next = ValidatorState::Line(ExpectedLine::Request(0));
        Self { next, framing: Framing::default(), request: 1, partial: Vec::new() }
    }

    /// The number of the current request, from 1: all requests before it are complete.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Whether all bytes so far belong to complete requests.
    #[must_use]
    pub fn is_between_requests(&self) -> bool {
        self.next == ValidatorState::Line(ExpectedLine::Request(0)) && self.partial.is_empty()
    }

    /// Validates the next bytes. Must not be called after an error.
    ///
    /// # Errors
    /// The first violation.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.next == ValidatorState::Line(ExpectedLine::Field) && self.partial.is_empty() {
                rest = framing::skip_other_fields(rest);
            }
            rest = match self.next {
                ValidatorState::Bytes(left, then) => self.skip(left, then, rest),
                ValidatorState::Line(line) => self.read_line(line, rest).map_err(|error| {
                    let before = bytes.len() - rest.len();
                    let allowed = match line {
                        // This line makes hyper respond with 400.
                        ExpectedLine::Request(_) if error == FramingError::Preface => {
                            Some(before + memchr(b'\n', rest).map_or(0, |end| end + 1))
                        }
                        ExpectedLine::Request(_) | ExpectedLine::Field => None,
                        ExpectedLine::ChunkSize | ExpectedLine::ChunkEnd | ExpectedLine::Trailer(_) => {
                            Some(before)
                        }
                    };
                    Violation { error, request: self.request, allowed }
                })?,
            };
        }
        Ok(())
    }

    fn skip<'a>(&mut self, left: u64, then: ExpectedLine, bytes: &'a [u8]) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        match left.saturating_sub(here as u64) {
            0 => self.expect_line(then),
            left => self.next = ValidatorState::Bytes(left, then),
        }
        bytes.get(here..).unwrap_or_default()
    }

    fn read_line<'a>(&mut self, line: ExpectedLine, bytes: &'a [u8]) -> Result<&'a [u8], FramingError> {
        let Some(end) = memchr(b'\n', bytes) else {
            self.buffer_partial(line, bytes)?;
            return Ok(&[]);
        };
        let (text, rest) = (&bytes[..end], &bytes[end + 1..]);
        if self.partial.is_empty() {
            self.parse_line(line, text)?;
        } else {
            self.buffer_partial(line, text)?;
            let text = std::mem::take(&mut self.partial);
            self.parse_line(line, &text)?;
        }
        Ok(rest)
    }

    fn parse_line(&mut self, line: ExpectedLine, text: &[u8]) -> Result<(), FramingError> {
        let Some(text) = text.strip_suffix(b"\r") else { return Err(FramingError::BareLineFeed) };
        match line {
            ExpectedLine::Field if !text.is_empty() => self.framing.record(text)?,
            ExpectedLine::Field => self.head_ends(),
            ExpectedLine::Request(0) if text.is_empty() => {
                self.next = ValidatorState::Line(ExpectedLine::Request(1))
            }
            ExpectedLine::Request(_) if text.is_empty() => return Err(FramingError::EmptyLines),
            ExpectedLine::Request(_) if text.starts_with(b"PRI ") => return Err(FramingError::Preface),
            ExpectedLine::Request(_) => {
                self.framing = Framing::default();
                self.next = ValidatorState::Line(ExpectedLine::Field);
            }
            ExpectedLine::ChunkSize => {
                self.next = match chunk::size(text)? {
                    0 => ValidatorState::Line(ExpectedLine::Trailer(0)),
                    size => ValidatorState::Bytes(size, ExpectedLine::ChunkEnd),
                }
            }
            ExpectedLine::ChunkEnd if text.is_empty() => {
                self.next = ValidatorState::Line(ExpectedLine::ChunkSize)
            }
            ExpectedLine::ChunkEnd => return Err(FramingError::ChunkEnd),
            ExpectedLine::Trailer(_) if text.is_empty() => self.expect_line(ExpectedLine::Request(0)),
            ExpectedLine::Trailer(before) => {
                chunk::check_trailer(before, text)?;
                self.next = ValidatorState::Line(ExpectedLine::Trailer(before + 1));
            }
        }
        Ok(())
    }

    fn head_ends(&mut self) {
        match self.framing {
            Framing::None | Framing::Length(0) => self.expect_line(ExpectedLine::Request(0)),
            Framing::Length(length) => self.next = ValidatorState::Bytes(length, ExpectedLine::Request(0)),
            Framing::Chunks => self.next = ValidatorState::Line(ExpectedLine::ChunkSize),
        }
    }

    fn expect_line(&mut self, line: ExpectedLine) {
        self.request += u64::from(matches!(line, ExpectedLine::Request(_)));
        self.next = ValidatorState::Line(line);
    }

    /// Buffers an incomplete line. A line that is too long is an error at once.
    fn buffer_partial(&mut self, line: ExpectedLine, piece: &[u8]) -> Result<(), FramingError> {
        let limit = match line {
            ExpectedLine::Request(_) | ExpectedLine::Field => MAX_PARTIAL_LINE,
            ExpectedLine::ChunkSize => chunk::MAX_SIZE_LINE_LEN,
            ExpectedLine::ChunkEnd => 1,
            ExpectedLine::Trailer(_) => chunk::MAX_TRAILER_LEN + 1,
        };
        let free = limit.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..free.min(piece.len())]);
        let (true, Some(&last)) = (piece.len() > free, piece.last()) else { return Ok(()) };
        match line {
            ExpectedLine::Request(_) | ExpectedLine::Field => {
                self.partial.truncate(MAX_PARTIAL_LINE - 1);
                self.partial.push(last);
                Ok(())
            }
            ExpectedLine::ChunkSize => Err(FramingError::ChunkSize),
            ExpectedLine::ChunkEnd => Err(FramingError::ChunkEnd),
            ExpectedLine::Trailer(_) => Err(FramingError::Trailer),
        }
    }
}

impl Default for Validator {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes kept of a header line: enough to see whether it frames the body, whether it is too long, and how it ends.
const MAX_PARTIAL_LINE: usize = MAX_FRAMING_LEN + 2;

#[cfg(test)]
mod tests;
