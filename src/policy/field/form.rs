//! Urlencoded fields, of a body or of a query, read as widely as applications read them.
//!
//! It decodes and compares, and keeps what it was asked for. The surprising thing: a field has several values where
//! readers differ, because `;` separates for some of them, and `%u0061` is a letter to some.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::super::urlencoded::{decode, first_byte, readings};
use super::name::Name;
use super::{TooManyValues, Values};

/// Adds the values of the fields with these names: a long text is gone through once for all of them.
pub(super) fn find(text: &[u8], names: &[Name], found: &mut Values) -> Result<(), TooManyValues> {
    if names.is_empty() {
        return Ok(());
    }
    for field in split(without_mark(text), b'&') {
        find_in(field, names, found)?;
        if memchr(b';', field).is_some() {
            split(field, b';').try_for_each(|part| find_in(part, names, found))?;
        }
    }
    Ok(())
}

/// A form without what some readers skip at its beginning: a byte order mark (iconv-lite in body-parser, `TextDecoder`) and
/// a `?` (`URLSearchParams`, <https://url.spec.whatwg.org/#interface-urlsearchparams>).
fn without_mark(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.strip_prefix(b"?").unwrap_or(text)
}

pub(super) fn name_and_value(field: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'=', field).unwrap_or(field.len());
    (&field[..end], field.get(end + 1..).unwrap_or_default())
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
fn is_one_of(sent: &[u8], names: &[Name]) -> bool {
    // Nothing more is decoded to tell that it is none of them.
    if first_byte(sent).is_some_and(|first| names.iter().all(|name| name.cannot_begin(first))) {
        return false;
    }
    readings(sent).any(|sent| names.iter().any(|name| name.is(&sent)))
}

/// The value of a cookie: PHP leaves a plus what it is, ASP makes a blank of it.
pub(super) fn readings_of_a_cookie(value: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let kept = percent_encoding::percent_decode(value).into();
    [Some(kept), value.contains(&b'+').then(|| decode(value, false))].into_iter().flatten()
}

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
        fn whatever_was_encoded_is_found(before in "[ -~]{0,9}", value in any::<Vec<u8>>(), after in any::<Vec<u8>>()) {
            let encode = |bytes: &[u8]| percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC).to_string();
            let body = format!("{}&log={}&{}", encode(before.as_bytes()), encode(&value), encode(&after));
            let mut found = Values::default();
            find(body.as_bytes(), &[Name::new("log")], &mut found).unwrap();
            prop_assert!(found.iter().any(|known| known == value));
        }
    }
}
