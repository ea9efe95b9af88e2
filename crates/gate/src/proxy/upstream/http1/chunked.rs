//! Decodes chunks (RFC 9112, 7.1), byte by byte where it matters.
//!
//! A chunk ends with CR LF and its size has at most 16 digits. Extensions and trailers are bounded; extensions are dropped.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::ResponseError;

/// Where in the chunks a response is.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    state: State,
    /// Bytes of extensions so far, in all chunks.
    extensions: usize,
    trailers: Vec<u8>,
    parsed: HeaderMap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size { size: u64, digits: u8 },
    Blank { size: u64 },
    Extension { size: u64 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastLf,
    End,
}

/// What is found in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A piece of the body.
    Piece(Bytes),
    /// More bytes have to be read.
    NeedsMore,
    /// The body has ended.
    End,
}

impl ChunkDecoder {
    pub(super) fn new() -> Self {
        Self { state: FIRST, extensions: 0, trailers: Vec::new(), parsed: HeaderMap::new() }
    }

    /// Takes the next piece out of the buffer.
    ///
    /// # Errors
    /// The chunks are malformed.
    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Decoded, ResponseError> {
        loop {
            match self.state {
                State::End => return Ok(Decoded::End),
                State::Data { left } if !buffer.is_empty() => {
                    let length = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
                    let left = left - length as u64;
                    self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                    return Ok(Decoded::Piece(buffer.split_to(length).freeze()));
                }
                _ if buffer.is_empty() => return Ok(Decoded::NeedsMore),
                _ => self.step_over_line(buffer)?,
            }
        }
    }

    /// Reads what is between pieces.
    fn step_over_line(&mut self, buffer: &mut BytesMut) -> Result<(), ResponseError> {
        let mut count = 0;
        for &byte in buffer.iter() {
            if matches!(self.state, State::Data { .. } | State::End) {
                break;
            }
            self.state =
                self.next(byte).ok_or(ResponseError::malformed("a chunk is not as RFC 9112 says"))?;
            count += 1;
        }
        bytes::Buf::advance(buffer, count);
        if self.state == State::End { self.parse_trailers() } else { Ok(()) }
    }

    /// The state behind a byte; `None` if it must not are there.
    fn next(&mut self, byte: u8) -> Option<State> {
        Some(match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() && digits < 16 => {
                let digit = char::from(byte).to_digit(16)?;
                State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (State::Size { digits: 0, .. }, _) => return None,
            (State::Size { size, .. } | State::Blank { size }, b' ' | b'\t') => State::Blank { size },
            (State::Size { size, .. } | State::Blank { size }, b';') => State::Extension { size },
            (State::Size { size, .. } | State::Blank { size } | State::Extension { size }, b'\r') => {
                State::SizeEnd { size }
            }
            (State::Extension { size }, _) if byte != b'\n' && self.extensions < MAX_LINES => {
                self.extensions += 1;
                State::Extension { size }
            }
            (State::SizeEnd { size: 0 }, b'\n') => State::TrailerStart,
            (State::SizeEnd { size }, b'\n') => State::Data { left: size },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => FIRST,
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::TrailerStart | State::Trailer, _) if byte != b'\n' && self.trailers.len() < MAX_LINES => {
                self.trailers.push(byte);
                if byte == b'\r' { State::TrailerEnd } else { State::Trailer }
            }
            (State::TrailerEnd, b'\n') => {
                self.trailers.push(byte);
                State::TrailerStart
            }
            (State::LastLf, b'\n') => State::End,
            _ => return None,
        })
    }

    /// The trailers of a body that has ended.
    pub(super) fn take_trailers(&mut self) -> HeaderMap {
        std::mem::take(&mut self.parsed)
    }

    /// Malformed trailers could be the beginning of another response.
    fn parse_trailers(&mut self) -> Result<(), ResponseError> {
        if self.trailers.is_empty() {
            return Ok(());
        }
        let malformed = || ResponseError::malformed("its trailers do not parse");
        self.trailers.extend_from_slice(b"\r\n");
        let mut lines = [httparse::EMPTY_HEADER; MAX_TRAILERS];
        let parsed = httparse::parse_headers(&self.trailers, &mut lines).map_err(|_| malformed())?;
        let httparse::Status::Complete((_, lines)) = parsed else {
            return Err(malformed());
        };
        for line in lines {
            let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| malformed())?;
            let value = HeaderValue::from_bytes(line.value).map_err(|_| malformed())?;
            self.parsed.append(name, value);
        }
        Ok(())
    }
}

const FIRST: State = State::Size { size: 0, digits: 0 };
/// Bytes of extensions, and bytes of trailers.
const MAX_LINES: usize = 16 * 1024;
const MAX_TRAILERS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, and what follows it; `None` if it needs more.
    fn decode(chunks: &str, step: usize) -> Result<Option<(String, String)>, ResponseError> {
        let (mut decoder, mut buffer, mut body) = (ChunkDecoder::new(), BytesMut::new(), Vec::new());
        let mut left = chunks.as_bytes().chunks(step);
        loop {
            match decoder.decode(&mut buffer)? {
                Decoded::Piece(piece) => body.extend_from_slice(&piece),
                Decoded::End => {
                    let rest = [&buffer[..], &left.collect::<Vec<_>>().concat()].concat();
                    return Ok(Some((String::from_utf8(body).unwrap(), String::from_utf8(rest).unwrap())));
                }
                Decoded::NeedsMore => match left.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        for chunks in [
            "5\r\nhello\r\n0\r\n\r\n",
            "2;a=\"b\"\r\nhe\r\n03 \r\nllo\r\n0\r\n\r\n",
            "1\t;x\r\nh\r\n4\r\nello\r\n000\r\nA: b\r\nC:d\r\n\r\n",
            "A\r\nhellohello\r\n0\r\n\r\n",
        ] {
            for step in [1, 2, 3, 100] {
                let (body, rest) = decode(&format!("{chunks}next"), step).unwrap().unwrap();
                assert!(body.starts_with("hello"), "{chunks:?} by {step}");
                assert_eq!(rest, "next");
            }
        }
    }

    #[test]
    fn a_body_that_stops_needs_more() {
        let whole = "3;e\r\nabc\r\n0\r\nA: b\r\n\r\n";
        for length in 0..whole.len() {
            assert!(decode(&whole[..length], 100).unwrap().is_none(), "{length}");
        }
    }

    #[test]
    fn whatever_two_readers_could_read_differently_is_an_error() {
        for chunks in [
            "\r\n",
            " 1\r\na\r\n",
            "x\r\n",
            "0x1\r\n",
            "-1\r\n",
            "+1\r\n",
            ";\r\n",
            "1\na\r\n",
            "1\r\r\na",
            "1\r\nab",
            "1\r\na\n",
            "1 1\r\na\r\n",
            "1;\na\r\n",
            "00000000000000001\r\na\r\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\nA b\r\n\r\n",
            "0\r\n A: b\r\n\r\n",
            "0\r\n\rx",
        ] {
            assert!(decode(chunks, 1).is_err(), "{chunks:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let long = "x".repeat(MAX_LINES + 1);
        assert!(decode(&format!("1;{long}"), 999).is_err());
        assert!(decode(&format!("0\r\n{long}"), 999).is_err());
        let many = format!("1;{}\r\na\r\n", "x".repeat(200)).repeat(100);
        assert!(decode(&many, 999).is_err(), "in all chunks together");
    }
}
