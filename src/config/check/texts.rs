//! `[refuse.texts.LANG]`, and the same of a route: texts in the place of those of the built-in page.

use std::sync::Arc;

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::{Findings, Located, RawNamed, RawTable};

use super::super::raw::RawTexts;
use crate::proxy::respond::{Language, LocalizedPages, TextError, Texts};

/// The pages with these texts; `html` is the page that is in their place.
pub(super) fn pages(
    raw: &[RawNamed<RawTexts>],
    pages: &Arc<LocalizedPages>,
    html: Option<&Located<String>>,
    f: &mut Findings,
) -> Arc<LocalizedPages> {
    if raw.is_empty() {
        return Arc::clone(pages);
    }
    let changed: Vec<_> = raw.iter().filter_map(|table| changed(table, pages, f)).collect();
    if let Some(page) = html {
        let others = raw.iter().filter(|table| table.name.value != Language::default().tag());
        for table in others {
            let message =
                format!("the texts of `{}` mean nothing beside a page of your own", table.name.value);
            f.warning(&table.name.spot, message, format!("`{}` is for every language", page.value));
        }
    }
    Arc::new(pages.with(changed))
}

fn changed(
    RawNamed { name, value }: &RawNamed<RawTexts>,
    pages: &LocalizedPages,
    f: &mut Findings,
) -> Option<(Language, Texts)> {
    let tags = Language::ALL.map(Language::tag);
    let Some(language) = Language::ALL.into_iter().find(|language| language.tag() == name.value) else {
        f.error(&name.spot, format!("unknown language `{}`", name.value), suggest(&name.value, tags));
        return None;
    };
    let mut texts = pages.texts(language).clone();
    for (key, text) in given(value) {
        if let Err(error) = texts.replace(key, &text.value) {
            f.error(&text.spot, error.to_string(), hint(&error));
        }
    }
    Some((language, texts))
}

/// The texts that are there, with their keys.
fn given(raw: &RawTexts) -> impl Iterator<Item = (&'static str, &Located<String>)> {
    let RawTexts { title, wait, now, never, back, request, .. } = raw;
    let RawTexts { offer, earn, working, days, hours, minutes, seconds, list, .. } = raw;
    let texts =
        [title, wait, now, never, back, request, offer, earn, working, days, hours, minutes, seconds, list];
    RawTexts::key_names().into_iter().zip(texts).filter_map(|(key, text)| Some((key, text.as_deref()?)))
}

fn hint(error: &TextError) -> &'static str {
    match error {
        TextError::Empty => "leave it out for the built-in text",
        TextError::Placeholders(_) => "as the built-in text has it",
        TextError::Forms { .. } => "separate the forms by ` | `; `{{count}}` stands for the number",
    }
}
