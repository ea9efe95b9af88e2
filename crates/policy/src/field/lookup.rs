//! Looks up the names of all fields together: however many fields there are, each request is scanned once, and each of
//! its names is folded once.
//!
//! It finds names in the query and in cookies; [`body`](super::body) reads bodies, once for all fields as well.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::OnceLock;

use http::HeaderMap;
use memchr::{memchr, memchr2_iter};
use smallvec::SmallVec;

use super::super::attempt::{Attempt, AttemptBody, SearchedBody};
use super::super::cookies;
use super::super::legibility::UnreadableBody;
use super::super::pairs::{name_and_value, readings_of_a_cookie, split};
use super::super::urlencoded::{DecodedChars, readings};
use super::body_fields::{BodyFields, FoundInBody};
use super::filter::{FirstBytes, NameFilter, NameKinds};
use super::name::{FieldName, ends_a_cookies_name, ends_a_name, letters, separates};
use super::{Field, TooManyValues, Values};

/// The names of fields; their positions are slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldNames {
    /// In alphabetical order, so that names with the same beginning are adjacent.
    names: Vec<FieldName>,
    /// A filter of these names and of further names that are looked up in a query.
    filter: NameFilter,
    /// Those of the fields that are looked up in bodies.
    in_body: BodyFields,
}

/// The slots of some fields among [`FieldNames`], and what else is looked up for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSlots {
    in_query: Vec<usize>,
    in_cookies: Vec<usize>,
    /// Positions among [`BodyFields`].
    pub(super) in_body: Vec<usize>,
}

