//! All names that some fields have, and which of them stand where: however many there are, what was sent is gone through
//! once, and each name that was sent is folded once.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::HeaderMap;
use memchr::{memchr, memchr2_iter};
use smallvec::SmallVec;

use super::super::attempt::Attempt;
use super::super::cookies;
use super::super::query::MOST_TIMES;
use super::super::urlencoded::{Letters, readings};
use super::filter::{Kinds, NameFilter};
use super::form::{name_and_value, readings_of_a_cookie, split};
use super::name::{Name, ends_a_name, separates};
use super::{Field, TooManyValues, Values};

/// Names of fields, each known by its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Known {
    /// In alphabetical order, so that those that begin alike stand together.
    names: Vec<Name>,
    /// These, and names that others look for in the same query.
    filter: NameFilter,
}

/// Where the names of some fields stand among those that are [`Known`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Places {
    in_query: Vec<usize>,
    in_cookies: Vec<usize>,
}

impl Known {
    pub(in crate::policy) fn of<'f>(fields: impl Iterator<Item = &'f Field>) -> Self {
        let mut names: Vec<Name> = fields.filter_map(Field::in_query).collect();
        names.sort_unstable();
        names.dedup();
        let mut filter = NameFilter::default();
        names.iter().for_each(|name| filter.add(name, Kinds::FIELD));
        Self { names, filter }
    }

    /// The same, and what others look for.
    pub(in crate::policy) fn and<'n>(mut self, kind: Kinds, names: impl Iterator<Item = &'n str>) -> Self {
        names.for_each(|name| self.filter.add(&Name::new(name), kind));
        self
    }

    /// Who could look for a parameter or a cookie of this name; what stands behind a `=` is none of it.
    pub(in crate::policy) fn kinds(&self, sent: &[u8]) -> Kinds {
        self.filter.kinds(sent)
    }

    /// The parts of a query between two `&` in which somebody could find something.
    fn fields_of<'q>(&self, query: &'q str) -> Fields<'q> {
        let (bytes, mut found) = (query.as_bytes(), SmallVec::new());
        let (mut field, mut piece, mut kinds) = (0, 0, Kinds::default());
        for end in memchr2_iter(b'&', b';', bytes).chain([bytes.len()]) {
            kinds |= self.kinds(&bytes[piece..end]);
            let is_piece = piece > field;
            piece = end + 1;
            if bytes.get(end) == Some(&b';') {
                continue;
            }
            if is_piece {
                // To some readers `;` is a letter.
                kinds |= self.kinds(&bytes[field..end]);
            }
            if kinds != Kinds::default() {
                found.push((&query[field..end], std::mem::take(&mut kinds)));
            }
            field = piece;
        }
        found
    }

    pub(in crate::policy) fn places(&self, fields: &[Field]) -> Places {
        let place = |name: Name| self.names.binary_search(&name).ok();
        Places {
            in_query: fields.iter().filter_map(Field::in_query).filter_map(place).collect(),
            in_cookies: fields.iter().filter_map(Field::in_cookies).filter_map(place).collect(),
        }
    }

    /// Whether some reader takes what was sent for one of them.
    pub(super) fn has(&self, sent: &[u8]) -> bool {
        let mut is_one = false;
        self.each(sent, |_| is_one = true);
        is_one
    }

    /// Shows each of them that some reader takes what was sent for; one may come more than once.
    fn each(&self, sent: &[u8], mut show: impl FnMut(usize)) {
        if !self.kinds(sent).has(Kinds::FIELD) {
            return;
        }
        if let Some(Wide) = self.walk(sent, false, &mut show) {
            self.walk(sent, true, &mut show);
        }
    }

    /// Goes through a name letter by letter, as long as some name begins so; says if it could be decoded in another way.
    fn walk(&self, sent: &[u8], is_wide: bool, show: &mut impl FnMut(usize)) -> Option<Wide> {
        let mut letters = Letters { rest: sent, is_wide };
        let mut walk = Walk { alike: &self.names, first: 0, depth: 0, is_separated: false };
        let mut last = None;
        // A name that ends again and again, as in `log[[[`, is found once.
        let mut show = |place| {
            if last.replace(place) != Some(place) {
                show(place);
            }
        };
        let mut wide = None;
        loop {
            // A long name is one of blanks, or it is over soon.
            while let [b'+' | b' ' | b'.' | b'_', rest @ ..] = letters.rest {
                (letters.rest, walk.is_separated) = (rest, true);
            }
            if !is_wide && matches!(letters.rest, [b'%', b'u' | b'U', ..]) {
                wide = Some(Wide);
            }
            let Some(letter) = letters.next() else { break };
            if ends_a_name(letter) {
                walk.place().into_iter().for_each(&mut show);
            }
            walk.push(letter);
            if walk.alike.is_empty() {
                return wide;
            }
        }
        walk.place().into_iter().for_each(&mut show);
        wide
    }
}

/// That `%uXXXX` stands in a name.
struct Wide;

/// The names that begin as what was read so far does, once that is folded.
struct Walk<'k> {
    alike: &'k [Name],
    /// The place of the first of them.
    first: usize,
    depth: usize,
    is_separated: bool,
}

