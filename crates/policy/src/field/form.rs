//! Urlencoded fields, of a body or of a query, read as leniently as applications read them.
//!
//! It decodes and compares names, and returns the values of the requested fields. A field has several values where
//! applications differ: `;` separates for some of them, and `%u0061` is a character for some.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::super::urlencoded::{decode, first_byte, readings};
use super::name::FieldName;
use super::{TooManyValues, Values};

/// Adds the values of the fields with these names; scans the text once for all names.
pub(super) fn find(text: &[u8], names: &[FieldName], found: &mut Values) -> Result<(), TooManyValues> {
    if names.is_empty() {
        return Ok(());
    }
    let text = without_mark(text);
    let has_pieces = memchr(b';', text).is_some();
    for field in split(text, b'&') {
        find_in(field, names, found)?;
        if has_pieces && memchr(b';', field).is_some() {
            split(field, b';').try_for_each(|part| find_in(part, names, found))?;
        }
    }
    Ok(())
}

/// A form without prefixes that some readers skip: a byte order mark (iconv-lite in body-parser, `TextDecoder`) and
/// a `?` (`URLSearchParams`, <https://url.spec.whatwg.org/#interface-urlsearchparams>).
fn without_mark(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.strip_prefix(b"?").unwrap_or(text)
}

pub(crate) fn name_and_value(field: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'=', field).unwrap_or(field.len());
    (&field[..end], field.get(end + 1..).unwrap_or_default())
}

pub(crate) fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(separator, text).chain([text.len()]);
    ends.scan(0, move |start, end| text.get(std::mem::replace(start, end + 1)..end))
}

fn find_in(field: &[u8], names: &[FieldName], found: &mut Values) -> Result<(), TooManyValues> {
    // The first byte rules out most names without looking for their ends.
    let is_ruled_out = |first| names.iter().all(|name| name.cannot_begin(first));
    if field.is_empty() || first_byte(field).is_some_and(is_ruled_out) {
        return Ok(());
    }
    let (sent, value) = name_and_value(field);
    if readings(sent).any(|sent| names.iter().any(|name| name.is(&sent))) {
        readings(value).try_for_each(|value| found.add(&value))?;
    }
    Ok(())
}

/// The decodings of a cookie's value: PHP keeps a plus, ASP makes it a blank.
pub(super) fn readings_of_a_cookie(value: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let with_plus = percent_encoding::percent_decode(value).into();
    [Some(with_plus), value.contains(&b'+').then(|| decode(value, false))].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: impl AsRef<[u8]>) -> Vec<String> {
        let mut found = Values::default();
        find(text.as_ref(), &[FieldName::new("log")], &mut found).unwrap();
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
        assert_eq!(find(body.as_bytes(), &[FieldName::new("log")], &mut found), Err(TooManyValues));
        assert_eq!(read("log=a&".repeat(10_000)), ["a"]);
    }

    proptest! {
        #[test]
        fn whatever_was_encoded_is_found(before in "[ -~]{0,9}", value in any::<Vec<u8>>(), after in any::<Vec<u8>>()) {
            let encode = |bytes: &[u8]| {
                percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC).to_string()
            };
            let body = format!("{}&log={}&{}", encode(before.as_bytes()), encode(&value), encode(&after));
            let mut found = Values::default();
            find(body.as_bytes(), &[FieldName::new("log")], &mut found).unwrap();
            prop_assert!(found.iter().any(|known| known == value));
        }
    }
}