impl FieldNames {
    pub(crate) fn of<'f>(fields: impl Iterator<Item = &'f Field> + Clone) -> Self {
        let mut names: Vec<FieldName> = fields.clone().filter_map(Field::in_query).collect();
        names.sort_unstable();
        names.dedup();
        let mut filter = NameFilter::default();
        names.iter().for_each(|name| filter.add(name, NameKinds::FIELD));
        let in_body = BodyFields::of(fields, &names);
        Self { names, filter, in_body }
    }

    /// The same names, with further names for the filter.
    pub(crate) fn and<'n>(mut self, kind: NameKinds, names: impl Iterator<Item = &'n str>) -> Self {
        names.for_each(|name| self.filter.add(&FieldName::new(name), kind));
        self
    }

    /// The kinds of names that a parameter with this name could be; ignores text after a `=`.
    fn kinds(&self, sent: &[u8]) -> NameKinds {
        self.filter.kinds(sent)
    }

    /// Whether a parameter or a cookie with this name could be of this kind, likewise.
    pub(crate) fn could_be(&self, kind: NameKinds, sent: &[u8]) -> bool {
        self.filter.could_be(kind, sent)
    }

    /// The parts of a query between two `&` that could contain a name of the filter.
    fn fields_of<'q>(&self, query: &'q str) -> Fields<'q> {
        let (bytes, mut found) = (query.as_bytes(), SmallVec::new());
        let (mut field, mut piece, mut kinds) = (0, 0, NameKinds::default());
        for end in memchr2_iter(b'&', b';', bytes).chain([bytes.len()]) {
            kinds |= self.kinds(&bytes[piece..end]);
            let is_piece = piece > field;
            piece = end + 1;
            if bytes.get(end) == Some(&b';') {
                continue;
            }
            if is_piece {
                // Some applications read `;` as a character of the name.
                kinds |= self.kinds(&bytes[field..end]);
            }
            if kinds != NameKinds::default() {
                found.push((&query[field..end], std::mem::take(&mut kinds)));
            }
            field = piece;
        }
        found
    }

    pub(crate) fn slots_for(&self, fields: &[Field]) -> FieldSlots {
        let slot = |name: FieldName| self.names.binary_search(&name).ok();
        FieldSlots {
            in_query: fields.iter().filter_map(Field::in_query).filter_map(slot).collect(),
            in_cookies: fields.iter().filter_map(Field::in_cookies).filter_map(slot).collect(),
            in_body: fields.iter().filter_map(|field| self.in_body.slot_of(field)).collect(),
        }
    }

    pub(super) fn in_body(&self) -> &BodyFields {
        &self.in_body
    }

    /// Whether a name has characters beyond ASCII.
    pub(super) fn has_beyond_ascii(&self) -> bool {
        self.filter.has_beyond_ascii()
    }

    /// Whether each name has an ASCII character that no other character folds to.
    pub(super) fn are_ascii_only(&self) -> bool {
        self.filter.are_ascii_only()
    }

    /// The bytes with which a name that was sent could begin.
    pub(super) fn first_bytes(&self) -> FirstBytes {
        self.filter.first_bytes()
    }

    /// Whether a name that was sent has too few bytes for each of the names, in any encoding.
    pub(super) fn is_too_short(&self, sent: &[u8]) -> bool {
        self.filter.is_too_short(sent)
    }

    /// Whether a name that was sent could be one of the names, as far as its first byte shows.
    pub(super) fn could_begin(&self, first: u8) -> bool {
        self.filter.could_begin(first)
    }

    /// Whether an application could read `sent` as one of the names.
    pub(crate) fn has(&self, sent: &[u8]) -> bool {
        let mut is_one = false;
        self.for_each_match(sent, |_| is_one = true);
        is_one
    }

    /// Calls `callback` with each slot whose name an application could read `sent` as; a slot may come more than once.
    pub(super) fn for_each_match(&self, sent: &[u8], callback: impl FnMut(usize)) {
        self.for_each_until(ends_a_name, sent, callback);
    }

    fn for_each_until(&self, ends: fn(char) -> bool, sent: &[u8], mut callback: impl FnMut(usize)) {
        if !self.could_be(NameKinds::FIELD, sent) {
            return;
        }
        let letters = DecodedChars { rest: sent, is_wide: false };
        if let Some(WideEscape) = self.search(letters, ends, &mut callback) {
            self.search(DecodedChars { rest: sent, is_wide: true }, ends, &mut callback);
        }
    }

    /// The same for a name that is decoded already.
    pub(super) fn for_each_decoded(
        &self,
        letters: impl Iterator<Item = char>,
        mut callback: impl FnMut(usize),
    ) {
        let mut search = PrefixSearch { names_left: &self.names, first: 0, depth: 0, is_separated: false };
        let mut last = None;
        for letter in letters {
            if ends_a_name(letter)
                && let Some(slot) = search.matched_slot()
                && last.replace(slot) != Some(slot)
            {
                callback(slot);
            }
            if self.filter.is_in_no_name(letter) && !separates(letter) {
                return;
            }
            search.push(letter);
            if search.names_left.is_empty() {
                return;
            }
        }
        search.matched_slot().into_iter().filter(|slot| last != Some(*slot)).for_each(callback);
    }

    /// Adds a value to the fields that a decoded name means.
    pub(super) fn add_named(&self, sent: &[u8], value: &[u8], found: &mut FoundInBody) {
        self.for_each_decoded(letters(sent), |name| {
            self.in_body.with_name(name).iter().for_each(|slot| found.add(*slot, value));
        });
    }

    /// Compares a name character by character, as long as a known name begins so. Returns whether it could be decoded
    /// in another way.
    fn search(
        &self,
        mut letters: DecodedChars<'_>,
        ends: fn(char) -> bool,
        callback: &mut impl FnMut(usize),
    ) -> Option<WideEscape> {
        let mut search = PrefixSearch { names_left: &self.names, first: 0, depth: 0, is_separated: false };
        let (mut last, mut wide) = (None, None);
        // A name with several ends, as in `log[[[`, is reported once.
        let mut report = |slot| {
            if last.replace(slot) != Some(slot) {
                callback(slot);
            }
        };
        loop {
            // Only a name with many blanks is long.
            while let [b'+' | b' ' | b'_', rest @ ..] = letters.rest {
                (letters.rest, search.is_separated) = (rest, true);
            }
            if !letters.is_wide && matches!(letters.rest, [b'%', b'u' | b'U', ..]) {
                wide = Some(WideEscape);
            }
            let Some(letter) = letters.next() else { break };
            if ends(letter) {
                search.matched_slot().into_iter().for_each(&mut report);
            }
            search.push(letter);
            if search.names_left.is_empty() {
                return wide;
            }
        }
        search.matched_slot().into_iter().for_each(&mut report);
        wide
    }
}

/// A name contains `%uXXXX`.
struct WideEscape;

/// The known names with the folded prefix that was read so far.
struct PrefixSearch<'k> {
    names_left: &'k [FieldName],
    /// The slot of the first candidate.
    first: usize,
    depth: usize,
    is_separated: bool,
}