impl Walk<'_> {
    fn push(&mut self, letter: char) {
        if separates(letter) {
            self.is_separated = true;
            return;
        }
        if std::mem::take(&mut self.is_separated) && self.depth > 0 {
            self.narrow(b'_');
        }
        if letter.is_ascii() {
            self.narrow(u8::try_from(letter).unwrap_or_default().to_ascii_lowercase());
            return;
        }
        for lower in letter.to_lowercase() {
            lower.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.narrow(byte));
        }
    }

    fn narrow(&mut self, byte: u8) {
        let at = |name: &Name| name.text().as_bytes().get(self.depth).copied();
        while let [name, others @ ..] = self.alike
            && at(name) < Some(byte)
        {
            self.alike = others;
            self.first += 1;
        }
        while let [others @ .., name] = self.alike
            && at(name) > Some(byte)
        {
            self.alike = others;
        }
        self.depth += 1;
    }

    /// The place of the name that has been read.
    fn place(&self) -> Option<usize> {
        let name = self.alike.first()?;
        (name.text().len() == self.depth).then_some(self.first)
    }
}

/// Which of the [`Known`] names were sent, and with which values.
#[derive(Default)]
struct Found(Vec<Option<Result<Values, TooManyValues>>>);

impl Found {
    /// In these parts of a query.
    fn in_query<'q>(fields: impl Iterator<Item = &'q str>, known: &Known) -> Self {
        let mut found = Self::default();
        let mut times = 0;
        for field in fields.map(str::as_bytes) {
            let mut pieces = if memchr(b';', field).is_some() { Some(split(field, b';')) } else { None };
            let (name, value) = name_and_value(field);
            // The first piece has the name of the whole, unless it has no value.
            let first = match memchr(b';', name) {
                None => pieces.as_mut().and_then(Iterator::next).map(|first| name_and_value(first).1),
                Some(_) => None,
            };
            // One name may be several that are known: a value is decoded once for all.
            let decoded = OnceCell::new();
            let mut is_known = false;
            known.each(name, |place| {
                is_known = true;
                let all = [Some(value), first];
                let read = || all.into_iter().flatten().flat_map(readings).collect::<SmallVec<[_; 4]>>();
                found.add(
                    place,
                    known,
                    decoded.get_or_init(read).iter().map(|value| Cow::Borrowed(&**value)),
                );
            });
            times += usize::from(is_known);
            for piece in pieces.into_iter().flatten() {
                let (name, value) = name_and_value(piece);
                let mut is_known = false;
                known.each(name, |place| {
                    is_known = true;
                    found.add(place, known, readings(value));
                });
                times += usize::from(is_known);
                if times > MOST_TIMES {
                    break;
                }
            }
            if times > MOST_TIMES {
                found.0.fill(Some(Err(TooManyValues)));
                break;
            }
        }
        found
    }

    fn in_cookies(headers: &HeaderMap, known: &Known) -> Self {
        let mut found = Self::default();
        for (name, value) in cookies::pairs(headers) {
            known.each(name, |place| found.add(place, known, readings_of_a_cookie(value)));
        }
        found
    }

    fn add<'v>(&mut self, place: usize, known: &Known, values: impl Iterator<Item = Cow<'v, [u8]>>) {
        if self.0.is_empty() {
            self.0.resize(known.names.len(), None);
        }
        let found = self.0[place].get_or_insert_with(|| Ok(Values::default()));
        // Nothing more is decoded where there are too many.
        if let Ok(so_far) = found
            && let Err(error) = values.into_iter().try_for_each(|value| so_far.add(&value))
        {
            *found = Err(error);
        }
    }

    fn has(&self, places: &[usize]) -> bool {
        places.iter().any(|&place| self.at(place).is_some())
    }

    /// Adds the values of some of them.
    fn give(&self, places: &[usize], values: &mut Values) -> Result<(), TooManyValues> {
        for found in places.iter().filter_map(|&place| self.at(place)) {
            found.as_ref().map_err(|error| *error)?.iter().try_for_each(|value| values.add(value))?;
        }
        Ok(())
    }

    fn at(&self, place: usize) -> Option<&Result<Values, TooManyValues>> {
        self.0.get(place)?.as_ref()
    }
}

/// Parts of a query, and who could find something there.
type Fields<'a> = SmallVec<[(&'a str, Kinds); 4]>;

/// What a request carries for all known fields beside its body: looked for when it is first asked for.
pub(in crate::policy) struct Sent<'a> {
    pub(in crate::policy) attempt: &'a Attempt<'a>,
    known: &'a Known,
    /// The parts of the query in which somebody could find something.
    fields: OnceCell<Fields<'a>>,
    query: OnceCell<Found>,
    cookies: OnceCell<Found>,
}

impl<'a> Sent<'a> {
    pub(in crate::policy) fn with(attempt: &'a Attempt<'a>, known: &'a Known) -> Self {
        let (fields, query, cookies) = Default::default();
        Self { attempt, known, fields, query, cookies }
    }

