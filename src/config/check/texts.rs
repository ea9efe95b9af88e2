//! `[refuse.texts.LANG]`, and the same of a route: texts in the place of those of the built-in page.

use std::sync::Arc;

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::Checked;
use tollgate_grammar::{Findings, Located, RawNamed, RawTable};

use super::super::raw::RawTexts;
use crate::proxy::respond::{Contact, Language, LocalizedPages, TextError, Texts};

/// The pages with these texts and this contact; `html` is the page that is in their place.
pub(super) fn pages(
    raw: &[RawNamed<RawTexts>],
    contact: Option<Contact>,
    pages: &Arc<LocalizedPages>,
    html: Option<&Located<String>>,
    f: &mut Findings,
) -> Arc<LocalizedPages> {
    if raw.is_empty() && contact.is_none() {
        return Arc::clone(pages);
    }
    let changed: Vec<_> = raw.iter().filter_map(|table| changed(table, pages, f)).collect();
    if let Some(page) = html {
        let others = raw.iter().filter(|table| table.name.value != Language::default().tag());
        for table in others {
            let message =
                format!("the texts of `{}` are not shown: `html` is a page of your own", table.name.value);
            f.warning(&table.name.spot, message, format!("`{}` is for every language", page.value));
        }
    }
    Arc::new(pages.with(changed, contact))
}

fn changed(table: &RawNamed<RawTexts>, pages: &LocalizedPages, f: &mut Findings) -> Option<Texts> {
    let RawNamed { name, value } = table;
    let mut texts = match pages.texts(&name.value) {
        Some(known) => {
            own_of_added(value, f);
            known.clone()
        }
        None => added(table, pages, f)?,
    };
    for (key, text) in given(value) {
        if let Err(error) = texts.replace(key, &text.value) {
            f.error(&text.spot, error.to_string(), hint(&error));
        }
    }
    Some(texts)
}

/// Reports keys that only a further language has.
fn own_of_added(raw: &RawTexts, f: &mut Findings) {
    let (plurals, direction) = (raw.plurals.as_deref(), raw.direction.as_deref());
    for key in [plurals, direction].into_iter().flatten() {
        f.error(&key.spot, "only a language that is not built in has this key", "leave it out");
    }
}

/// The texts of a further language: those of `de` for `de-AT`, otherwise its table must have each of them, but those that
/// 0.1.0 did not have.
fn added(
    RawNamed { name, value: raw }: &RawNamed<RawTexts>,
    pages: &LocalizedPages,
    f: &mut Findings,
) -> Option<Texts> {
    let tag = name.value.as_str();
    let known = tag.split_once('-').and_then(|(language, _)| pages.texts(language));
    if let Some(known) = known {
        own_of_added(raw, f);
        return known.clone().of_region(tag);
    }
    let plurals = raw.plurals.checked(f).unwrap_or_default();
    let is_right_to_left = raw.direction.checked(f).unwrap_or_default();
    let given: Vec<_> = given(raw).map(|(key, _)| key).collect();
    let missing = text_keys().filter(|key| !given.contains(key));
    let (newer, missing): (Vec<_>, Vec<_>) = missing.partition(|key| Texts::NEWER.contains(key));
    if !missing.is_empty() {
        let hint = format!(
            "{}; or give all texts of [refuse.texts.en]",
            suggest(tag, Language::ALL.map(Language::tag))
        );
        let message = format!("the language `{tag}` is not built in, and lacks {}", missing.join(", "));
        f.error(&name.spot, message, hint);
        return None;
    }
    if !newer.is_empty() {
        let message = format!("the language `{tag}` lacks {}, which will be English", newer.join(", "));
        f.warning(&name.spot, message, "give them as [refuse.texts.en] has them");
    }
    Texts::of(tag, plurals, is_right_to_left)
}

/// The texts that are there, with their keys.
fn given(raw: &RawTexts) -> impl Iterator<Item = (&'static str, &Located<String>)> {
    let RawTexts { title, wait, now, never, back, request, contact, .. } = raw;
    let RawTexts { offer, earn, working, pause, resume, days, hours, minutes, seconds, list, .. } = raw;
    let texts = [
        title, wait, now, never, back, request, contact, offer, earn, working, pause, resume, days, hours,
        minutes, seconds, list,
    ];
    text_keys().zip(texts).filter_map(|(key, text)| Some((key, text.as_deref()?)))
}

/// The keys of texts, in the order of their declaration.
fn text_keys() -> impl Iterator<Item = &'static str> {
    RawTexts::key_names().into_iter().filter(|key| !["plurals", "direction"].contains(key))
}

fn hint(error: &TextError) -> &'static str {
    match error {
        TextError::Empty => "leave it out for the built-in text",
        TextError::Placeholders(_) => "as the built-in text has it",
        TextError::Forms { .. } => "separate the forms by ` | `; `{{count}}` stands for the number",
    }
}
