//! Decodes the requests of one HTTP/1 connection (RFC 9112) from its bytes: heads, then bodies piece by piece.
//!
//! httparse splits a head into its parts, and is lenient in places. What two servers could read differently is noted as a
//! [`FramingError`]: in a head, so that the service can answer in the client's format; in a body at once, and no byte
//! behind it is handed out. Nothing of a connection is read after that. `target` checks the parsed head.

mod body;
mod chunk;
mod framing;
mod head;

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;

pub use self::head::{HeadError, MAX_HEAD, MAX_HEADERS, RequestHead};

use self::body::BodyDecoder;
use self::framing::Framing;
use self::head::HeadSearch;

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
    /// Anything but one `chunked`, or any in HTTP/1.0.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// `Content-Length` together with `Transfer-Encoding`.
    #[error("the request is framed twice")]
    TwoFramings,
    /// Anything but one to sixteen hexadecimal digits, or an extension that is too long or has control bytes.
    #[error("the size of a chunk is not a plain number")]
    ChunkSize,
    /// The data of a chunk does not end where its size says.
    #[error("a chunk does not have the length that it declares")]
    ChunkEnd,
    /// A trailer that is not a header, is longer than 1,024 bytes, or is the 33rd.
    #[error("the trailers are not a list of headers")]
    Trailer,
}

/// What a buffer holds of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// A piece.
    Piece(Bytes),
    /// Nothing until more bytes are read.
    NeedsMore,
    /// The end.
    End,
}

/// Decodes the requests of one connection.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    search: HeadSearch,
    /// The end of the next head, once it was found.
    end: Option<usize>,
    body: BodyDecoder,
}

impl RequestDecoder {
    /// The end of the next head; `None` if it is incomplete. To be called when [`has_ended`](Self::has_ended).
    ///
    /// # Errors
    /// As for [`read_head`](Self::read_head).
    pub fn find_head(&mut self, buffer: &[u8]) -> Result<Option<usize>, HeadError> {
        if self.end.is_none() {
            self.end = self.search.find_end(buffer)?;
        }
        Ok(self.end)
    }

    /// Drops a head of this length, and what has come of its body, which has this many bytes.
    pub fn skip_request(&mut self, buffer: &mut BytesMut, head_len: usize, body_len: u64) {
        (self.end, self.search) = (None, HeadSearch::default());
        buffer.advance(head_len);
        let here = usize::try_from(body_len).unwrap_or(usize::MAX).min(buffer.len());
        buffer.advance(here);
        self.body = BodyDecoder::new(Framing::Length(body_len - here as u64));
    }

    /// Takes the next head out of the buffer; `None` if it is incomplete. To be called when [`has_ended`](Self::has_ended).
    ///
    /// # Errors
    /// There is no head that could be answered by a service.
    pub fn read_head(&mut self, buffer: &mut BytesMut) -> Result<Option<RequestHead>, HeadError> {
        let Some(end) = self.find_head(buffer)? else { return Ok(None) };
        self.end = None;
        let fault = std::mem::take(&mut self.search).fault();
        let head = head::parse(buffer.split_to(end).freeze(), fault)?;
        self.body = BodyDecoder::new(head.framing);
        Ok(Some(head))
    }

    /// Takes the next piece of the body out of the buffer.
    ///
    /// # Errors
    /// The first violation in the body; the decoder must not be used after it.
    pub fn read_body(&mut self, buffer: &mut BytesMut) -> Result<BodyPart, FramingError> {
        self.body.decode(buffer)
    }

    /// Whether the last request was read to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.body.has_ended()
    }

    /// The bytes that are left of the body, if its head says so.
    #[must_use]
    pub fn body_left(&self) -> Option<u64> {
        self.body.left()
    }

    /// Whether the body had trailers that were not taken yet.
    #[must_use]
    pub fn has_trailers(&self) -> bool {
        self.body.has_trailers()
    }

    /// The trailers of the body that has ended.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.body.take_trailers()
    }
}

#[cfg(test)]
mod tests;
