//! Decodes the body of a request: by its length, or by chunks (RFC 9112, 7.1).

use bytes::{Buf as _, BytesMut};
use http::HeaderMap;
use memchr::memchr;

use super::chunk::{self, MAX_SIZE_LINE_LEN, MAX_TRAILER_LEN};
use super::framing::Framing;
use super::{BodyPart, FramingError};

/// What is left of a body.
#[derive(Debug)]
pub(super) enum BodyDecoder {
    Length(u64),
    Chunks(Box<Chunks>),
}

#[derive(Debug, Default)]
pub(super) struct Chunks {
    next: NextPart,
    trailers: HeaderMap,
    trailer_lines: u8,
}

/// The part of the chunks that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum NextPart {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    Nothing,
}

impl Default for BodyDecoder {
    fn default() -> Self {
        Self::Length(0)
    }
}

impl BodyDecoder {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunks => Self::Chunks(Box::default()),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunks(chunks) => chunks.next == NextPart::Nothing,
        }
    }

    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunks(_) => None,
        }
    }

    pub(super) fn has_trailers(&self) -> bool {
        matches!(self, Self::Chunks(chunks) if !chunks.trailers.is_empty())
    }

    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        let Self::Chunks(chunks) = self else { return None };
        Some(std::mem::take(&mut chunks.trailers)).filter(|trailers| !trailers.is_empty())
    }

    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Result<BodyPart, FramingError> {
        match self {
            Self::Length(0) => Ok(BodyPart::End),
            Self::Length(left) => Ok(take(buffer, left)),
            Self::Chunks(chunks) => chunks.decode(buffer),
        }
    }
}

impl Chunks {
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<BodyPart, FramingError> {
        loop {
            match &mut self.next {
                NextPart::Nothing => return Ok(BodyPart::End),
                NextPart::Data(0) => self.next = NextPart::DataEnd,
                NextPart::Data(left) => return Ok(take(buffer, left)),
                NextPart::Size | NextPart::DataEnd | NextPart::Trailer => {
                    if !self.step_over_line(buffer)? {
                        return Ok(BodyPart::NeedsMore);
                    }
                }
            }
        }
    }

    /// Reads the line that comes next, if it is there.
    fn step_over_line(&mut self, buffer: &mut BytesMut) -> Result<bool, FramingError> {
        let (longest, too_long) = match self.next {
            NextPart::Size => (MAX_SIZE_LINE_LEN, FramingError::ChunkSize),
            NextPart::DataEnd => (1, FramingError::ChunkEnd),
            _ => (MAX_TRAILER_LEN + 1, FramingError::Trailer),
        };
        let Some(end) = memchr(b'\n', &buffer[..buffer.len().min(longest + 1)]) else {
            return if buffer.len() > longest { Err(too_long) } else { Ok(false) };
        };
        let line = buffer[..end].strip_suffix(b"\r").ok_or(FramingError::BareLineFeed)?;
        self.next = match self.next {
            NextPart::Size => match chunk::size(line)? {
                0 => NextPart::Trailer,
                size => NextPart::Data(size),
            },
            NextPart::DataEnd if line.is_empty() => NextPart::Size,
            NextPart::DataEnd => return Err(FramingError::ChunkEnd),
            _ if line.is_empty() => NextPart::Nothing,
            _ => {
                let (name, value) = chunk::trailer(self.trailer_lines, line)?;
                self.trailers.append(name, value);
                self.trailer_lines += 1;
                NextPart::Trailer
            }
        };
        buffer.advance(end + 1);
        Ok(true)
    }
}

/// Takes what has come of `left` bytes.
fn take(buffer: &mut BytesMut, left: &mut u64) -> BodyPart {
    let length = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
    if length == 0 {
        return BodyPart::NeedsMore;
    }
    *left -= length as u64;
    BodyPart::Piece(buffer.split_to(length).freeze())
}
