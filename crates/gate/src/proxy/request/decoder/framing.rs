//! Request framing by `Content-Length` and `Transfer-Encoding`.
//!
//! Only these two headers are read.

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
    /// Records a header, with its value trimmed. A value that is far behind its name counts as empty.
    pub(super) fn record(&mut self, name: &[u8], value: &[u8]) -> Result<(), FramingError> {
        let value = if distance(name, value) > MAX_FRAMING_LEN { b"" } else { value };
        // The length of the name excludes most other headers.
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => self.record_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.record_coding(value),
            _ => Ok(()),
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

/// Bytes from the beginning of a name to that of its value, in the same line.
fn distance(name: &[u8], value: &[u8]) -> usize {
    value.as_ptr().addr().saturating_sub(name.as_ptr().addr())
}

/// Trims spaces and tabs (RFC 9110, 5.6.3). `trim_ascii` would trim more.
pub(super) fn trimmed(mut value: &[u8]) -> &[u8] {
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

/// Longer lines that frame a body consist of blanks.
const MAX_FRAMING_LEN: usize = 64;

/// Eighteen digits fit in signed 64 bits.
const MAX_DIGITS: usize = 18;
