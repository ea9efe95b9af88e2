//! The content coding of a request's body (RFC 9110, 8.4): frameworks such as aiohttp and Express decode `gzip` and
//! `deflate` before their application sees a form.
//!
//! What two decoders could read differently is [`UndecodableBody`]: several codings, bytes behind the stream, and a
//! `deflate` that is a stream with and without the header of zlib. The bound on the decoded length is left to the caller.

use std::io::Read;

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// A coding of a whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyCoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or without its header RFC 1951.
    Deflate,
}

/// The coding is unknown, or the body is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the coding of the body is not read here")]
pub struct UndecodableBody;

impl BodyCoding {
    /// The coding by the headers; `None` for a body as it is.
    ///
    /// # Errors
    /// Another coding, or several.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, UndecodableBody> {
        let mut lines = headers.get_all(CONTENT_ENCODING).iter();
        let Some(line) = lines.next() else { return Ok(None) };
        let coding = match line.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => None,
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"deflate" => Some(Self::Deflate),
            _ => return Err(UndecodableBody),
        };
        if lines.next().is_some() { Err(UndecodableBody) } else { Ok(coding) }
    }

    /// Decodes a whole body piece by piece. Returns whether that was all: `take` may want no more of it.
    ///
    /// # Errors
    /// The body is not in this coding, or not in this coding alone.
    pub fn decode(self, body: &[u8], mut take: impl FnMut(&[u8]) -> bool) -> Result<bool, UndecodableBody> {
        match self {
            Self::Gzip => read(GzDecoder::new(body), |decoder| decoder.get_ref(), take),
            Self::Deflate if has_zlib_header(body) => {
                let mut length = 0;
                let is_whole = read(
                    ZlibDecoder::new(body),
                    |decoder| decoder.get_ref(),
                    |piece| {
                        length += piece.len();
                        take(piece)
                    },
                )?;
                let mut left = length.max(body.len());
                let raw = read(
                    DeflateDecoder::new(body),
                    |decoder| decoder.get_ref(),
                    |piece| {
                        left = left.saturating_sub(piece.len());
                        left > 0
                    },
                );
                if raw.is_ok() { Err(UndecodableBody) } else { Ok(is_whole) }
            }
            Self::Deflate => read(DeflateDecoder::new(body), |decoder| decoder.get_ref(), take),
        }
    }
}

/// RFC 1950, 2.2.
fn has_zlib_header(body: &[u8]) -> bool {
    matches!(body, [method, flags, ..]
        if method & 0x0f == 8 && (u16::from(*method) * 256 + u16::from(*flags)).is_multiple_of(31))
}

/// Reads a stream to its end, behind which nothing may follow.
fn read<'b, D: Read>(
    mut decoder: D,
    rest: impl Fn(&D) -> &&'b [u8],
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<bool, UndecodableBody> {
    let mut piece = [0; PIECE];
    loop {
        match decoder.read(&mut piece).map_err(|_| UndecodableBody)? {
            0 if rest(&decoder).is_empty() => return Ok(true),
            0 => return Err(UndecodableBody),
            length if take(&piece[..length]) => {}
            _ => return Ok(false),
        }
    }
}

const PIECE: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;

    use super::BodyCoding::{Deflate, Gzip};
    use super::*;

    const FORM: &[u8] = b"user=alice&password=wrong";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn raw(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(coding: BodyCoding, body: &[u8]) -> Result<Vec<u8>, UndecodableBody> {
        let mut bytes = Vec::new();
        let is_whole = coding.decode(body, |piece| {
            bytes.extend_from_slice(piece);
            true
        })?;
        assert!(is_whole);
        Ok(bytes)
    }

    #[test]
    fn a_body_is_decoded_as_frameworks_decode_it() {
        assert_eq!(decoded(Gzip, &gzip(FORM)).as_deref(), Ok(FORM));
        assert_eq!(decoded(Deflate, &zlib(FORM)).as_deref(), Ok(FORM));
        assert_eq!(decoded(Deflate, &raw(FORM)).as_deref(), Ok(FORM));
    }

    #[test]
    fn what_two_decoders_read_differently_is_not_decoded() {
        let two_members = [gzip(b"a=1"), gzip(FORM)].concat();
        let cut = gzip(FORM)[..20].to_vec();
        for (coding, body) in [
            (Gzip, two_members),
            (Gzip, [gzip(FORM), b"&a=1".to_vec()].concat()),
            (Gzip, cut),
            (Gzip, FORM.to_vec()),
            (Gzip, zlib(FORM)),
            (Deflate, FORM.to_vec()),
            (Deflate, [zlib(FORM), vec![0]].concat()),
            (Deflate, both()),
        ] {
            assert_eq!(decoded(coding, &body), Err(UndecodableBody), "{body:x?}");
        }
    }

    /// A stream that ends well with the header of zlib and without: its first four bytes are also a stored block's head.
    fn both() -> Vec<u8> {
        // 78 9c: the header. As raw: a stored block of 0x9c + 256 * length bytes, with the complement behind it.
        let mut found = Vec::new();
        for high in 0..=255_u8 {
            let length = usize::from(u16::from_le_bytes([0x9c, high]));
            let mut body = vec![0x78, 0x9c, high, 0x63, !high];
            body.resize(5 + length, 0);
            body.extend_from_slice(&raw(b"x"));
            if read(DeflateDecoder::new(&*body), |decoder| decoder.get_ref(), |_| true) == Ok(true) {
                found.push(body);
            }
        }
        // What the header of zlib makes of them is another matter; one that it refuses is no test.
        found.into_iter().next().unwrap()
    }

    #[test]
    fn only_one_coding_is_taken() {
        let of = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (CONTENT_ENCODING, HeaderValue::from_static(line)));
            BodyCoding::of(&lines.fold(HeaderMap::new(), |mut headers, (name, value)| {
                headers.append(name, value);
                headers
            }))
        };
        assert_eq!([of(&[]), of(&["identity"]), of(&[""])], [Ok(None); 3]);
        assert_eq!([of(&["gzip"]), of(&[" X-GZIP "])], [Ok(Some(Gzip)); 2]);
        assert_eq!(of(&["deflate"]), Ok(Some(Deflate)));
        for lines in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["identity", "gzip"], &["utf-8"]] {
            assert_eq!(of(lines), Err(UndecodableBody), "{lines:?}");
        }
    }

    #[test]
    fn a_small_body_that_unfolds_to_much_is_stopped() {
        let bomb = gzip(&vec![b'a'; 10_000_000]);
        let mut taken = 0;
        let is_whole = Gzip.decode(&bomb, |piece| {
            taken += piece.len();
            taken < 64 * 1024
        });
        assert_eq!((is_whole, taken), (Ok(false), 64 * 1024));
    }
}
