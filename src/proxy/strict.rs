//! The strict reading of a client's bytes, beside hyper's lenient one.
//!
//! hyper accepts lines that end in a bare line feed, `Content-Length: 005`, blanks behind the size of a chunk and more, and
//! what it hands on does not show it any more. A [`Scanner`] reads along as the bytes arrive and says which request is the
//! first that two servers could read differently. It changes no byte and knows no header but those that frame a body: what
//! can still be seen after parsing is `target`'s to refuse. The surprising thing: it has to know only clean requests,
//! because after the first fault nothing on the connection counts any more; so where one ends, hyper and the scanner
//! always agree.

mod chunk;
mod framing;

use memchr::memchr;

use self::framing::{Framing, LONGEST_FRAMING};

/// Why two servers could read the bytes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclean {
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
pub struct Fault {
    /// What it is.
    pub why: Unclean,
    /// The number of the request that has it, from 1.
    pub request: u64,
    /// If hyper must not have all bytes last seen: how many it may have. Of a body these come before the fault.
    pub clean: Option<usize>,
}

/// Reads along; one for each connection.
#[derive(Debug)]
pub struct Scanner {
    next: Next,
    framing: Framing,
    request: u64,
    /// What has come of a line that is not complete; of a long line of a head only its two ends.
    begun: Vec<u8>,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Line(Line),
    /// So many bytes that nobody looks at, and then a line.
    Bytes(u64, Line),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A request line, which so many empty lines came before.
    Request(u8),
    Field,
    ChunkSize,
    ChunkEnd,
    /// A trailer, which so many others came before, or the end of the body.
    Trailer(u8),
}

impl Scanner {
    /// At the beginning of a connection.
    #[must_use]
    pub fn new() -> Self {
        let next = Next::Line(Line::Request(0));
        Self { next, framing: Framing::default(), request: 1, begun: Vec::new() }
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
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.next == Next::Line(Line::Field) && self.begun.is_empty() {
                rest = framing::behind_other_fields(rest);
            }
            rest = match self.next {
                Next::Bytes(left, then) => self.pass_over(left, then, rest),
                Next::Line(line) => self.read_line(line, rest).map_err(|why| {
                    let before = bytes.len() - rest.len();
                    let clean = match line {
                        // The one line makes hyper answer 400.
                        Line::Request(_) if why == Unclean::Preface => {
                            Some(before + memchr(b'\n', rest).map_or(0, |end| end + 1))
                        }
                        Line::Request(_) | Line::Field => None,
                        Line::ChunkSize | Line::ChunkEnd | Line::Trailer(_) => Some(before),
                    };
                    Fault { why, request: self.request, clean }
                })?,
            };
        }
        Ok(())
    }

    fn pass_over<'a>(&mut self, left: u64, then: Line, bytes: &'a [u8]) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        match left.saturating_sub(here as u64) {
            0 => self.goes_on_with(then),
            left => self.next = Next::Bytes(left, then),
        }
        bytes.get(here..).unwrap_or_default()
    }

    fn read_line<'a>(&mut self, line: Line, bytes: &'a [u8]) -> Result<&'a [u8], Unclean> {
        let Some(end) = memchr(b'\n', bytes) else {
            self.keep(line, bytes)?;
            return Ok(&[]);
        };
        let (text, rest) = (&bytes[..end], &bytes[end + 1..]);
        if self.begun.is_empty() {
            self.understand(line, text)?;
        } else {
            self.keep(line, text)?;
            let text = std::mem::take(&mut self.begun);
            self.understand(line, &text)?;
        }
        Ok(rest)
    }

    fn understand(&mut self, line: Line, text: &[u8]) -> Result<(), Unclean> {
        let Some(text) = text.strip_suffix(b"\r") else { return Err(Unclean::BareLineFeed) };
        match line {
            Line::Field if !text.is_empty() => self.framing.note(text)?,
            Line::Field => self.head_ends(),
            Line::Request(0) if text.is_empty() => self.next = Next::Line(Line::Request(1)),
            Line::Request(_) if text.is_empty() => return Err(Unclean::EmptyLines),
            Line::Request(_) if text.starts_with(b"PRI ") => return Err(Unclean::Preface),
            Line::Request(_) => {
                self.framing = Framing::default();
                self.next = Next::Line(Line::Field);
            }
            Line::ChunkSize => {
                self.next = match chunk::size(text)? {
                    0 => Next::Line(Line::Trailer(0)),
                    size => Next::Bytes(size, Line::ChunkEnd),
                }
            }
            Line::ChunkEnd if text.is_empty() => self.next = Next::Line(Line::ChunkSize),
            Line::ChunkEnd => return Err(Unclean::ChunkEnd),
            Line::Trailer(_) if text.is_empty() => self.goes_on_with(Line::Request(0)),
            Line::Trailer(before) => {
                chunk::check_trailer(before, text)?;
                self.next = Next::Line(Line::Trailer(before + 1));
            }
        }
        Ok(())
    }

    fn head_ends(&mut self) {
        match self.framing {
            Framing::None | Framing::Length(0) => self.goes_on_with(Line::Request(0)),
            Framing::Length(length) => self.next = Next::Bytes(length, Line::Request(0)),
            Framing::Chunks => self.next = Next::Line(Line::ChunkSize),
        }
    }

    fn goes_on_with(&mut self, line: Line) {
        self.request += u64::from(matches!(line, Line::Request(_)));
        self.next = Next::Line(line);
    }

    /// Keeps what has come of a line until the rest is there; what is known to be wrong already is not waited for.
    fn keep(&mut self, line: Line, piece: &[u8]) -> Result<(), Unclean> {
        let most = match line {
            Line::Request(_) | Line::Field => ENDS,
            Line::ChunkSize => chunk::LONGEST_SIZE_LINE,
            Line::ChunkEnd => 1,
            Line::Trailer(_) => chunk::LONGEST_TRAILER + 1,
        };
        let room = most.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&piece[..room.min(piece.len())]);
        let (true, Some(&last)) = (piece.len() > room, piece.last()) else { return Ok(()) };
        match line {
            Line::Request(_) | Line::Field => {
                self.begun.truncate(ENDS - 1);
                self.begun.push(last);
                Ok(())
            }
            Line::ChunkSize => Err(Unclean::ChunkSize),
            Line::ChunkEnd => Err(Unclean::ChunkEnd),
            Line::Trailer(_) => Err(Unclean::Trailer),
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

/// So much of a line of a head tells whether it frames the body, whether that is too long to be read, and how it ends.
const ENDS: usize = LONGEST_FRAMING + 2;

#[cfg(test)]
mod tests;
