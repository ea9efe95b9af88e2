//! Request framing by `Content-Length` and `Transfer-Encoding`.
//!
//! Two headers are read, and all others are passed over after a look at their first letter.

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
    /// Takes note of a line of the head, without its CR LF.
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
            // RFC 9110, 8.6: the same again may be taken as once, and leaves as one.
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

/// What is left of a head behind whole lines that cannot frame a body. Most cannot, by their first letter.
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

/// The value of a header without the blanks around it, if this is its name; nothing if the line is too long, which no
/// framing is.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    // A look at one byte tells most apart.
    if line.get(name.len()) != Some(&b':') {
        return None;
    }
    let (start, value) = line.split_at(name.len());
    let value = || if line.len() > MAX_FRAMING_LEN { b"" } else { trimmed(&value[1..]) };
    start.eq_ignore_ascii_case(name).then(value)
}

/// Without the blanks that RFC 9110, 5.6.3, allows there, which are fewer than `trim_ascii` takes.
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

/// A line that frames a body is no longer than this; longer ones are blanks.
pub(super) const MAX_FRAMING_LEN: usize = 64;

/// Eighteen digits are more bytes than anybody sends, and fit everybody's signed 64 bits.
const MAX_DIGITS: usize = 18;
