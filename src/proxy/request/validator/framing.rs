//! Request framing by `Content-Length` and `Transfer-Encoding`.
//!
//! It reads these two headers, and skips most others by their first letter.

use memchr::memchr;

use super::FramingError;

/// How the body of a request is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Framing {
    #[default]
    None,
    Length(u64),
    Chunks,
}

impl Framing {
    /// Records a header line, without its CR LF.
    pub(super) fn record(&mut self, line: &[u8]) -> Result<(), FramingError> {
        if let Some(value) = value_of(line, b"content-length") {
            self.record_length(value)
        } else if let Some(value) = value_of(line, b"transfer-encoding") {
            self.record_coding(value)
        } else {
            Ok(())
        }
    }

    fn record_length(&mut self, value: &[u8]) -> Result<(), FramingError> {
        let length = plain_number(value).ok_or(FramingError::ContentLength)?;
        match *self {
            Self::None => *self = Self::Length(length),
            // RFC 9110, 8.6: a recipient may merge identical lengths. One is forwarded.
            Self::Length(known) if known == length => {}
            Self::Length(_) => return Err(FramingError::ContentLength),
            Self::Chunks => return Err(FramingError::TwoFramings),
        }
        Ok(())
    }

    fn record_coding(&mut self, value: &[u8]) -> Result<(), FramingError> {
        match self {
            Self::None if value.eq_ignore_ascii_case(b"chunked") => *self = Self::Chunks,
            Self::None | Self::Chunks => return Err(FramingError::TransferEncoding),
            Self::Length(_) => return Err(FramingError::TwoFramings),
        }
        Ok(())
    }
}

/// Skips complete lines that cannot frame a body by their first letter, and returns the rest of the head.
pub(super) fn skip_other_fields(mut head: &[u8]) -> &[u8] {
    while let Some(first) = head.first()
        && !matches!(first, b'C' | b'c' | b'T' | b't' | b'\r')
        && let Some(end) = memchr(b'\n', head)
        && head[..end].ends_with(b"\r")
    {
        head = &head[end + 1..];
    }
    head
}

/// The trimmed value of a header with this name; empty if the line is too long, which is never a valid framing.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // This byte excludes most other headers.
    if line.get(name.len()) != Some(&b':') {
        return None;
    }
    let (start, value) = line.split_at(name.len());
    let value = || if line.len() > MAX_FRAMING_LEN { b"" } else { trimmed(&value[1..]) };
    start.eq_ignore_ascii_case(name).then(value)
}

/// Trims spaces and tabs (RFC 9110, 5.6.3). `trim_ascii` would trim more.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Digits without a sign, a blank or a leading zero.
fn plain_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > MAX_DIGITS || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        digit.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// The longest line that frames a body, in bytes. Longer ones consist of blanks.
pub(super) const MAX_FRAMING_LEN: usize = 64;

/// Eighteen digits fit in signed 64 bits.
const MAX_DIGITS: usize = 18;
