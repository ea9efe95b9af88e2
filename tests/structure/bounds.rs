//! The rows of `docs/internals/bounds.md` have the values of the constants that they name.
//!
//! That the names exist is left to [`documents`](crate::documents).

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use crate::source;

use std::fs;
use std::path::Path;

use source::{Source, Token};

#[test]
fn every_bound_in_the_document_has_the_value_of_its_constant() {
    let sources = Source::all();
    let mut constants = 0;
    for row in rows() {
        let values = row.constants.iter().map(|(name, place)| Constants { sources, place }.value(name));
        let values: Vec<Value> = values.collect();
        for (value, (name, place)) in values.iter().zip(&row.constants) {
            let times = values.iter().filter(|other| *other == value).count();
            let has_all = value.times_in(&row.says) >= times;
            assert!(has_all, "{name} in {place} is {value:?}, and its row says: {}", row.says);
        }
        constants += values.len();
    }
    assert!(constants > 150, "{constants} constants");
}

#[test]
fn every_bound_in_the_document_names_a_constant_a_setting_or_a_file() {
    for row in rows() {
        assert!(row.named_by.contains('`'), "{} | {}", row.says, row.named_by);
    }
}

#[test]
fn a_bound_that_differs_from_its_constant_is_found() {
    let amount = |number| Value { number, is_time: false };
    let time = |nanos| Value { number: nanos, is_time: true };
    let cases = [
        (amount(5), "5 buckets", "15 buckets, 5 KiB, 5 s, 5.5"),
        (amount(4), "a quarter of all", "40"),
        (amount(20_000), "20,000 rows", "20 000, 120,000"),
        (amount(65_536), "64 KiB", "64 bytes, 64 MiB"),
        (time(1_500_000_000), "1.5 s", "1 s, 15 s"),
        (time(20_000_000), "each 20 ms;", "120 ms, 20 s"),
        (time(3_600_000_000_000), "1 h", "1 s"),
    ];
    for (value, right, wrong) in cases {
        assert_eq!(value.times_in(right), 1, "{value:?} in {right}");
        assert_eq!(value.times_in(wrong), 0, "{value:?} in {wrong}");
    }
}

/// One row of a table.
struct Row {
    /// The column with the bound.
    says: String,
    /// The last column.
    named_by: String,
    /// The constants of the last column, each with its file.
    constants: Vec<(String, String)>,
}

fn rows() -> Vec<Row> {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/internals/bounds.md")).unwrap();
    let cells =
        text.lines().filter(|line| line.starts_with("| ")).map(|line| line.split('|').collect::<Vec<_>>());
    let rows = cells.filter(|cells| !cells[1].contains(" what ")).map(|cells| {
        let [_, _, says, named_by, _] = cells[..] else { panic!("not three columns: {cells:?}") };
        let constants = named_by.split(';').flat_map(constants_of).collect();
        Row { says: says.to_owned(), named_by: named_by.to_owned(), constants }
    });
    rows.collect()
}

/// The constants in `FILE`: `NAME`, `NAME`.
fn constants_of(part: &str) -> Vec<(String, String)> {
    let quoted: Vec<&str> = part.split('`').skip(1).step_by(2).collect();
    match quoted[..] {
        [place, ref names @ ..] if place.ends_with(".rs") => {
            names.iter().map(|name| ((*name).to_owned(), place.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// What a constant holds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Value {
    /// In nanoseconds if it is a time.
    number: u128,
    is_time: bool,
}

impl Value {
    /// How often the text has this value, as a number with its unit or as a word.
    fn times_in(self, text: &str) -> usize {
        let units: &[(u128, &str)] = match self.is_time {
            true => &[(1_000, " µs"), (1_000_000, " ms"), (1_000_000_000, " s"), (3_600_000_000_000, " h")],
            false => &[(1, ""), (1 << 10, " KiB"), (1 << 20, " MiB"), (1 << 30, " GiB")],
        };
        let exact = units.iter().filter(|(unit, _)| (self.number * 10).is_multiple_of(*unit));
        let mut forms: Vec<String> =
            exact.map(|(unit, name)| decimal(self.number * 10 / unit) + name).collect();
        let words = WORDS.iter().filter(|(number, _)| !self.is_time && *number == self.number);
        forms.extend(words.flat_map(|(_, words)| words.split_whitespace().map(str::to_owned)));
        forms.iter().map(|form| times(text, form)).sum()
    }
}

/// How often the form stands there alone: neither part of a longer number nor before another unit.
fn times(text: &str, form: &str) -> usize {
    let alone = text.match_indices(form).filter(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + form.len()..]);
        let is_cut = before.ends_with(|c: char| c.is_alphanumeric() || ",.".contains(c))
            || after.starts_with(char::is_alphanumeric)
            || [",", "."].iter().any(|mark| {
                after.strip_prefix(mark).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            });
        let has_unit = form.ends_with(|c: char| c.is_ascii_digit())
            && UNITS.iter().any(|unit| {
                after.strip_prefix(unit).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            });
        !is_cut && !has_unit
    });
    alone.count()
}

/// Tenths with a point, thousands with commas.
fn decimal(tenths: u128) -> String {
    let digits = (tenths / 10).to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    let whole = groups.join(",");
    if tenths.is_multiple_of(10) { whole } else { format!("{whole}.{}", tenths % 10) }
}

/// The constants as one file names them.
struct Constants<'s> {
    sources: &'s [Source],
    /// The path of the file.
    place: &'s str,
}