impl PrefixSearch<'_> {
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
        let at = |name: &FieldName| name.text().as_bytes().get(self.depth).copied();
        let first = self.names_left.partition_point(|name| at(name) < Some(byte));
        let others = &self.names_left[first..];
        self.names_left = &others[..others.partition_point(|name| at(name) == Some(byte))];
        self.first += first;
        self.depth += 1;
    }

    /// The slot of the name that was read, if it is complete.
    fn matched_slot(&self) -> Option<usize> {
        let name = self.names_left.first()?;
        (name.text().len() == self.depth).then_some(self.first)
    }
}

/// The values of each of the [`FieldNames`] that was sent.
#[derive(Debug, Default)]
struct FoundValues(Vec<Option<Result<Values, TooManyValues>>>);

impl FoundValues {
    /// The values in these parts of a query.
    fn in_query<'q>(fields: impl Iterator<Item = &'q str>, field_names: &FieldNames) -> Self {
        let mut found = Self::default();
        let mut times = 0;
        for field in fields.map(str::as_bytes) {
            let mut pieces = if memchr(b';', field).is_some() { Some(split(field, b';')) } else { None };
            let (name, value) = name_and_value(field);
            // The first piece has the same name as the whole part, unless it has no value.
            let first = match memchr(b';', name) {
                None => pieces.as_mut().and_then(Iterator::next).map(|first| name_and_value(first).1),
                Some(_) => None,
            };
            // One name may match several slots: its value is decoded once for all.
            let decoded = OnceCell::new();
            let mut is_known = false;
            field_names.for_each_match(name, |slot| {
                is_known = true;
                let all = [Some(value), first];
                let read = || all.into_iter().flatten().flat_map(readings).collect::<SmallVec<[_; 4]>>();
                found.add(
                    slot,
                    field_names,
                    decoded.get_or_init(read).iter().map(|value| Cow::Borrowed(&**value)),
                );
            });
            times += usize::from(is_known);
            for piece in pieces.into_iter().flatten() {
                let (name, value) = name_and_value(piece);
                let mut is_known = false;
                field_names.for_each_match(name, |slot| {
                    is_known = true;
                    found.add(slot, field_names, readings(value));
                });
                times += usize::from(is_known);
                if times > MAX_NAME_READS {
                    break;
                }
            }
            if times > MAX_NAME_READS {
                found.0.fill(Some(Err(TooManyValues)));
                break;
            }
        }
        found
    }

    fn in_cookies(headers: &HeaderMap, field_names: &FieldNames) -> Self {
        let mut found = Self::default();
        for (name, value) in cookies::pairs(headers) {
            let add = |slot| found.add(slot, field_names, readings_of_a_cookie(value));
            field_names.for_each_until(ends_a_cookies_name, name, add);
        }
        found
    }

    fn add<'v>(
        &mut self,
        slot: usize,
        field_names: &FieldNames,
        values: impl Iterator<Item = Cow<'v, [u8]>>,
    ) {
        if self.0.is_empty() {
            self.0.resize(field_names.names.len(), None);
        }
        let found = self.0[slot].get_or_insert_with(|| Ok(Values::default()));
        // After too many values nothing more is decoded.
        if let Ok(so_far) = found
            && let Err(error) = values.into_iter().try_for_each(|value| so_far.add(&value))
        {
            *found = Err(error);
        }
    }

    fn has(&self, slots: &[usize]) -> bool {
        slots.iter().any(|&slot| self.at(slot).is_some())
    }

    /// Adds the values of these slots.
    fn copy_values(&self, slots: &[usize], values: &mut Values) -> Result<(), TooManyValues> {
        for found in slots.iter().filter_map(|&slot| self.at(slot)) {
            found.as_ref().map_err(|error| *error)?.iter().try_for_each(|value| values.add(value))?;
        }
        Ok(())
    }

    fn at(&self, slot: usize) -> Option<&Result<Values, TooManyValues>> {
        self.0.get(slot)?.as_ref()
    }
}

/// Parts of a query, and the kinds of names that each could contain.
type Fields<'a> = SmallVec<[(&'a str, NameKinds); 4]>;

