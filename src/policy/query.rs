//! The parameters of a query, read as widely as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; PHP's habits with names are followed (`page[]`
//! is `page`, dots and blanks are underscores). This is for matching only and never for forwarding.

use std::cell::OnceCell;

use memchr::{memchr, memchr2, memchr2_iter};
use smallvec::SmallVec;

use super::canonical::Case;
use super::field::{FieldNames, MAX_NAME_READS, NameKinds, RequestFields};
use super::password_name::sounds_like_a_password;
use super::urlencoded::{DecodedChars, has_wide_letters, readings};

/// A parameter that a pattern names: its folded name, and its value if there has to be that one.
pub(super) type ParameterPattern = (String, Option<String>);

/// Those of some parameters that a query has: read when they are first asked for and then no more.
pub struct QueryParameters<'q, 'a> {
    query: Query<'q, 'a>,
    patterns: &'q [ParameterPattern],
    /// Places in `wanted`, and whether it is there letter for letter.
    matched: OnceCell<Vec<(usize, bool)>>,
}

enum Query<'q, 'a> {
    OfRequest(&'q RequestFields<'a>),
    Alone(&'q str),
}

impl<'q, 'a> QueryParameters<'q, 'a> {
    /// Of this request: these, in alphabetical order.
    pub(super) fn of(sent: &'q RequestFields<'a>, wanted: &'q [ParameterPattern]) -> Self {
        Self { query: Query::OfRequest(sent), patterns: wanted, matched: OnceCell::new() }
    }

    /// Of this query.
    pub(super) fn in_query(query: Option<&'q str>, wanted: &'q [ParameterPattern]) -> Self {
        Self { query: Query::Alone(query.unwrap_or_default()), patterns: wanted, matched: OnceCell::new() }
    }

    /// Whether this one of them is there.
    pub(super) fn fit(&self, parameter: &ParameterPattern, case: Case) -> bool {
        let met = self.matched.get_or_init(|| self.scan_query());
        met.iter().any(|(at, exactly)| {
            (*exactly || case == Case::Insensitive) && self.patterns.get(*at) == Some(parameter)
        })
    }

    fn scan_query(&self) -> Vec<(usize, bool)> {
        match self.query {
            Query::Alone(query) => self.scan_parts(parts(query)),
            Query::OfRequest(sent) => {
                let parts = sent.fields(NameKinds::PARAMETER).flat_map(parts);
                let parts = parts.filter(|(name, _)| sent.could_be(NameKinds::PARAMETER, name.as_bytes()));
                let parts: SmallVec<[_; 4]> = parts.take(MAX_NAME_READS + 1).collect();
                if parts.len() > MAX_NAME_READS {
                    return (0..self.patterns.len()).map(|at| (at, true)).collect();
                }
                self.scan_parts(parts.into_iter())
            }
        }
    }

    fn scan_parts<'p>(&self, parts: impl Iterator<Item = (&'p str, &'p str)>) -> Vec<(usize, bool)> {
        let (mut met, mut folded) = (Vec::new(), String::new());
        let longest = self.patterns.iter().map(|(wanted, _)| wanted.len()).max().unwrap_or_default();
        for (name, value) in parts {
            let ways: &[bool] = if has_wide_letters(name.as_bytes()) { &[false, true] } else { &[false] };
            for &is_wide in ways {
                fold(DecodedChars { rest: name.as_bytes(), is_wide }, longest, &mut folded);
                self.record_match(&folded, value, &mut met);
            }
        }
        met
    }

    fn record_match(&self, name: &str, found: &str, met: &mut Vec<(usize, bool)>) {
        let first = self.patterns.partition_point(|(wanted, _)| **wanted < *name);
        let same =
            self.patterns.iter().enumerate().skip(first).take_while(|(_, (wanted, _))| **wanted == *name);
        for (at, (_, value)) in same {
            let fits = |case| value.as_ref().is_none_or(|value| value_fits(value, found, case));
            match met.iter_mut().find(|(known, _)| *known == at) {
                Some((_, exactly)) => *exactly = *exactly || fits(Case::Sensitive),
                None if fits(Case::Insensitive) => met.push((at, fits(Case::Sensitive))),
                None => {}
            }
        }
    }
}

/// Whether somebody reads this value there, encoded once or twice.
fn value_fits(wanted: &str, sent: &str, case: Case) -> bool {
    readings(sent.as_bytes()).any(|once| {
        is_value(wanted, &once, case)
            || (memchr2(b'%', b'+', &once).is_some()
                && readings(&once).any(|twice| is_value(wanted, &twice, case)))
    })
}

/// A value that is a path (`?q=user/login`) is the same with other slashes around and between its segments.
fn is_value(wanted: &str, found: &[u8], case: Case) -> bool {
    let wanted = wanted.as_bytes();
    if memchr(b'/', wanted).is_none() {
        return case.eq(wanted, found);
    }
    fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
        path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty())
    }
    let (mut wanted, mut found) = (segments(wanted), segments(found));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => break true,
            (Some(wanted), Some(found)) if case.eq(wanted, found) => {}
            _ => break false,
        }
    }
}

/// The whole names of the parameters, as they were sent.
pub(super) fn names(query: &str) -> impl Iterator<Item = &str> {
    parts(query).map(|(name, _)| name)
}

/// Whether there are more parameters than any application takes. PHP, Django and Tomcat read a thousand.
#[must_use]
pub fn is_too_long(query: &str) -> bool {
    separators(query) >= MAX_PARAMETERS
}

