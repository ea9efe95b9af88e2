//! The parameters of a query, read as leniently as applications read them.
//!
//! Names and values are decoded once; `&` and `;` both separate; names are read as in PHP (`page[]` is `page`, dots and
//! blanks are underscores). This is for matching only and never for forwarding.

use std::cell::OnceCell;

use memchr::{memchr, memchr2, memchr2_iter};
use smallvec::SmallVec;

use super::canonical::Case;
use super::field::{FieldNames, MAX_NAME_READS, NameKinds, RequestFields};
use super::password_name::is_called_a_password;
use super::urlencoded::{DecodedChars, has_wide_letters, readings};

/// A parameter of a pattern: its folded name, and its value if the pattern requires one.
pub(super) type ParameterPattern = (String, Option<String>);

/// Finds parameters of patterns in a query. The query is scanned once, at the first look-up.
pub struct QueryParameters<'q, 'a> {
    query: Query<'q, 'a>,
    patterns: &'q [ParameterPattern],
    /// Positions in `patterns`, and whether the value matches exactly.
    matched: OnceCell<Vec<(usize, bool)>>,
}

enum Query<'q, 'a> {
    OfRequest(&'q RequestFields<'a>),
    Alone(&'q str),
}

impl<'q, 'a> QueryParameters<'q, 'a> {
    /// Finds `patterns`, in alphabetical order, in a request.
    pub(super) fn of(request: &'q RequestFields<'a>, patterns: &'q [ParameterPattern]) -> Self {
        Self { query: Query::OfRequest(request), patterns, matched: OnceCell::new() }
    }

    /// Finds `patterns`, in alphabetical order, in a query.
    pub(super) fn in_query(query: Option<&'q str>, patterns: &'q [ParameterPattern]) -> Self {
        Self { query: Query::Alone(query.unwrap_or_default()), patterns, matched: OnceCell::new() }
    }

    /// Whether the query has this one of the parameters.
    pub(super) fn fit(&self, parameter: &ParameterPattern, case: Case) -> bool {
        let matched = self.matched.get_or_init(|| self.scan_query());
        matched.iter().any(|(at, exactly)| {
            (*exactly || case == Case::Insensitive) && self.patterns.get(*at) == Some(parameter)
        })
    }

    fn scan_query(&self) -> Vec<(usize, bool)> {
        match self.query {
            Query::Alone(query) => self.scan_parts(parts(query)),
            Query::OfRequest(request) => {
                let parts = request.fields(NameKinds::PARAMETER).flat_map(parts);
                let parts = parts.filter(|(name, _)| request.could_be(NameKinds::PARAMETER, name.as_bytes()));
                let parts: SmallVec<[_; 4]> = parts.take(MAX_NAME_READS + 1).collect();
                if parts.len() > MAX_NAME_READS {
                    return (0..self.patterns.len()).map(|at| (at, true)).collect();
                }
                self.scan_parts(parts.into_iter())
            }
        }
    }

    fn scan_parts<'p>(&self, parts: impl Iterator<Item = (&'p str, &'p str)>) -> Vec<(usize, bool)> {
        let (mut matched, mut folded) = (Vec::new(), String::new());
        let longest = self.patterns.iter().map(|(pattern, _)| pattern.len()).max().unwrap_or_default();
        for (name, value) in parts {
            let widths: &[bool] = if has_wide_letters(name.as_bytes()) { &[false, true] } else { &[false] };
            for &is_wide in widths {
                fold(DecodedChars { rest: name.as_bytes(), is_wide }, longest, &mut folded);
                self.record_match(&folded, value, &mut matched);
            }
        }
        matched
    }

    fn record_match(&self, name: &str, found: &str, matched: &mut Vec<(usize, bool)>) {
        let first = self.patterns.partition_point(|(pattern, _)| **pattern < *name);
        let same =
            self.patterns.iter().enumerate().skip(first).take_while(|(_, (pattern, _))| **pattern == *name);
        for (at, (_, value)) in same {
            let fits = |case| value.as_ref().is_none_or(|value| value_fits(value, found, case));
            match matched.iter_mut().find(|(known, _)| *known == at) {
                Some((_, exactly)) => *exactly = *exactly || fits(Case::Sensitive),
                None if fits(Case::Insensitive) => matched.push((at, fits(Case::Sensitive))),
                None => {}
            }
        }
    }
}

