//! The pages of refusals: those of `[refuse]`, what a route has in their place, and which of them lack the offer of what
//! lifts refusals.

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::{Free, Key};
use tollgate_grammar::{Findings, Located, RawNamed, Spot};

use super::super::raw::{RawFile, RawPages, RawRefuse, RawRoute, RawTexts};
use super::context::CheckContext;
use super::files::Files;
use super::texts;
use crate::defences::{self, OFFER};
use crate::policy::Policy;
use crate::policy::matcher::Pattern;
use crate::proxy::respond::{Contact, RefusalPages, Template};

/// The pages of `[refuse]`.
pub(super) fn check(raw: &RawRefuse, files: &mut Files<'_>, f: &mut Findings) -> RefusalPages {
    let given = [&raw.html, &raw.json, &raw.text];
    let words = PageWords { contact: raw.contact.as_deref(), texts: &raw.texts, shown: raw.html.as_deref() };
    over(&RefusalPages::default(), given, &words, files, f)
}

/// The pages of each route that has any, by position.
pub(super) fn of_routes(
    raw: &RawFile,
    common: &RefusalPages,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Vec<Option<RefusalPages>> {
    let mut of_route = |route: &RawNamed<RawRoute>| {
        let RawPages { html, json, text, contact, texts } = &route.value.refuse.as_ref()?.value;
        let shown = html.as_deref().or(raw.refuse.html.as_deref());
        let words = PageWords { contact: contact.as_deref(), texts, shown };
        Some(over(common, [html, json, text], &words, files, f))
    };
    raw.routes.iter().map(&mut of_route).collect()
}

/// The words of the built-in page.
struct PageWords<'a> {
    contact: Option<&'a Located<String>>,
    texts: &'a [RawNamed<RawTexts>],
    /// The HTML page that is shown in its place.
    shown: Option<&'a Located<String>>,
}

/// The pages in the place of those below.
fn over(
    below: &RefusalPages,
    [html, json, text]: [&Key<Free>; 3],
    words: &PageWords<'_>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> RefusalPages {
    let contact = named(words.contact).and_then(|text| contact(text, f));
    RefusalPages {
        html: own(html.as_deref(), &below.html, files, f),
        json: own(json.as_deref(), &below.json, files, f),
        text: own(text.as_deref(), &below.text, files, f),
        localized: texts::pages(words.texts, contact, &below.localized, named(words.shown), f),
    }
}

/// Warns of pages that are never shown.
pub(super) fn warn(cx: &CheckContext<'_>, f: &mut Findings) {
    for (RawNamed { value, .. }, route) in cx.raw.routes.iter().zip(&cx.routes) {
        let (Some(pages), Some(route)) = (&value.refuse, route) else { continue };
        let may_refuse = |limit: &usize| {
            let limit = cx.limits.get(*limit).and_then(Option::as_ref);
            limit.is_none_or(|limit| limit.mode.is_to_refuse())
        };
        if route.matching.patterns.iter().all(Pattern::is_of_descriptors) {
            let is_dovecot = route.matching.patterns.iter().any(Pattern::is_of_protocols);
            let asker = if is_dovecot { "Dovecot" } else { "Envoy" };
            f.warning(&pages.name.spot, format!("{asker} shows no page of the gate"), "leave it out");
        } else if !route.limits.iter().any(may_refuse) {
            let message = format!("no limit refuses an attempt of route `{}`", route.name);
            f.warning(&pages.name.spot, message, "leave it out until one does");
        }
    }
}

fn contact(text: &Located<String>, f: &mut Findings) -> Option<Contact> {
    let contact = Contact::new(&text.value);
    if contact.is_none() {
        let hint = "an e-mail address, a URL, or words such as \"the help desk, room 12\"";
        f.error(&text.spot, "a contact has 1 to 200 printable characters", hint);
    }
    contact
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

const PLACEHOLDERS: [&str; 5] = ["retry_after", "limit", "request_id", "contact", OFFER.placeholder];

/// The policy with what lifts its refusals.
pub(super) fn with_pardon(cx: &CheckContext<'_>, policy: Policy, f: &mut Findings) -> Policy {
    let common = cx.raw.refuse.html.as_deref().zip(cx.refuse.pages.html.as_ref());
    let routes = cx.raw.routes.iter().zip(&cx.refuse.of_routes);
    let of_routes = routes.filter_map(|(route, pages)| page_of(&route.value, pages.as_ref()?));
    let without_offer = common.into_iter().chain(of_routes).filter(|(_, page)| !page.has_offer());
    let pages = without_offer.map(|(path, _)| &path.spot);
    let pardon = defences::pardon(&cx.raw.refuse.pardons, &policy, pages, f);
    policy.with_pardon(pardon)
}

fn page_of<'r>(route: &'r RawRoute, pages: &'r RefusalPages) -> Option<(&'r Located<String>, &'r Template)> {
    Some((route.refuse.as_ref()?.value.html.as_deref()?, pages.html.as_ref()?))
}
