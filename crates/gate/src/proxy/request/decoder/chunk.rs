//! Validates chunk sizes, chunk extensions and trailers.
//!
//! Extensions are not forwarded. They are validated because another server could find a different end of the line in
//! them.

use http::{HeaderName, HeaderValue};

use super::FramingError;
use super::framing::trimmed;

/// The size in `1a` or `1a;extension`, from a line without its CR LF.
pub(super) fn size(line: &[u8]) -> Result<u64, FramingError> {
    if line.len() >= MAX_SIZE_LINE_LEN {
        return Err(FramingError::ChunkSize);
    }
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    let is_plain = (1..=MAX_DIGITS).contains(&digits.len());
    let is_extension = extension.is_empty() || extension[0] == b';' && extension.iter().all(is_text);
    if !is_plain || !is_extension {
        return Err(FramingError::ChunkSize);
    }
    let value = |digit: u8| u64::from(char::from(digit).to_digit(16).unwrap_or(0));
    Ok(digits.iter().fold(0, |size, &digit| (size << 4) | value(digit)))
}

/// A trailer, from a line without its CR LF: a header that is short enough, with fewer than [`MAX_TRAILERS`] before it.
pub(super) fn trailer(before: u8, line: &[u8]) -> Result<(HeaderName, HeaderValue), FramingError> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(FramingError::Trailer)?;
    let (name, value) = (&line[..colon], trimmed(&line[colon + 1..]));
    let is_header = !name.is_empty() && name.iter().all(is_token) && value.iter().all(is_text);
    if !is_header || before >= MAX_TRAILERS || line.len() > MAX_TRAILER_LEN {
        return Err(FramingError::Trailer);
    }
    let header = HeaderName::from_bytes(name).ok().zip(HeaderValue::from_bytes(value).ok());
    header.ok_or(FramingError::Trailer)
}

/// No control byte but the tab.
fn is_text(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// RFC 9110, 5.6.2.
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// The hexadecimal digits of 64 bits.
const MAX_DIGITS: usize = 16;

/// Bytes of digits, an extension and a CR. The longest known extensions are signatures of less than a hundred letters.
pub(super) const MAX_SIZE_LINE_LEN: usize = 272;

pub(super) const MAX_TRAILER_LEN: usize = 1024;

const MAX_TRAILERS: u8 = 32;