/// Whether there are more parameters than passwords are looked for in: then any of them could be one.
#[must_use]
pub fn is_beyond_read(query: &str) -> bool {
    separators(query) > MAX_READ_PARAMETERS
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

/// A parameter's name as PHP and case-insensitive frameworks know it.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let mut folded = String::new();
    fold(name.chars(), usize::MAX, &mut folded);
    folded
}

/// The same, into a text that is there already. No more is read of what is longer than this.
pub(super) fn fold(letters: impl Iterator<Item = char> + Clone, longest: usize, folded: &mut String) {
    folded.clear();
    let mut letters =
        letters.take_while(|letter| *letter != '\0').skip_while(|letter| letter.is_whitespace());
    let mut is_open = false;
    while let Some(letter) = letters.next()
        && folded.len() <= longest
    {
        match letter {
            '[' if !is_open && letters.clone().any(|letter| letter == ']') => return,
            // A bracket that is never closed is a letter that PHP does not allow in a name, and makes an underscore of.
            '[' if !is_open => {
                is_open = true;
                folded.push('_');
            }
            '.' | ' ' => folded.push('_'),
            _ => folded.extend(letter.to_lowercase()),
        }
    }
}

/// Whether a parameter of this name, as it was sent, could hold a password. One that is longer than any name is not read.
pub(super) fn could_be_a_password(sent: &str) -> bool {
    sent.len() > MAX_NAME_LEN || is_read_as(sent.as_bytes(), sounds_like_a_password)
}

/// Whether a name is such a one to some reader who decodes it.
pub(super) fn is_read_as(sent: &[u8], is_such: impl Fn(&str) -> bool) -> bool {
    readings(sent).any(|name| is_such(&String::from_utf8_lossy(&name)))
}

/// Parameters of one query.
const MAX_PARAMETERS: usize = 1000;
/// Bytes of a name in which a password is looked for.
const MAX_NAME_LEN: usize = 256;
/// Of those in which passwords are looked for.
pub(super) const MAX_READ_PARAMETERS: usize = 128;

/// Names of parameters whose values are nobody's business.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateNames(FieldNames);

impl PrivateNames {
    /// Those of the fields that are looked for in a query.
    pub(super) fn of(known: FieldNames) -> Self {
        Self(known)
    }

    pub(super) fn field_names(&self) -> &FieldNames {
        &self.0
    }

    /// Whether a parameter, its name as it was sent, would be read as one of the fields, or sounds like a password.
    #[must_use]
    pub fn contain(&self, sent: &str) -> bool {
        could_be_a_password(sent) || self.0.has(sent.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::urlencoded::decode;
    use super::*;

    fn is_matched(query: &str, name: &str, value: Option<&str>) -> bool {
        let wanted = [(fold_name(name), value.map(str::to_owned))];
        QueryParameters::in_query(Some(query), &wanted).fit(&wanted[0], Case::Insensitive)
    }

    #[test]
    fn names_are_folded_as_php_folds_them() {
        for (query, name, value) in [
            ("p%61ge=login", "page", "login"),
            ("page[]=a&PAGE=b+c", "page", "a"),
            ("page[]=a&PAGE=b+c", "page", "b c"),
            ("page%00x=a", "page", "a"),
            ("do[login=b", "do_login", "b"),
            ("%5Ftask=login", "_task", "login"),
            ("a.b=1;c", "a.b", "1"),
            ("a.b=1;c", "c", ""),
            ("+page=%25%36%31", "page", "a"),
        ] {
            assert!(is_matched(query, name, Some(value)), "{query}");
            assert!(!is_matched(query, name, Some("x")) && !is_matched(query, "x", None), "{query}");
        }
        for query in ["pages=1", "pag=1", "[page]=1", "=page", "page]=1", "x[page]=1"] {
            assert!(!is_matched(query, "page", None), "{query}");
        }
    }

    /// Of the class of L4: classic ASP decodes these, whoever stands before it or not.
    #[test]
    fn names_and_values_in_letters_of_old_asp_are_read() {
        for query in ["%u0070age=login", "page=%u006cogin", "%U0070%61ge=l%u006fgin"] {
            assert!(is_matched(query, "page", Some("login")), "{query}");
        }
    }

    #[test]
    fn broken_encoding_is_read_without_a_panic() {
        assert!(!is_matched("%=%zz&=&%ff=1", "zz", None));
    }

    /// As the whole name is read at once.
    fn folded_slowly(name: &str) -> String {
        let name = name.trim_start().split('\0').next().unwrap();
        let name = match name.split_once('[') {
            Some((array, index)) if index.contains(']') => array.to_owned(),
            Some((front, back)) => format!("{front}_{back}"),
            None => name.to_owned(),
        };
        name.replace(['.', ' '], "_").chars().flat_map(char::to_lowercase).collect()
    }

    proptest! {
        #[test]
        fn a_name_that_is_folded_letter_by_letter_is_folded_as_a_whole(
            name in "([aB_. +\\[\\]\0\u{130}\u{a0}\u{212a}\u{e4}]|%00|%5b|%5D|%20|%c3|%C3%A4|%zz){0,9}",
        ) {
            let mut folded = String::new();
            fold(DecodedChars { rest: name.as_bytes(), is_wide: false }, usize::MAX, &mut folded);
            prop_assert_eq!(folded, folded_slowly(&String::from_utf8_lossy(&decode(name.as_bytes(), false))));
        }
    }
}