/// Whether an application could read `expected` from a value, encoded once or twice.
fn value_fits(expected: &str, sent: &str, case: Case) -> bool {
    readings(sent.as_bytes()).any(|once| {
        is_value(expected, &once, case)
            || (memchr2(b'%', b'+', &once).is_some()
                && readings(&once).any(|twice| is_value(expected, &twice, case)))
    })
}

/// Whether two values are equal. Paths (`?q=user/login`) are compared by their segments, so that extra slashes do not
/// matter.
fn is_value(expected: &str, found: &[u8], case: Case) -> bool {
    let expected = expected.as_bytes();
    if memchr(b'/', expected).is_none() {
        return case.eq(expected, found);
    }
    fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
        path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty())
    }
    let (mut expected, mut found) = (segments(expected), segments(found));
    loop {
        match (expected.next(), found.next()) {
            (None, None) => break true,
            (Some(expected), Some(found)) if case.eq(expected, found) => {}
            _ => break false,
        }
    }
}

/// The full names of the parameters, as sent.
pub(super) fn names(query: &str) -> impl Iterator<Item = &str> {
    parts(query).map(|(name, _)| name)
}

/// Whether there are more parameters than applications accept. PHP, Django and Tomcat read a thousand.
#[must_use]
pub fn is_too_long(query: &str) -> bool {
    separators(query) >= MAX_PARAMETERS
}

/// Whether there are more parameters than are scanned for passwords: then any of them could be one.
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

/// A parameter's name as PHP and case-insensitive frameworks read it.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let mut folded = String::new();
    fold(name.chars(), usize::MAX, &mut folded);
    folded
}

/// Folds a name into `folded`, and stops when it is longer than `longest` bytes.
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
            // PHP reads an opening bracket without a closing one as an underscore.
            '[' if !is_open => {
                is_open = true;
                folded.push('_');
            }
            '.' | ' ' => folded.push('_'),
            _ => folded.extend(letter.to_lowercase()),
        }
    }
}

/// Whether a parameter with this name, as sent, could hold a password. Overlong names are not read and could.
pub(super) fn could_be_a_password(name: &str) -> bool {
    name.len() > MAX_NAME_LEN || is_read_as(name.as_bytes(), is_called_a_password)
}

/// Whether a urlencoded form has a field that is called a password. It reads names and no values.
#[must_use]
pub fn has_a_password(form: &str) -> bool {
    let names = names(form).take(MAX_READ_PARAMETERS).filter(|name| name.len() <= MAX_NAME_LEN);
    names.into_iter().any(|name| is_read_as(name.as_bytes(), is_called_a_password))
}

/// Whether one of the decodings of a name fulfils the predicate.
pub(super) fn is_read_as(sent: &[u8], is_such: impl Fn(&str) -> bool) -> bool {
    readings(sent).any(|name| is_such(&String::from_utf8_lossy(&name)))
}

/// Parameters of one query at most.
const MAX_PARAMETERS: usize = 1000;
/// Bytes of a name that are scanned for a password at most.
const MAX_NAME_LEN: usize = 256;
/// Parameters that are scanned for passwords at most.
pub(super) const MAX_READ_PARAMETERS: usize = 128;

/// Names of parameters with private values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivateNames(FieldNames);

impl PrivateNames {
    /// The names of the fields that routes read.
    pub(super) fn of(field_names: FieldNames) -> Self {
        Self(field_names)
    }

    pub(super) fn field_names(&self) -> &FieldNames {
        &self.0
    }

    /// Whether a parameter with this name, as sent, is one of the fields or sounds like a password.
    #[must_use]
    pub fn contain(&self, name: &str) -> bool {
        could_be_a_password(name) || self.0.has(name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::urlencoded::decode;
    use super::*;

    fn is_matched(query: &str, name: &str, value: Option<&str>) -> bool {
        let patterns = [(fold_name(name), value.map(str::to_owned))];
        QueryParameters::in_query(Some(query), &patterns).fit(&patterns[0], Case::Insensitive)
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

    /// Similar to L4: classic ASP decodes `%uXXXX`, whatever server is in front of it.
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

    /// Folds the whole name at once, as a reference.
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
