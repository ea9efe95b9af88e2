//! The parameters of a query, read as widely as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; PHP's habits with names are followed (`page[]`
//! is `page`, dots and blanks are underscores). This is for matching only and never for forwarding.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::{memchr, memchr2, memchr2_iter};

use super::matcher::Case;
use super::password_name::sounds_like_a_password;
use super::urlencoded::{self, first_byte};

/// A parameter that a pattern names: its folded name, and its value if there has to be that one.
pub(super) type Wanted = (String, Option<String>);

/// Those of some parameters that a query has: read when they are first asked for and then no more.
pub struct Parameters<'q> {
    query: &'q str,
    wanted: &'q [Wanted],
    /// Places in `wanted`, and whether it is there letter for letter.
    met: OnceCell<Vec<(usize, bool)>>,
}

/// A folded name and a decoded value.
pub type Pair<'q> = (Cow<'q, str>, Cow<'q, str>);

impl<'q> Parameters<'q> {
    /// Of this query: these, in alphabetical order.
    pub(super) fn of(query: Option<&'q str>, wanted: &'q [Wanted]) -> Self {
        Self { query: query.unwrap_or_default(), wanted, met: OnceCell::new() }
    }

    /// Whether this one of them is there.
    pub(super) fn fit(&self, parameter: &Wanted, case: Case) -> bool {
        let met = self.met.get_or_init(|| self.look());
        met.iter().any(|(at, exactly)| {
            (*exactly || case == Case::Insensitive) && self.wanted.get(*at) == Some(parameter)
        })
    }

    fn look(&self) -> Vec<(usize, bool)> {
        let mut met: Vec<(usize, bool)> = Vec::new();
        for (name, found) in parts(self.query).filter(|(name, _)| self.could_be(name)) {
            let (name, found) = (folded(name), decode(found));
            let first = self.wanted.partition_point(|(wanted, _)| **wanted < *name);
            let same =
                self.wanted.iter().enumerate().skip(first).take_while(|(_, (wanted, _))| **wanted == *name);
            for (at, (_, value)) in same {
                let fits = |case| value.as_ref().is_none_or(|value| value_fits(value, &found, case));
                match met.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, exactly)) => *exactly = *exactly || fits(Case::Sensitive),
                    None if fits(Case::Insensitive) => met.push((at, fits(Case::Sensitive))),
                    None => {}
                }
            }
        }
        met
    }

    /// Nothing is decoded to tell that a name is none of them.
    fn could_be(&self, sent: &str) -> bool {
        let first = first_byte(sent.as_bytes()).map(|first| first.to_ascii_lowercase());
        first.is_none_or(|first| {
            !first.is_ascii_alphanumeric()
                || self.wanted.iter().any(|(wanted, _)| wanted.bytes().next() == Some(first))
        })
    }
}

/// A value that is a path (`?q=user/login`) is the same with other slashes around and between its segments.
fn value_fits(wanted: &str, found: &str, case: Case) -> bool {
    let fits = |found: &str| match memchr(b'/', wanted.as_bytes()) {
        Some(_) => {
            let segments = |path| str::split(path, '/').filter(|segment| !segment.is_empty());
            let (mut wanted, mut found) = (segments(wanted), segments(found));
            loop {
                match (wanted.next(), found.next()) {
                    (None, None) => break true,
                    (Some(wanted), Some(found)) if case.eq(wanted.as_bytes(), found.as_bytes()) => {}
                    _ => break false,
                }
            }
        }
        None => case.eq(wanted.as_bytes(), found.as_bytes()),
    };
    let is_encoded = memchr2(b'%', b'+', found.as_bytes()).is_some();
    fits(found) || (is_encoded && fits(&decode(found)))
}

/// The parameters as (folded name, decoded value), in the order of the query.
pub fn pairs(query: &str) -> impl Iterator<Item = Pair<'_>> {
    parts(query).map(|(name, value)| (folded(name), decode(value)))
}

fn folded(sent: &str) -> Cow<'_, str> {
    match decode(sent) {
        Cow::Borrowed(name) if is_folded(name) => Cow::Borrowed(name),
        name => Cow::Owned(fold_name(&name)),
    }
}

/// The whole names of the parameters, as they were sent.
pub(super) fn names(query: &str) -> impl Iterator<Item = &str> {
    parts(query).map(|(name, _)| name)
}

/// Whether there are more parameters than any application takes. PHP, Django and Tomcat read a thousand.
#[must_use]
pub fn is_too_long(query: &str) -> bool {
    separators(query) >= MOST_PARAMETERS
}

/// Whether there are more parameters than passwords are looked for in: then any of them could be one.
#[must_use]
pub fn is_unread(query: &str) -> bool {
    separators(query) > MOST_READ
}

fn separators(query: &str) -> usize {
    query.bytes().map(|byte| usize::from((byte == b'&') | (byte == b';'))).sum()
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

/// Whether a parameter of this name, as it was sent, could hold a password. One that is longer than any name is not read.
pub(super) fn could_be_a_password(sent: &str) -> bool {
    sent.len() > LONGEST_NAME || sounds_like_a_password(&decode(sent))
}

/// The name of a cookie, decoded.
pub(super) fn decoded(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(name) => decode(name),
        Err(_) => String::from_utf8_lossy(name),
    }
}

/// Percent-decoding with `+` as a blank; what is broken stays as it is.
#[must_use]
pub fn decode(text: &str) -> Cow<'_, str> {
    match urlencoded::decode(text.as_bytes(), false) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
    }
}

/// Parameters of one query.
const MOST_PARAMETERS: usize = 1000;
/// Bytes of a name in which a password is looked for.
const LONGEST_NAME: usize = 256;
/// Of those in which passwords are looked for.
pub(super) const MOST_READ: usize = 128;

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
