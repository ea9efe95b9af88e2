//! Decodes content codings (RFC 9110, section 8.4.1), as far as the first bytes of a body go.
//!
//! Each decoder gets at most [`BodyPrefix::MAX`] bytes and is stopped after as many, which bounds the cost
//! of a body. The beginning of a stream is not an error: it decodes to the text that it contains.

mod zstd;

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use smallvec::SmallVec;

use super::BodyPrefix;

/// The codings of a body, in the order of their application.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Codings(SmallVec<[Coding; 1]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The beginning of a body, decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecodedPrefix<'a> {
    /// At most [`BodyPrefix::MAX`] bytes.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Whether the body is complete.
    pub(super) is_whole: bool,
}

/// The content of a body is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecodable;

impl Codings {
    /// The codings by the headers; [`Undecodable`] if one of them is unknown or there are too many.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Undecodable> {
        let mut codings = SmallVec::new();
        for line in headers.get_all(CONTENT_ENCODING) {
            for name in line.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                match name.to_ascii_lowercase().as_slice() {
                    b"" | b"identity" => {}
                    b"gzip" | b"x-gzip" => codings.push(Coding::Gzip),
                    b"deflate" => codings.push(Coding::Deflate),
                    b"br" => codings.push(Coding::Brotli),
                    b"zstd" => codings.push(Coding::Zstd),
                    _ => return Err(Undecodable),
                }
            }
        }
        if codings.len() <= MAX_CODINGS { Ok(Self(codings)) } else { Err(Undecodable) }
    }

    /// Decodes the beginning of a body. `complete` is whether these bytes are the whole body.
    pub(super) fn decode_prefix<'a>(
        &self,
        bytes: &'a [u8],
        complete: bool,
    ) -> Result<DecodedPrefix<'a>, Undecodable> {
        let mut prefix = DecodedPrefix::cut(Cow::Borrowed(bytes), complete);
        // A server may name its coding for an empty body, too.
        if bytes.is_empty() {
            return Ok(prefix);
        }
        for coding in self.0.iter().rev() {
            prefix = coding.decode_prefix(&prefix)?;
        }
        Ok(prefix)
    }
}

impl<'a> DecodedPrefix<'a> {
    fn cut(mut bytes: Cow<'a, [u8]>, complete: bool) -> Self {
        let is_whole = complete && bytes.len() <= BodyPrefix::MAX;
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = bytes.get(..BodyPrefix::MAX).unwrap_or(bytes),
            Cow::Owned(bytes) => bytes.truncate(BodyPrefix::MAX),
        }
        Self { bytes, is_whole }
    }
}

impl Coding {
    fn decode_prefix<'o>(self, coded: &DecodedPrefix<'_>) -> Result<DecodedPrefix<'o>, Undecodable> {
        let bytes = &*coded.bytes;
        let (decoded, end) = match self {
            Self::Gzip => gunzip(bytes),
            Self::Deflate if has_zlib_header(bytes) => read_decoded(ZlibDecoder::new(bytes)),
            Self::Deflate => read_decoded(DeflateDecoder::new(bytes)),
            Self::Brotli => unbrotli(bytes),
            Self::Zstd => zstd::decode(bytes),
        }?;
        let is_over = end == End::Reached;
        if coded.is_whole && !is_over && decoded.len() <= BodyPrefix::MAX {
            // The body is complete, but its stream does not end: it was cut.
            return Err(Undecodable);
        }
        // After the end of a stream another one may begin.
        Ok(DecodedPrefix::cut(Cow::Owned(decoded), coded.is_whole && is_over))
    }
}

/// Whether a coded stream has its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    Missing,
}

type Decoded = Result<(Vec<u8>, End), Undecodable>;

/// Decodes all members (RFC 1952, section 2.2); ignores bytes after them, as browsers do.
fn gunzip(mut bytes: &[u8]) -> Decoded {
    let mut text = Vec::new();
    loop {
        let mut member = GzDecoder::new(bytes);
        let end = read_decoded_into(&mut text, &mut member)?;
        bytes = member.into_inner();
        if end != End::Reached || text.len() > BodyPrefix::MAX || !begins(bytes, &GZIP_MAGIC) {
            return Ok((text, end));
        }
    }
}

fn read_decoded(mut decoder: impl Read) -> Decoded {
    let mut text = Vec::new();
    let end = read_decoded_into(&mut text, &mut decoder)?;
    Ok((text, end))
}

/// Reads one byte more than the limit, to know whether there is more.
fn read_decoded_into(text: &mut Vec<u8>, decoder: &mut impl Read) -> Result<End, Undecodable> {
    let limit = (BodyPrefix::MAX + 1).saturating_sub(text.len());
    match decoder.take(limit as u64).read_to_end(text) {
        Ok(_) if text.len() > BodyPrefix::MAX => Ok(End::Missing),
        Ok(_) => Ok(End::Reached),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(End::Missing),
        Err(_) => Err(Undecodable),
    }
}

/// Whether `deflate` is the zlib format (RFC 1950), as the RFC demands: about half of the servers send raw deflate
/// instead.
fn has_zlib_header(bytes: &[u8]) -> bool {
    match *bytes {
        [method, flags, ..] => method & 0x0F == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31),
        [method] => method == 0x78,
        [] => false,
    }
}

fn unbrotli(bytes: &[u8]) -> Decoded {
    // Strict: windows beyond RFC 7932 would let a few bytes ask for a gigabyte.
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let mut text = vec![0; BodyPrefix::MAX + 1];
    let (mut left, mut read) = (bytes.len(), 0);
    let (mut available, mut written, mut total) = (text.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut read,
        bytes,
        &mut available,
        &mut written,
        &mut text,
        &mut total,
        &mut state,
    );
    text.truncate(written);
    match result {
        BrotliResult::ResultSuccess => Ok((text, End::Reached)),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok((text, End::Missing)),
        BrotliResult::ResultFailure => Err(Undecodable),
    }
}

/// Whether there are bytes, and they begin with `magic` as far as they go.
fn begins(bytes: &[u8], magic: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().zip(magic).all(|(byte, expected)| byte == expected)
}

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Codings at most: servers use one or two, and each costs a decoder.
const MAX_CODINGS: usize = 4;

#[cfg(test)]
mod tests;
