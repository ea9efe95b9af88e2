//! Single values: a grammar, one of several words, a number or a duration within bounds, a name.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::super::diagnostic::{Findings, grouped, suggest};
use super::super::document::Located;
use super::super::raw::RawNamed;
use super::super::section::{StringList, refuse};
use super::super::values::{Duration, Mistake};
use crate::time::Span;

/// Parses a text by its grammar.
pub(super) fn parsed<T: FromStr<Err = Mistake>>(text: &Located<String>, f: &mut Findings) -> Option<T> {
    match text.value.parse() {
        Ok(value) => Some(value),
        Err(mistake) => {
            refuse(&text.spot, &text.value, mistake, f);
            None
        }
    }
}

/// One of several words.
pub(super) fn one_of<T: Copy>(
    text: Option<&Located<String>>,
    choices: &[(&str, T)],
    f: &mut Findings,
) -> Option<T> {
    let text = text?;
    let given = text.value.as_str();
    if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == given) {
        return Some(*choice);
    }
    let words = choices.iter().map(|(word, _)| *word);
    f.error(&text.spot, format!("unknown value `{given}`"), suggest(given, words));
    None
}

/// A whole number within bounds.
pub(super) fn within<T: TryFrom<i64>>(
    number: Option<&Located<i64>>,
    bounds: RangeInclusive<i64>,
    f: &mut Findings,
) -> Option<T> {
    let number = number?;
    let value = bounds.contains(&number.value).then(|| T::try_from(number.value).ok()).flatten();
    if value.is_none() {
        f.error(
            &number.spot,
            format!("{} is out of range", number.spot.text()),
            format!("{} to {}", grouped(bounds.start().unsigned_abs()), grouped(bounds.end().unsigned_abs())),
        );
    }
    value
}

/// A share, 0.0 to 1.0, of this number, which is small enough to be exact as a float.
pub(super) fn share_of(whole: u32, share: Option<&Located<f64>>, f: &mut Findings) -> Option<u32> {
    let share = share?;
    if !(0.0..=1.0).contains(&share.value) {
        f.error(&share.spot, format!("{} is out of range", share.spot.text()), "0.0 to 1.0");
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to `whole`")]
    Some((share.value * f64::from(whole)).round() as u32)
}

/// A duration within bounds.
pub(super) fn duration_within(
    text: Option<&Located<String>>,
    bounds: RangeInclusive<Span>,
    f: &mut Findings,
) -> Option<Span> {
    let text = text?;
    let Duration(span) = parsed(text, f)?;
    if bounds.contains(&span) {
        return Some(span);
    }
    let hint = format!("{} to {}", Duration(*bounds.start()), Duration(*bounds.end()));
    f.error(&text.spot, format!("`{}` is out of range", text.value), hint);
    None
}

/// The entries of a list without repetitions, which are reported.
pub(super) fn distinct<'l>(list: Option<&'l StringList>, f: &mut Findings) -> Vec<&'l Located<String>> {
    let mut seen = HashSet::new();
    let items = list.map_or(&[][..], |list| &list.value).iter();
    let fresh = items.filter(|item| {
        let fresh = seen.insert(item.value.as_str());
        if !fresh {
            f.error(&item.spot, format!("`{}` is listed twice", item.value), "");
        }
        fresh
    });
    fresh.collect()
}

/// Checks a name. Names become labels, header values and paths, where other letters would need three kinds of quoting.
pub(super) fn check_name(name: &Located<String>, f: &mut Findings) {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let text = &name.value;
    if text.is_empty() || text.len() > MAX_NAME_LEN || !text.bytes().all(plain) {
        f.error(&name.spot, format!("`{text}` is not a name"), "1 to 64 of: letters, digits, `-`, `_`, `.`");
    }
}

/// The position of a name in a list; an unknown name is reported with the nearest one.
pub(super) fn index_of<T>(
    name: &Located<String>,
    kind: &str,
    all: &[RawNamed<T>],
    f: &mut Findings,
) -> Option<usize> {
    let index = all.iter().position(|named| named.name.value == name.value);
    if index.is_none() {
        let hint = match all.is_empty() {
            true => format!("there is no {kind} yet: write [{kind}.{}]", name.value),
            false => suggest(&name.value, all.iter().map(|named| named.name.value.as_str())),
        };
        f.error(&name.spot, format!("unknown {kind} `{}`", name.value), hint);
    }
    index
}

const MAX_NAME_LEN: usize = 64;

pub(super) const DAY: Span = Span::from_secs(86_400);
/// What a time-out may be.
pub(super) const TIMEOUT: RangeInclusive<Span> = Span::from_millis(1)..=DAY;
