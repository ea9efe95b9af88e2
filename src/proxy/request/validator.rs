//! The request validator: reads the bytes beside hyper and reports the first request that two servers could read
//! differently.
//!
//! hyper accepts lines that end in a bare line feed, `Content-Length: 005`, blanks behind the size of a chunk and more, and
//! what it hands on does not show it any more. A [`Validator`] reads along as the bytes arrive and says which request is the
//! first that two servers could read differently. It changes no byte and knows no header but those that frame a body: what
//! can still be seen after parsing is `target`'s to refuse. The surprising thing: it has to know only clean requests,
//! because after the first fault nothing on the connection counts any more; so where one ends, hyper and the scanner
//! always agree.

mod chunk;
mod framing;

use memchr::memchr;

use self::framing::{Framing, MAX_FRAMING_LEN};

/// Why two servers could read the bytes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A line that does not end in CR LF.
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    /// More empty lines before a request than the one that RFC 9112, 2.2, asks servers to overlook.
    #[error("empty lines before the request")]
    EmptyLines,
    /// Anything but plain digits without a leading zero, or two that differ.
    #[error("the Content-Length is not one plain number")]
    ContentLength,
    /// Anything but one `chunked`.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// The beginning of HTTP/2, which hyper would end the connection for without a word.
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
    /// A trailer that is no header, or one too many.
    #[error("the trailers are not a list of headers")]
    Trailer,
}

/// The first thing that two servers could read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// What it is.
    pub why: FramingError,
    /// The number of the request that has it, from 1.
    pub request: u64,
    /// If hyper must not have all bytes last seen: how many it may have. Of a body these come before the fault.
    pub allowed: Option<usize>,
}

/// Reads along; one for each connection.
#[derive(Debug)]
pub struct Validator {
    next: ValidatorState,
    framing: Framing,
    request: u64,
    /// What has come of a line that is not complete; of a long line of a head only its two ends.
    partial: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValidatorState {
    Line(ExpectedLine),
    /// So many bytes that nobody looks at, and then a line.
    Bytes(u64, ExpectedLine),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedLine {
    /// A request line, which so many empty lines came before.
    Request(u8),
    Field,
    ChunkSize,
    ChunkEnd,
    /// A trailer, which so many others came before, or the end of the body.
    Trailer(u8),
}

impl Validator {
    /// At the beginning of a connection.
    #[must_use]
    pub fn new() -> Self {
        let next = ValidatorState::Line(ExpectedLine::Request(0));
        Self { next, framing: Framing::default(), request: 1, partial: Vec::new() }
    }

    /// The number of the request that is being read, from 1: all before it have come to their ends.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Reads on. After a fault there is nothing to be read any more.
    ///
    /// # Errors
    /// The first thing that two servers could read differently.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.next == ValidatorState::Line(ExpectedLine::Field) && self.partial.is_empty() {
                rest = framing::skip_other_fields(rest);
            }
            rest = match self.next {
                ValidatorState::Bytes(left, then) => self.skip(left, then, rest),
                ValidatorState::Line(line) => self.read_line(line, rest).map_err(|why| {
                    let before = bytes.len() - rest.len();
                    let clean = match line {
                        // The one line makes hyper answer 400.
                        ExpectedLine::Request(_) if why == FramingError::Preface => {
                            Some(before + memchr(b'\n', rest).map_or(0, |end| end + 1))
                        }
                        ExpectedLine::Request(_) | ExpectedLine::Field => None,
                        ExpectedLine::ChunkSize | ExpectedLine::ChunkEnd | ExpectedLine::Trailer(_) => {
                            Some(before)
                        }
                    };
                    Violation { why, request: self.request, allowed: clean }
                })?,
            };
        }
        Ok(())
    }

    fn skip<'a>(&mut self, left: u64, then: ExpectedLine, bytes: &'a [u8]) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        match left.saturating_sub(here as u64) {
            0 => self.expect(then),
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
            ExpectedLine::Trailer(_) if text.is_empty() => self.expect(ExpectedLine::Request(0)),
            ExpectedLine::Trailer(before) => {
                chunk::check_trailer(before, text)?;
                self.next = ValidatorState::Line(ExpectedLine::Trailer(before + 1));
            }
        }
        Ok(())
    }

    fn head_ends(&mut self) {
        match self.framing {
            Framing::None | Framing::Length(0) => self.expect(ExpectedLine::Request(0)),
            Framing::Length(length) => self.next = ValidatorState::Bytes(length, ExpectedLine::Request(0)),
            Framing::Chunks => self.next = ValidatorState::Line(ExpectedLine::ChunkSize),
        }
    }

    fn expect(&mut self, line: ExpectedLine) {
        self.request += u64::from(matches!(line, ExpectedLine::Request(_)));
        self.next = ValidatorState::Line(line);
    }

    /// Keeps what has come of a line until the rest is there; what is known to be wrong already is not waited for.
    fn buffer_partial(&mut self, line: ExpectedLine, piece: &[u8]) -> Result<(), FramingError> {
        let most = match line {
            ExpectedLine::Request(_) | ExpectedLine::Field => MAX_PARTIAL_LINE,
            ExpectedLine::ChunkSize => chunk::MAX_SIZE_LINE_LEN,
            ExpectedLine::ChunkEnd => 1,
            ExpectedLine::Trailer(_) => chunk::MAX_TRAILER_LEN + 1,
        };
        let room = most.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&piece[..room.min(piece.len())]);
        let (true, Some(&last)) = (piece.len() > room, piece.last()) else { return Ok(()) };
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

/// So much of a line of a head tells whether it frames the body, whether that is too long to be read, and how it ends.
const MAX_PARTIAL_LINE: usize = MAX_FRAMING_LEN + 2;

#[cfg(test)]
mod tests;
