//! The pages of refusals: those of `[refuse]`, and what a route has in their place.

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::{Free, Key};
use tollgate_grammar::{Findings, Located, RawNamed, Spot};

use super::super::raw::{RawFile, RawPages, RawRefuse, RawRoute, RawTexts};
use super::context::CheckContext;
use super::files::Files;
use super::texts;
use crate::defences::OFFER;
use crate::policy::Mode;
use crate::policy::matcher::Pattern;
use crate::proxy::respond::{RefusalPages, Template};

/// The pages of `[refuse]`.
pub(super) fn check(raw: &RawRefuse, files: &mut Files<'_>, f: &mut Findings) -> RefusalPages {
    let given = [&raw.html, &raw.json, &raw.text];
    over(&RefusalPages::default(), given, &raw.texts, raw.html.as_deref(), files, f)
}

/// The pages of each route that has any, by position.
pub(super) fn of_routes(
    raw: &RawFile,
    common: &RefusalPages,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Vec<Option<RefusalPages>> {
    let mut of_route = |route: &RawNamed<RawRoute>| {
        let RawPages { html, json, text, texts } = &route.value.refuse.as_ref()?.value;
        let shown = html.as_deref().or(raw.refuse.html.as_deref());
        Some(over(common, [html, json, text], texts, shown, files, f))
    };
    raw.routes.iter().map(&mut of_route).collect()
}

/// The pages in the place of those below; `shown` is the HTML page next to the texts.
fn over(
    below: &RefusalPages,
    [html, json, text]: [&Key<Free>; 3],
    texts: &[RawNamed<RawTexts>],
    shown: Option<&Located<String>>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> RefusalPages {
    RefusalPages {
        html: own(html.as_deref(), &below.html, files, f),
        json: own(json.as_deref(), &below.json, files, f),
        text: own(text.as_deref(), &below.text, files, f),
        localized: texts::pages(texts, &below.localized, named(shown), f),
    }
}

/// Warns of pages that are never shown.
pub(super) fn warn(cx: &CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { value, .. }, route) in cx.raw.routes.iter().zip(&cx.routes) {
        let (Some(pages), Some(route)) = (&value.refuse, route) else { continue };
        let may_refuse = |limit: &usize| {
            let limit = cx.limits.get(*limit).and_then(Option::as_ref);
            limit.is_none_or(|limit| !matches!(limit.mode, Mode::Mark | Mode::Off))
        };
        if route.matching.patterns.iter().all(Pattern::is_of_descriptors) {
            f.warning(&pages.name.spot, "Envoy shows no page of the gate", "leave it out");
        } else if !route.limits.iter().any(may_refuse) {
            let message = format!("no limit refuses an attempt of route `{}`", route.name);
            f.warning(&pages.name.spot, message, "leave it out until one does");
        }
    }
}

/// A custom page, or the one that is inherited where the key is absent.
fn own(
    path: Option<&Located<String>>,
    inherited: &Option<Template>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<Template> {
    match path {
        Some(_) => named(path).and_then(|path| page(path, files, f)),
        None => inherited.clone(),
    }
}

/// An empty name means the built-in page.
fn named(path: Option<&Located<String>>) -> Option<&Located<String>> {
    path.filter(|path| !path.value.is_empty())
}

fn page(path: &Located<String>, files: &mut Files<'_>, f: &mut Findings) -> Option<Template> {
    let source = files.text(&path.value, &path.spot, f)?;
    for (at, _) in source.text.match_indices("{{") {
        let Some((name, _)) = source.text[at + 2..].split_once("}}") else { continue };
        if is_name(name.trim()) && !PLACEHOLDERS.contains(&name) {
            let spot = Spot::new(&source, at..at + name.len() + 4);
            f.warning(&spot, format!("unknown placeholder `{name}`"), suggest(name.trim(), PLACEHOLDERS));
        }
    }
    Some(Template::parse(&source.text))
}

/// Whether the text between braces is a placeholder's name; other braces belong to a script of the page.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

const PLACEHOLDERS: [&str; 4] = ["retry_after", "limit", "request_id", OFFER.placeholder];
