//! The parameters of a query, read as widely as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; PHP's habits with names are followed (`page[]`
//! is `page`, dots and blanks are underscores). This is for matching only and never for forwarding.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::{memchr, memchr2, memchr2_iter};
use percent_encoding::percent_decode_str;

/// The parameters of a request, read when they are first asked for and then no more.
pub struct Parameters<'q> {
    query: &'q str,
    pairs: OnceCell<Vec<Pair<'q>>>,
}

/// A folded name and a decoded value.
pub type Pair<'q> = (Cow<'q, str>, Cow<'q, str>);

impl<'q> Parameters<'q> {
    /// Of this query.
    #[must_use]
    pub fn of(query: Option<&'q str>) -> Self {
        Self { query: query.unwrap_or_default(), pairs: OnceCell::new() }
    }

    /// Each of them, in the order of the query.
    pub fn pairs(&self) -> &[Pair<'q>] {
        self.pairs.get_or_init(|| pairs(self.query).collect())
    }
}

/// The parameters as (folded name, decoded value), in the order of the query.
pub fn pairs(query: &str) -> impl Iterator<Item = Pair<'_>> {
    parts(query).map(|(name, value)| {
        let name = match decode(name) {
            Cow::Borrowed(name) if is_folded(name) => Cow::Borrowed(name),
            name => Cow::Owned(fold_name(&name)),
        };
        (name, decode(value))
    })
}

/// The whole names of the parameters, decoded and in lower case.
pub fn names(query: &str) -> impl Iterator<Item = Cow<'_, str>> {
    parts(query).map(|(name, _)| match decode(name) {
        Cow::Borrowed(name) if is_folded(name) => Cow::Borrowed(name),
        name => Cow::Owned(name.to_lowercase()),
    })
}

/// Whether there are more parameters than any application takes. PHP, Django and Tomcat read a thousand.
#[must_use]
pub fn is_too_long(query: &str) -> bool {
    memchr2_iter(b'&', b';', query.as_bytes()).count() >= MOST_PARAMETERS
}

fn parts(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = memchr2_iter(b'&', b';', query.as_bytes()).chain([query.len()]);
    let parts = ends.scan(0, move |start, end| Some(&query[std::mem::replace(start, end + 1)..end]));
    parts.filter(|part| !part.is_empty()).map(|part| match memchr(b'=', part.as_bytes()) {
        Some(at) => (&part[..at], &part[at + 1..]),
        None => (part, ""),
    })
}

/// Whether folding changes nothing, as for most names.
fn is_folded(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

/// A parameter's name as PHP and case-insensitive frameworks know it.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let name = name.trim_start().split('\0').next().unwrap_or_default();
    // A bracket that is never closed is a letter that PHP does not allow in a name, and makes an underscore of.
    let name = match name.split_once('[') {
        Some((array, index)) if index.contains(']') => Cow::Borrowed(array),
        Some((front, back)) => Cow::Owned(format!("{front}_{back}")),
        None => Cow::Borrowed(name),
    };
    let mut name: String = name.chars().map(|c| if matches!(c, '.' | ' ') { '_' } else { c }).collect();
    if !name.is_ascii() {
        return name.to_lowercase();
    }
    name.make_ascii_lowercase();
    name
}

/// Whether a parameter of this name (in lower case) could hold a password.
#[must_use]
pub fn sounds_like_a_password(name: &str) -> bool {
    name.contains("pass") || name.contains("pwd")
}

/// Percent-decoding with `+` as a blank; what is broken stays as it is.
#[must_use]
pub fn decode(text: &str) -> Cow<'_, str> {
    if memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

/// Parameters of one query.
const MOST_PARAMETERS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_as_php_folds_them() {
        let read = |query| pairs(query).collect::<Vec<_>>();
        assert_eq!(read("p%61ge=login"), [("page".into(), "login".into())]);
        assert_eq!(read("page[]=a&PAGE=b+c"), [("page".into(), "a".into()), ("page".into(), "b c".into())]);
        assert_eq!(
            read("page%00x=a&do[login=b"),
            [("page".into(), "a".into()), ("do_login".into(), "b".into())]
        );
        assert_eq!(read("a.b=1;c"), [("a_b".into(), "1".into()), ("c".into(), "".into())]);
    }

    #[test]
    fn broken_encoding_is_read_without_a_panic() {
        assert_eq!(pairs("%=%zz&=&%ff=1").count(), 3);
    }
}
