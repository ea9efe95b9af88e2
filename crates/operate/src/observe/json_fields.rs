//! The fields of a JSON object in one line, appended to a buffer without a tree in between.
//!
//! Text of a client goes through `escape`. The first field of an object is its writer's own.

use super::escape;
use crate::time::{Span, Time};

/// The value of a field, in whose place there may be `null`.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldText<'a> {
    /// A word or a name.
    Word(Option<&'a str>),
    /// A whole number.
    Count(Option<u32>),
    /// A span in seconds.
    Seconds(Option<Span>),
    /// Whether something is so.
    Is(bool),
}

/// Appends fields.
pub(super) fn fields(line: &mut Vec<u8>, fields: &[(&'static str, FieldText<'_>)]) {
    for &(name, value) in fields {
        if let FieldText::Word(word) = value {
            text(line, name, word.map(str::as_bytes));
            continue;
        }
        key(line, name);
        match value {
            FieldText::Count(Some(count)) => number(line, count),
            FieldText::Seconds(Some(span)) => decimal(line, span, 1_000_000),
            FieldText::Is(is) => put(line, &[if is { "true" } else { "false" }]),
            _ => put(line, &["null"]),
        }
    }
}

/// Appends text that needs no escape.
pub(super) fn put(line: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| line.extend_from_slice(part.as_bytes()));
}

/// Appends a comma and the name of the next field.
pub(super) fn key(line: &mut Vec<u8>, name: &str) {
    put(line, &[",\"", name, "\":"]);
}

/// A field with text; `null` without one.
pub(super) fn text(line: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    key(line, name);
    match value {
        Some(value) => quoted(line, value),
        None => put(line, &["null"]),
    }
}

/// Appends text as a string.
#[inline]
pub(super) fn quoted(line: &mut Vec<u8>, value: &[u8]) {
    line.push(b'"');
    escape::json(value, line);
    line.push(b'"');
}

/// A field with an object of one text.
pub(super) fn member(line: &mut Vec<u8>, object: &'static str, name: &'static str, value: &[u8]) {
    key(line, object);
    put(line, &["{\"", name, "\":"]);
    quoted(line, value);
    line.push(b'}');
}

/// Appends a whole number.
pub(super) fn number(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A span in units of `nanos` thousand nanoseconds, to the thousandth.
pub(super) fn decimal(line: &mut Vec<u8>, span: Span, nanos: u64) {
    let thousandths_of_it = span.as_nanos() / nanos;
    number(line, thousandths_of_it / 1_000);
    line.push(b'.');
    thousandths(line, thousandths_of_it % 1_000);
}

/// A field with the microseconds between two times; `null` without the second.
pub(super) fn moment(line: &mut Vec<u8>, name: &str, from: Time, to: Option<Time>) {
    key(line, name);
    match to {
        Some(to) => decimal(line, to.since(from), 1),
        None => put(line, &["null"]),
    }
}

/// Three digits.
pub(super) fn thousandths(line: &mut Vec<u8>, number: u64) {
    let digit = |divisor: u64| b'0' + u8::try_from(number / divisor % 10).unwrap_or(0);
    line.extend_from_slice(&[digit(100), digit(10), digit(1)]);
}
