//! Urlencoded fields, of a body or of a query, read as widely as applications read them.
//!
//! It decodes and compares, and keeps what it was asked for. The surprising thing: a field has several values where
//! readers differ, because `;` separates for some of them, and `%u0061` is a letter to some.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};

use super::name::Name;
use super::{TooManyValues, Values};

/// Adds the values of the fields with these names: a long text is gone through once for all of them.
pub(super) fn find(text: &[u8], names: &[Name], found: &mut Values) -> Result<(), TooManyValues> {
    if names.is_empty() {
        return Ok(());
    }
    for field in split(text, b'&') {
        find_in(field, names, found)?;
        if memchr(b';', field).is_some() {
            split(field, b';').try_for_each(|part| find_in(part, names, found))?;
        }
    }
    Ok(())
}

/// Whether one of the fields with these names is there.
pub(super) fn has(text: &[u8], names: &[Name]) -> bool {
    let is = |part: &[u8]| !part.is_empty() && is_one_of(name_and_value(part).0, names);
    !names.is_empty()
        && text
            .split(|byte| *byte == b'&')
            .any(|field| is(field) || (field.contains(&b';') && field.split(|byte| *byte == b';').any(is)))
}

pub(super) fn name_and_value(field: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'=', field).unwrap_or(field.len());
    (&field[..end], field.get(end + 1..).unwrap_or_default())
}

/// Only the fields with these names, each once as it was sent: so that a long text is gone through once, and then no more.
pub(super) fn narrowed(text: &str, names: &[Name]) -> String {
    let is_named = |part: &[u8]| is_one_of(name_and_value(part).0, names);
    let mut kept: Vec<&str> = Vec::new();
    for part in text.split('&') {
        let bytes = part.as_bytes();
        let could_be = is_named(bytes) || (memchr(b';', bytes).is_some() && split(bytes, b';').any(is_named));
        if could_be && !kept.iter().rev().take(LOOKED_BACK).any(|known| *known == part) {
            kept.push(part);
        }
    }
    kept.join("&")
}

pub(super) fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(separator, text).chain([text.len()]);
    ends.scan(0, move |start, end| text.get(std::mem::replace(start, end + 1)..end))
}

fn find_in(field: &[u8], names: &[Name], found: &mut Values) -> Result<(), TooManyValues> {
    if field.is_empty() {
        return Ok(());
    }
    let (sent, value) = name_and_value(field);
    if is_one_of(sent, names) {
        readings(value).try_for_each(|value| found.add(&value))?;
    }
    Ok(())
}

/// Whether some reader takes what was sent for one of these names.
pub(super) fn is_one_of(sent: &[u8], names: &[Name]) -> bool {
    // Nothing more is decoded to tell that it is none of them.
    let first = match sent {
        [b'%', after @ ..] => byte_in_hex(after),
        _ => sent.first().copied(),
    };
    if first.is_some_and(|first| names.iter().all(|name| name.cannot_begin(first))) {
        return false;
    }
    readings(sent).any(|sent| names.iter().any(|name| name.is(&sent)))
}

/// A text as nearly everybody decodes it, and as old ASP and ASP.NET do if that is another.
fn readings(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let wide = memchr_iter(b'%', text).any(|at| matches!(text.get(at + 1), Some(b'u' | b'U')));
    [Some(decode(text, false)), wide.then(|| decode(text, true))].into_iter().flatten()
}

/// The value of a cookie: PHP leaves a plus what it is, ASP makes a blank of it.
pub(super) fn readings_of_a_cookie(value: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let kept = percent_encoding::percent_decode(value).into();
    [Some(kept), value.contains(&b'+').then(|| decode(value, false))].into_iter().flatten()
}

