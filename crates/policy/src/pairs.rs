//! Names and values as they are sent, in a form, a query or a cookie.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

use super::urlencoded::decode;

pub(super) fn name_and_value(field: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'=', field).unwrap_or(field.len());
    (&field[..end], field.get(end + 1..).unwrap_or_default())
}

pub(super) fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let ends = memchr_iter(separator, text).chain([text.len()]);
    ends.scan(0, move |start, end| text.get(std::mem::replace(start, end + 1)..end))
}

/// The decodings of a cookie's value: PHP keeps a plus, ASP makes it a blank.
pub(super) fn readings_of_a_cookie(value: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let with_plus = percent_encoding::percent_decode(value).into();
    [Some(with_plus), value.contains(&b'+').then(|| decode(value, false))].into_iter().flatten()
}
