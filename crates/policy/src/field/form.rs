//! Urlencoded fields, of a body or of a query, read as leniently as applications read them.
//!
//! It decodes and compares names, and returns the values of the requested fields. A field has several values where
//! applications differ: `;` separates for some of them, and `%u0061` is a character for some.

use memchr::memchr2;

use super::super::pairs::name_and_value;
#[cfg(test)]
use super::super::pairs::split;
use super::super::urlencoded::{decode, first_byte, readings};
use super::body_fields::FoundInBody;
use super::encoding::TextEncoding;
use super::filter::FirstBytes;
use super::lookup::FieldNames;

/// Adds the values of all fields; scans the text once. With `encodings`, names and values may also be percent-encoded
/// bytes of these.
pub(super) fn find(text: &[u8], names: &FieldNames, encodings: &[TextEncoding], found: &mut FoundInBody) {
    let mut rest = without_mark(text);
    let reader = FormReader::new(names, encodings);
    // Between `&`. A piece of it is what some readers separate at `;`.
    let (mut field, mut is_piece) = (rest, false);
    loop {
        let end = end_of_piece(rest);
        if !reader.rules_out(rest) {
            reader.read(&rest[..end], found);
        }
        let separator = rest.get(end);
        is_piece |= separator == Some(&b';');
        if separator != Some(&b';') && std::mem::take(&mut is_piece) && !reader.rules_out(field) {
            reader.read(&field[..field.len() - rest.len() + end], found);
        }
        let Some(separator) = separator else { return };
        rest = &rest[end + 1..];
        if *separator == b'&' {
            field = rest;
        }
    }
}

/// The position of the next `&` or `;`. Most names of an attack are short.
fn end_of_piece(text: &[u8]) -> usize {
    let is_end = |byte: &u8| matches!(byte, b'&' | b';');
    let (near, far) = text.split_at(text.len().min(8));
    match near.iter().position(is_end) {
        Some(end) => end,
        None => near.len() + memchr2(b'&', b';', far).unwrap_or(far.len()),
    }
}

struct FormReader<'n> {
    names: &'n FieldNames,
    encodings: &'n [TextEncoding],
    /// The bytes with which a name could begin that is looked up.
    begins: FirstBytes,
}

impl<'n> FormReader<'n> {
    fn new(names: &'n FieldNames, encodings: &'n [TextEncoding]) -> Self {
        let mut begins = names.first_bytes();
        if !encodings.is_empty() {
            let more = |first| encodings.iter().any(|encoding| encoding.could_begin(first, names));
            (0..=u8::MAX).filter(|first| more(*first)).for_each(|first| begins.add(first));
        }
        Self { names, encodings, begins }
    }

    /// Whether the first byte shows that a field has no name that is looked up, without looking for its end.
    fn rules_out(&self, field: &[u8]) -> bool {
        let first = match field.first() {
            None | Some(b'&' | b';' | b'=') => return true,
            Some(_) => first_byte(field),
        };
        first.is_some_and(|first| !self.begins.has(first))
    }

    fn read(&self, field: &[u8], found: &mut FoundInBody) {
        let (sent, value) = name_and_value(field);
        if self.names.is_too_short(sent) {
            return;
        }
        let mut is_named = false;
        self.names.for_each_match(sent, |name| {
            is_named = true;
            for &slot in self.names.in_body().with_name(name) {
                if found.takes_more(slot) {
                    readings(value).for_each(|value| found.add(slot, &value));
                }
            }
        });
        if self.encodings.is_empty() {
            return;
        }
        let sent = decode(sent, false);
        for encoding in self.encodings {
            // Overlong names are not decoded again.
            let is_short = sent.len() <= MAX_NAME_LEN;
            if is_named || (is_short && encoding.names_any(&sent, self.names)) {
                let value = encoding.decode_value(&decode(value, false));
                let Some(value) = value else { continue };
                if is_named {
                    self.names.add_named(&sent, &value, found);
                }
                if is_short {
                    let add = |name: usize| {
                        let slots = self.names.in_body().with_name(name).iter();
                        slots.for_each(|slot| found.add(*slot, &value));
                    };
                    encoding.for_each_name(&sent, self.names, add);
                }
            }
        }
    }
}

/// A form without prefixes that some readers skip: a byte order mark (iconv-lite in body-parser, `TextDecoder`) and
/// a `?` (`URLSearchParams`, <https://url.spec.whatwg.org/#interface-urlsearchparams>).
fn without_mark(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.strip_prefix(b"?").unwrap_or(text)
}

/// Bytes of a name in another encoding at most.
const MAX_NAME_LEN: usize = 256;

/// As [`find`] for one name, letter by letter.
#[cfg(test)]
pub(super) fn slowly(
    text: &[u8],
    name: &super::name::FieldName,
) -> Result<super::Values, super::TooManyValues> {
    let mut found = super::Values::default();
    for field in split(without_mark(text), b'&') {
        for part in std::iter::once(field).chain(split(field, b';')) {
            let (sent, value) = name_and_value(part);
            if !part.is_empty() && readings(sent).any(|sent| name.is(&sent)) {
                readings(value).try_for_each(|value| found.add(&value))?;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Field, TooManyValues, Values};
    use super::*;

    fn find(text: &[u8], name: &str) -> Result<Values, TooManyValues> {
        let field = Field::form(name).unwrap();
        let names = FieldNames::of([&field].into_iter());
        let (mut found, mut values) = (names.in_body().none_found(), Values::default());
        super::find(text, &names, &[], &mut found);
        found.copy_values(&[0], &mut values).map(|()| values)
    }

    fn read(text: impl AsRef<[u8]>) -> Vec<String> {
        let found = find(text.as_ref(), "log").unwrap();
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
        assert_eq!(read("log=a;b"), ["a", "a;b"]);
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
        let body = (0..10_000).map(|number| format!("log={number}&")).collect::<String>();
        assert_eq!(find(body.as_bytes(), "log"), Err(TooManyValues));
        assert_eq!(read("log=a&".repeat(10_000)), ["a"]);
    }

    proptest! {
        #[test]
        fn one_scan_finds_what_a_look_at_each_field_finds(
            text in "(&|;|=|log|l%6fg|%4cOG|%u006cog|[+]log|a|%zz|\\[|\\]|[.]|%00|%ff|1|2|aaaaaaaaa){0,24}",
        ) {
            let name = super::super::name::FieldName::new("log");
            let found = find(text.as_bytes(), "log").map(|found| found.iter().map(<[u8]>::to_vec).collect::<std::collections::BTreeSet<_>>());
            let slow = slowly(text.as_bytes(), &name).map(|found| found.iter().map(<[u8]>::to_vec).collect());
            prop_assert_eq!(found, slow);
        }

        #[test]
        fn whatever_was_encoded_is_found(before in "[ -~]{0,9}", value in any::<Vec<u8>>(), after in any::<Vec<u8>>()) {
            let encode = |bytes: &[u8]| {
                percent_encoding::percent_encode(bytes, percent_encoding::NON_ALPHANUMERIC).to_string()
            };
            let body = format!("{}&log={}&{}", encode(before.as_bytes()), encode(&value), encode(&after));
            let found = find(body.as_bytes(), "log").unwrap();
            prop_assert!(found.iter().any(|known| known == value));
        }
    }
}