/// Percent-decoding with `+` as a blank; what is broken stays as it is. `wide`: `%uXXXX` is a letter too.
pub(super) fn decode(text: &[u8], wide: bool) -> Cow<'_, [u8]> {
    if memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, if wide { wide_letter(after) } else { None }, byte_in_hex(after)) {
            (b'%', Some(letter), _) => {
                decoded.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &after[5..];
            }
            (b'%', None, Some(value)) => {
                decoded.push(value);
                rest = &after[2..];
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    Cow::Owned(decoded)
}

fn wide_letter(after: &[u8]) -> Option<char> {
    let digits = after.strip_prefix(b"u").or_else(|| after.strip_prefix(b"U"))?;
    char::from_u32(hex(digits, 4)?)
}

fn byte_in_hex(after: &[u8]) -> Option<u8> {
    u8::try_from(hex(after, 2)?).ok()
}

pub(super) fn hex(digits: &[u8], count: usize) -> Option<u32> {
    let digits = digits.get(..count)?.iter();
    digits
        .copied()
        .map(|digit| char::from(digit).to_digit(16))
        .try_fold(0, |sum, digit| Some(sum * 16 + digit?))
}

/// Fields that a field is compared with to leave it out.
const LOOKED_BACK: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: impl AsRef<[u8]>) -> Vec<String> {
        let mut found = Values::default();
        find(text.as_ref(), &[Name::new("log")], &mut found).unwrap();
        found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }

    #[test]
    fn values_are_decoded_once() {
        assert_eq!(read("a=1&log=a+b%2Bc%2525&b=2"), ["a b+c%25"]);
        assert_eq!(read("l%6Fg=%zz%4"), ["%zz%4"]);
        assert_eq!(read("log"), [""]);
        assert_eq!(read("log=a=b"), ["a=b"]);
        assert_eq!(read(b"log=\xe4%e4"), ["\u{fffd}\u{fffd}"]);
        assert_eq!(read("&&=&log2=a&=log"), [""; 0]);
    }

    #[test]
    fn every_value_of_a_duplicated_field_is_found_once() {
        assert_eq!(read("log=a&log[]=b&LOG=c&log=a"), ["a", "b", "c"]);
    }

    #[test]
    fn a_semicolon_separates_and_does_not() {
        assert_eq!(read("log=a;b"), ["a;b", "a"]);
        assert_eq!(read("x=1;log=a"), ["a"]);
        assert_eq!(read("x;log=a&log=b"), ["a", "b"]);
    }

    #[test]
    fn wide_escapes_are_read_as_letters_too() {
        assert_eq!(read("%u006cog=a"), ["a"]);
        assert_eq!(read("log=%u0061dmin"), ["%u0061dmin", "admin"]);
        assert_eq!(read("log=%ud800%u12"), ["%ud800%u12"]);
    }

    #[test]
    fn ten_thousand_fields_are_too_many_and_cost_little() {
        let mut found = Values::default();
        let body = (0..10_000).map(|number| format!("log={number}&")).collect::<String>();
        assert_eq!(find(body.as_bytes(), &[Name::new("log")], &mut found), Err(TooManyValues));
        assert_eq!(read("log=a&".repeat(10_000)), ["a"]);
    }

    proptest! {
        #[test]
        fn a_narrowed_query_has_the_same_values(text in "(&|;|=|log|l%6fg|%4cOG|user|%75ser|%u006cog|[+]log|a|%zz|%C4%B0d){0,30}") {
            let all = ["log", "user", "id"].map(Name::new);
            let narrowed = narrowed(&text, &all);
            for name in all {
                let read = |text: &str| {
                    let mut found = Values::default();
                    find(text.as_bytes(), std::slice::from_ref(&name), &mut found).map(|()| found)
                };
                prop_assert_eq!(read(&narrowed), read(&text), "{}", narrowed);
            }
        }

        #[test]
        fn whatever_was_encoded_is_found(before in "[ -~]{0,9}", value in any::<Vec<u8>>(), after in any::<Vec<u8>>()) {
            let encode = |bytes: &[u8]| percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC).to_string();
            let body = format!("{}&log={}&{}", encode(before.as_bytes()), encode(&value), encode(&after));
            let mut found = Values::default();
            find(body.as_bytes(), &[Name::new("log")], &mut found).unwrap();
            prop_assert!(found.iter().any(|known| known == value));
        }
    }
}