/// The values of all known fields of a request outside its body; looked up on first use.
pub(crate) struct RequestFields<'a> {
    pub(crate) attempt: &'a Attempt<'a>,
    pub(super) field_names: &'a FieldNames,
    /// The parts of the query that could contain a name of the filter.
    fields: OnceCell<Fields<'a>>,
    query: OnceCell<FoundValues>,
    cookies: OnceCell<FoundValues>,
    pub(super) body: OnceCell<FoundInBody>,
    authorization: OnceCell<bool>,
}

impl<'a> RequestFields<'a> {
    pub(crate) fn with(attempt: &'a Attempt<'a>, field_names: &'a FieldNames) -> Self {
        let (fields, query, cookies, body, authorization) = Default::default();
        Self { attempt, field_names, fields, query, cookies, body, authorization }
    }

    /// The parts of the query between two `&` that could contain a name of this kind.
    pub(crate) fn fields(&self, kind: NameKinds) -> impl Iterator<Item = &'a str> + Clone {
        let find = || self.field_names.fields_of(self.attempt.query.unwrap_or_default());
        let found = self.fields.get_or_init(find).iter();
        found.filter(move |(_, kinds)| kinds.has(kind)).map(|(field, _)| *field)
    }

    /// Whether a cookie or a parameter with this name could be of this kind.
    pub(crate) fn could_be(&self, kind: NameKinds, name: &[u8]) -> bool {
        self.field_names.could_be(kind, name)
    }

    fn query(&self) -> &FoundValues {
        self.query.get_or_init(|| FoundValues::in_query(self.fields(NameKinds::FIELD), self.field_names))
    }

    fn cookies(&self) -> &FoundValues {
        let read = || FoundValues::in_cookies(self.attempt.headers, self.field_names);
        match self.searched() {
            Some(known) => known.cookies.get_or_init(read),
            None => self.cookies.get_or_init(read),
        }
    }

    /// What was found in the same request so far.
    pub(super) fn searched(&self) -> Option<&'a BodySearch> {
        match &self.attempt.body {
            AttemptBody::Searched(searched) => BodySearch::of(searched),
            _ => None,
        }
    }

    /// Whether there is an `Authorization` that may be a guess.
    pub(crate) fn has_authorization(&self) -> bool {
        *self.authorization.get_or_init(|| super::has_authorization(self.attempt))
    }

    /// Whether one of these fields is in a header, with any value.
    pub(crate) fn are_in_headers(&self, fields: &[Field]) -> bool {
        (fields.iter().any(Field::is_in_authorization) && self.has_authorization())
            || super::are_in_own_headers(fields, self.attempt)
    }

    /// Whether one of these fields is in the query, with any value.
    pub(crate) fn has_in_query(&self, slots: &FieldSlots) -> bool {
        !slots.in_query.is_empty() && self.query().has(&slots.in_query)
    }

    /// Whether one of these fields is in a cookie, with any value.
    pub(crate) fn has_in_cookies(&self, slots: &FieldSlots) -> bool {
        !slots.in_cookies.is_empty() && self.cookies().has(&slots.in_cookies)
    }

    /// Adds the values in the query.
    pub(super) fn add_query(&self, slots: &FieldSlots, values: &mut Values) -> Result<(), TooManyValues> {
        if slots.in_query.is_empty() { Ok(()) } else { self.query().copy_values(&slots.in_query, values) }
    }

    /// Adds the values in cookies.
    pub(super) fn add_cookies(&self, slots: &FieldSlots, values: &mut Values) -> Result<(), TooManyValues> {
        if slots.in_cookies.is_empty() {
            Ok(())
        } else {
            self.cookies().copy_values(&slots.in_cookies, values)
        }
    }
}

/// What a policy finds in a request with a body: all at once by [`Policy::search_body`](super::super::Policy::search_body), or, beginning
/// with nothing, when a step of the decision first needs it. It holds for that policy alone.
#[derive(Debug, Default)]
pub struct BodySearch {
    fields: OnceLock<FoundInBody>,
    /// What the cookies of its request hold.
    cookies: OnceLock<FoundValues>,
    /// By [names](super::super::count::Count::name) of what is counted.
    counts: SmallVec<[(String, Result<u32, UnreadableBody>); 1]>,
}

impl BodySearch {
    pub(crate) fn new(fields: FoundInBody) -> Self {
        Self { fields: fields.into(), ..Self::default() }
    }