    /// The parts of the query between two `&` in which these could find something.
    pub(in crate::policy) fn fields(&self, kind: Kinds) -> impl Iterator<Item = &'a str> + Clone {
        let find = || self.known.fields_of(self.attempt.query.unwrap_or_default());
        let found = self.fields.get_or_init(find).iter();
        found.filter(move |(_, kinds)| kinds.has(kind)).map(|(field, _)| *field)
    }

    /// Whether these could look for a cookie or a parameter of this name.
    pub(in crate::policy) fn could_be(&self, kind: Kinds, name: &[u8]) -> bool {
        self.known.kinds(name).has(kind)
    }

    fn query(&self) -> &Found {
        self.query.get_or_init(|| Found::in_query(self.fields(Kinds::FIELD), self.known))
    }

    fn cookies(&self) -> &Found {
        self.cookies.get_or_init(|| Found::in_cookies(self.attempt.headers, self.known))
    }

    /// Whether one of these stands in the query, whatever its value.
    pub(in crate::policy) fn has_in_query(&self, places: &Places) -> bool {
        !places.in_query.is_empty() && self.query().has(&places.in_query)
    }

    /// Whether one of these stands in a cookie, whatever its value.
    pub(in crate::policy) fn has_in_cookies(&self, places: &Places) -> bool {
        !places.in_cookies.is_empty() && self.cookies().has(&places.in_cookies)
    }

    /// Adds what stands in the query.
    pub(super) fn add_query(&self, places: &Places, values: &mut Values) -> Result<(), TooManyValues> {
        if places.in_query.is_empty() { Ok(()) } else { self.query().give(&places.in_query, values) }
    }

    /// Adds what stands in cookies.
    pub(super) fn add_cookies(&self, places: &Places, values: &mut Values) -> Result<(), TooManyValues> {
        if places.in_cookies.is_empty() { Ok(()) } else { self.cookies().give(&places.in_cookies, values) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known(names: &[&str]) -> Known {
        let fields: Vec<Field> = names.iter().map(|name| Field::Form((*name).to_owned())).collect();
        Known::of(fields.iter())
    }

    #[test]
    fn a_query_that_names_known_fields_again_and_again_has_too_many_of_each() {
        let known = known(&["log", "user"]);
        let found = |query: &str| {
            let found = Found::in_query(query.split('&'), &known);
            let mut values = Values::default();
            (found.has(&[1]), found.give(&[0, 1], &mut values).map(|()| values.iter().count()))
        };
        assert_eq!(found(&"a=1&".repeat(900)), (false, Ok(0)));
        assert_eq!(found(&"log=1&".repeat(MOST_TIMES)), (false, Ok(1)));
        for many in ["log=1&", "log=1;", ";log", "user&"] {
            assert_eq!(found(&many.repeat(MOST_TIMES + 1)), (true, Err(TooManyValues)), "{many}");
        }
        // One name, however often it ends.
        for once in ["log[%00%00[%u006cog;log", &format!("log{}", "[%00".repeat(1000))] {
            assert_eq!(found(once), (false, Ok(1)), "{once}");
        }
    }

    proptest! {
        #[test]
        fn one_look_for_all_names_finds_what_a_look_for_each_finds(
            text in "(&|;|=|log|l%6fg|%4cOG|user|%75ser|%u006cog|[+]log|a|%zz|%C4%B0d|\\[|\\]|[.]|%00|%ff|name|1|2|3|4){0,32}",
        ) {
            let names = ["log", "user", "id", "user_name", "user[name][a]", "a"];
            let known = known(&names);
            let found = Found::in_query(text.split('&'), &known);
            for name in names.map(Name::new) {
                let mut wanted = Values::default();
                let wanted = super::super::form::find(text.as_bytes(), std::slice::from_ref(&name), &mut wanted).map(|()| wanted);
                let place = known.names.binary_search(&name).unwrap();
                let mut values = Values::default();
                let given = found.give(&[place], &mut values).map(|()| values);
                prop_assert_eq!(&given, &wanted, "{:?}", name);
                prop_assert_eq!(found.has(&[place]), wanted.map_or(true, |wanted| !wanted.is_empty()), "{:?}", name);
            }
        }

        #[test]
        fn one_look_finds_the_names_that_are_compared_letter_by_letter(
            sent in "([abAB_. \\[\\]%\0\u{130}\u{307}\u{a0}\u{3000}\u{1680}\u{212a}\u{e4}ik]|%u0041|%u00e4|%C3%A4|%c3|%A4|%e2%84%aa|%42|[+]|%5b){0,9}",
        ) {
            let names = ["a", "ab", "a_b", "b_a_b", "k", "i\u{307}", "\u{e4}", "ki", "b", "a\u{fffd}", "a\u{fffd}\u{fffd}"];
            let known = known(&names);
            let mut found = Vec::new();
            known.each(sent.as_bytes(), |place| found.push(place));
            for name in names.map(Name::new) {
                let place = known.names.binary_search(&name).unwrap();
                let is_it = readings(sent.as_bytes()).any(|sent| name.is(&sent));
                prop_assert_eq!(found.contains(&place), is_it, "{:?}", name);
                prop_assert!(known.has(sent.as_bytes()) || !is_it);
            }
        }
    }
}