impl Constants<'_> {
    /// The constant of this name, in this file or else in any other.
    fn value(&self, name: &str) -> Value {
        if let Some((_, number)) = CALCULATED.iter().find(|(calculated, _)| *calculated == name) {
            return Value { number: *number, is_time: false };
        }
        let here = self.sources.iter().filter(|source| source.path() == self.place);
        let elsewhere = self.sources.iter().filter(|source| source.path() != self.place);
        let mut found = here.chain(elsewhere).flat_map(|source| {
            source.positions(&["const", name, ":"]).into_iter().map(move |at| (source, at))
        });
        let (source, at) = found.next().unwrap_or_else(|| panic!("no constant {name}"));
        let tokens = &source.tokens[at..];
        let position = |mark| tokens.iter().position(|token: &Token| token.text == mark).unwrap();
        let expression = &tokens[position("=") + 1..position(";")];
        let mut rest = expression.iter().map(|token| &token.text[..]).collect::<Vec<_>>();
        rest.reverse();
        let value = self.shift(&mut rest);
        assert!(rest.is_empty(), "{name}: cannot read {rest:?}");
        value
    }

    /// `a << b` and all that binds closer. The next token is the last.
    fn shift(&self, rest: &mut Vec<&str>) -> Value {
        let mut value = self.sum(rest);
        while rest.ends_with(&["<", "<"]) {
            rest.truncate(rest.len() - 2);
            value.number <<= self.sum(rest).number;
        }
        value
    }

    fn sum(&self, rest: &mut Vec<&str>) -> Value {
        let mut value = self.product(rest);
        while rest.last() == Some(&"+") {
            rest.pop();
            value.number += self.product(rest).number;
        }
        value
    }

    fn product(&self, rest: &mut Vec<&str>) -> Value {
        let mut value = self.atom(rest);
        while let Some(mark) = rest.pop_if(|mark| matches!(*mark, "*" | "/")) {
            let factor = self.atom(rest).number;
            value.number = if mark == "*" { value.number * factor } else { value.number / factor };
        }
        value
    }

    /// A number, `Duration::from_secs(...)` and its like, or another constant.
    fn atom(&self, rest: &mut Vec<&str>) -> Value {
        let word = rest.pop().unwrap();
        if let Ok(number) = word.replace('_', "").parse() {
            return Value { number, is_time: false };
        }
        if rest.ends_with(&[":", ":"]) {
            rest.truncate(rest.len() - 2);
            return self.atom(rest);
        }
        let Some(nanos) = CONSTRUCTORS.iter().find(|(name, _)| *name == word).map(|(_, nanos)| nanos) else {
            return self.value(word);
        };
        assert_eq!(rest.pop(), Some("("));
        let number = self.shift(rest).number * nanos;
        assert_eq!(rest.pop(), Some(")"));
        Value { number, is_time: true }
    }
}

/// Functions that make a time of a number, and the nanoseconds of one.
const CONSTRUCTORS: &[(&str, u128)] =
    &[("from_micros", 1_000), ("from_millis", 1_000_000), ("from_secs", 1_000_000_000)];

/// Constants that only the compiler can calculate.
const CALCULATED: &[(&str, u128)] = &[("MAX_RECORD_LEN", tollgate_bucket::MAX_RECORD_LEN as u128)];

/// What a number is called in the tables, also as a share of one.
const WORDS: &[(u128, &str)] = &[(1, "one"), (4, "quarter"), (8, "eight"), (16, "sixteenth")];

const UNITS: &[&str] = &[" µs", " ms", " s", " h", " KiB", " MiB", " GiB"];