    /// What the fields hold, searched for only once.
    pub(super) fn fields(&self, search: impl FnOnce() -> FoundInBody) -> &FoundInBody {
        self.fields.get_or_init(search)
    }

    /// What was counted; `None` if it was not.
    pub(crate) fn count(&self, name: &str) -> Option<Result<u32, UnreadableBody>> {
        self.counts.iter().find(|(known, _)| known == name).map(|(_, found)| *found)
    }

    pub(crate) fn add_count(&mut self, name: String, found: Result<u32, UnreadableBody>) {
        self.counts.push((name, found));
    }

    /// What was found so far.
    pub(crate) fn of<'a>(searched: &SearchedBody<'a>) -> Option<&'a Self> {
        searched.found.downcast_ref()
    }
}

/// How many occurrences of known names are read in one query. A query with more of them is ambiguous.
pub(crate) const MAX_NAME_READS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field_names(names: &[&str]) -> FieldNames {
        let fields: Vec<Field> = names.iter().map(|name| Field::Form((*name).to_owned())).collect();
        FieldNames::of(fields.iter())
    }

    #[test]
    fn a_query_that_names_known_fields_again_and_again_has_too_many_of_each() {
        let field_names = field_names(&["log", "user"]);
        let found = |query: &str| {
            let found = FoundValues::in_query(query.split('&'), &field_names);
            let mut values = Values::default();
            (found.has(&[1]), found.copy_values(&[0, 1], &mut values).map(|()| values.iter().count()))
        };
        assert_eq!(found(&"a=1&".repeat(900)), (false, Ok(0)));
        assert_eq!(found(&"log=1&".repeat(MAX_NAME_READS)), (false, Ok(1)));
        for many in ["log=1&", "log=1;", ";log", "user&"] {
            assert_eq!(found(&many.repeat(MAX_NAME_READS + 1)), (true, Err(TooManyValues)), "{many}");
        }
        // One name counts once, however many ends it has.
        for once in ["log[%00%00[%u006cog;log", &format!("log{}", "[%00".repeat(1000))] {
            assert_eq!(found(once), (false, Ok(1)), "{once}");
        }
    }

    proptest! {
        #[test]
        fn one_look_for_all_names_finds_what_a_look_for_each_finds(
            text in "(&|;|=|log|l%6fg|%4cOG|user|%75ser|%u006cog|[+]log|a|%zz|%C4%B0d|\\[|\\]|[.]|%00|%ff|name\
                |1|2|3|4|:){0,32}",
        ) {
            let names = ["log", "user", "id", "user_name", "user[name][a]", "a"];
            let field_names = field_names(&names);
            let found = FoundValues::in_query(text.split('&'), &field_names);
            for name in names.map(FieldName::new) {
                let expected = super::super::form::slowly(text.as_bytes(), &name);
                let slot = field_names.names.binary_search(&name).unwrap();
                let mut values = Values::default();
                let given = found.copy_values(&[slot], &mut values).map(|()| values);
                prop_assert_eq!(&given, &expected, "{:?}", name);
                let is_found = expected.map_or(true, |expected| !expected.is_empty());
                prop_assert_eq!(found.has(&[slot]), is_found, "{:?}", name);
            }
        }

        #[test]
        fn one_look_finds_the_names_that_are_compared_letter_by_letter(
            sent in "([abAB_.: \\[\\]%\0\u{130}\u{307}\u{a0}\u{3000}\u{1680}\u{212a}\u{e4}ik]|%u0041|%u00e4\
                |%C3%A4|%c3|%A4|%e2%84%aa|%42|[+]|%5b){0,9}",
        ) {
            let names = [
                "a", "ab", "a_b", "b_a_b", "k", "i\u{307}", "\u{e4}", "ki", "b", "a\u{fffd}", "a\u{fffd}\u{fffd}",
            ];
            let field_names = field_names(&names);
            let mut found = Vec::new();
            field_names.for_each_match(sent.as_bytes(), |slot| found.push(slot));
            for name in names.map(FieldName::new) {
                let slot = field_names.names.binary_search(&name).unwrap();
                let is_it = readings(sent.as_bytes()).any(|sent| name.is(&sent));
                prop_assert_eq!(found.contains(&slot), is_it, "{:?}", name);
                prop_assert!(field_names.has(sent.as_bytes()) || !is_it);
            }
        }
    }
}
