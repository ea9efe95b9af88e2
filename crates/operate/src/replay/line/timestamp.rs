//! Reads the times of access logs, as nanoseconds since 1970. A time without a zone is taken as UTC.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use crate::time::Time;

/// `20/Nov/2026:23:21:52 +0100`, with or without fractions of a second and zone.
pub(super) fn common(text: &str) -> Option<Time> {
    let (clock, zone) = text.split_once(' ').map_or((text, ""), |(clock, zone)| (clock, zone));
    let bytes = clock.as_bytes();
    let number = |range: std::ops::Range<usize>| digits(bytes.get(range)?);
    let separators = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':')];
    if separators.iter().any(|&(at, byte)| bytes.get(at) != Some(&byte)) {
        return None;
    }
    let month = month(bytes.get(3..6)?)?;
    let small = |range| i8::try_from(number(range)?).ok();
    let year = i16::try_from(number(7..11)?).ok()?;
    let fraction = match bytes.get(20..)? {
        [] => 0,
        [b'.', digits @ ..] => nanos_of(digits)?,
        _ => return None,
    };
    let date_time = DateTime::new(
        year,
        month,
        small(0..2)?,
        small(12..14)?,
        small(15..17)?,
        small(18..20)?.min(59),
        fraction,
    );
    let utc = Offset::UTC.to_timestamp(date_time.ok()?).ok()?;
    to_time(utc.checked_sub(SignedDuration::from_secs(zone_seconds(zone)?)).ok()?)
}

/// RFC 3339, or a number as [`epoch`] reads it, or the form of [`common`].
pub(super) fn any(text: &str) -> Option<Time> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return decimal_epoch(text);
    }
    text.parse::<Timestamp>().ok().and_then(to_time).or_else(|| common(text))
}

/// Time since 1970 in seconds, milliseconds, microseconds or nanoseconds: the size tells, for times from 1973 on. A
/// double has the microsecond.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(super) fn epoch(number: f64) -> Option<Time> {
    let micros = match number {
        n if !n.is_finite() || n < 0.0 => return None,
        n if n < 1e11 => n * 1e6,
        n if n < 1e14 => n * 1e3,
        n if n < 1e17 => n,
        n => n / 1e3,
    };
    Some(Time::from_nanos((micros.round() as u64).saturating_mul(1_000)))
}

/// As [`epoch`], exact to the digit for seconds.
fn decimal_epoch(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() > 11 {
        return epoch(text.parse().ok()?);
    }
    let nanos = u64::try_from(nanos_of(fraction.as_bytes())?).ok()?;
    Some(Time::from_nanos(whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?))
}

/// Up to nine digits after the point.
fn nanos_of(fraction: &[u8]) -> Option<i32> {
    let kept = &fraction[..fraction.len().min(9)];
    let number = if kept.is_empty() { 0 } else { digits(kept)? };
    let scale = 10_u32.pow(9 - u32::try_from(kept.len()).ok()?);
    i32::try_from(number.checked_mul(scale)?).ok()
}

/// `+0100` or `-0330`; nothing is UTC.
fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.as_bytes() {
        [] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let &[a, b, c, d] = rest else { return None };
    let [hours, minutes] = [digits(&[a, b])?, digits(&[c, d])?];
    Some(sign * i64::from(hours * 3600 + minutes * 60))
}

fn to_time(timestamp: Timestamp) -> Option<Time> {
    u64::try_from(timestamp.as_nanosecond()).ok().map(Time::from_nanos)
}

fn digits(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() || bytes.len() > 9 {
        return None;
    }
    bytes
        .iter()
        .try_fold(0, |number: u32, byte| byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0')))
}

fn month(name: &[u8]) -> Option<i8> {
    const NAMES: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let at = NAMES.iter().position(|known| name == &known[..])?;
    i8::try_from(at + 1).ok()
}
