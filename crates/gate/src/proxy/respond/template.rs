//! Page templates with placeholders: built-in or from the configuration.
//!
//! A page is split at its `{{names}}` once, when it is loaded; a response only concatenates the parts. An unknown name
//! stays as it is written. `escape` escapes every value for the format of the page.

use super::accept::ResponseFormat;
use super::details::ProblemDetails;
use super::escape::{push, push_number, push_value};
use crate::defences::OFFER;

/// A page with placeholders.
///
/// `{{retry_after}}` is the wait in whole seconds, `{{wait}}` the same in words, `{{limit}}` the first limit that
/// refused and is not hidden, `{{request_id}}` the request id, `{{title}}` and `{{detail}}` the texts of the built-in
/// response, `{{contact}}` whom to ask (empty if nobody is named), `{{challenge}}` the button by which a browser may earn an attempt, if it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<(Box<str>, Option<Placeholder>)>,
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    RetryAfter,
    Wait,
    Limit,
    RequestId,
    Title,
    Detail,
    Contact,
    Offer,
}

impl Template {
    /// Splits a page at its placeholders. Every text is a valid page.
    #[must_use]
    pub fn parse(page: &str) -> Self {
        let mut parts = Vec::new();
        let mut start = 0;
        for (open, _) in page.match_indices("{{") {
            let named = page[open + 2..]
                .split_once("}}")
                .and_then(|(name, _)| Some((name, Placeholder::named(name)?)));
            if let Some((name, slot)) = named {
                parts.push((page[start..open].into(), Some(slot)));
                start = open + name.len() + 4;
            }
        }
        parts.push((page[start..].into(), None));
        Self { parts, length: page.len() }
    }

    /// Whether it has a place for an offer.
    #[must_use]
    pub fn has_offer(&self) -> bool {
        self.parts.iter().any(|(_, slot)| *slot == Some(Placeholder::Offer))
    }

    /// The approximate length of a filled page in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Appends the page, filled in.
    pub(super) fn fill(&self, out: &mut String, format: ResponseFormat, details: &ProblemDetails<'_>) {
        for (text, slot) in &self.parts {
            out.push_str(text);
            match slot {
                Some(Placeholder::RetryAfter) => push_number(out, details.retry_after.unwrap_or_default()),
                Some(Placeholder::Wait) => {
                    push(out, format, &details.texts.wait(details.retry_after.unwrap_or_default()));
                }
                Some(Placeholder::Limit) => {
                    push(out, format, details.limits.iter().flatten().next().unwrap_or(&""))
                }
                Some(Placeholder::RequestId) => push_value(out, format, details.request_id),
                Some(Placeholder::Title) => push(out, format, details.title),
                Some(Placeholder::Detail) => details.push_detail(out),
                Some(Placeholder::Contact) => push(out, format, details.contact.unwrap_or_default()),
                Some(Placeholder::Offer) => {
                    details.offer.iter().for_each(|(page, shown)| page.push(out, details.texts, shown));
                }
                None => {}
            }
        }
    }
}

impl Placeholder {
    fn named(name: &str) -> Option<Self> {
        Some(match name.trim() {
            "retry_after" => Self::RetryAfter,
            "wait" => Self::Wait,
            "limit" => Self::Limit,
            "request_id" => Self::RequestId,
            "title" => Self::Title,
            "detail" => Self::Detail,
            "contact" => Self::Contact,
            name if name == OFFER.placeholder => Self::Offer,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};
    use smallvec::smallvec;

    use super::super::language::Language;
    use super::super::texts::Texts;
    use super::*;

    fn filled(page: &str, format: ResponseFormat, request_id: &'static str) -> String {
        let details = ProblemDetails {
            kind: "about:blank",
            title: "T & C",
            status: StatusCode::TOO_MANY_REQUESTS,
            detail: "",
            retry_after: Some(80),
            limits: Some(smallvec!["addr<ess", "other"]),
            request_id: &HeaderValue::from_static(request_id),
            contact: None,
            texts: &Texts::built_in(Language::default()),
            offer: None,
        };
        let mut out = String::new();
        Template::parse(page).fill(&mut out, format, &details);
        out
    }

    #[test]
    fn places_are_filled_and_escaped_for_the_form() {
        let page = "{{title}}: {{ retry_after }} ({{wait}}) {{limit}} {{request_id}}. {{detail}}";
        assert_eq!(
            filled(page, ResponseFormat::Html, "<i>"),
            "T &amp; C: 80 (1 minute 20 seconds) addr&lt;ess &lt;i&gt;. Wait 80 seconds, then try again."
        );
        assert_eq!(
            filled("{\"id\":\"{{request_id}}\"}", ResponseFormat::Json, "a\"b\\c"),
            "{\"id\":\"a\\\"b\\\\c\"}"
        );
    }

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        assert_eq!(filled("{{request_id}}", ResponseFormat::Text, "{{limit}}"), "{{limit}}");
    }

    #[test]
    fn unknown_and_unfinished_places_stay_as_written() {
        for page in ["", "{{", "}}", "{{{{", "{{name}} {{", "a {{ b { c }} d", "{{\u{e9}}}"] {
            assert_eq!(filled(page, ResponseFormat::Text, "id"), page);
        }
        assert_eq!(filled("{{{{limit}}}}", ResponseFormat::Text, "id"), "{{addr<ess}}");
        assert_eq!(filled("{{x {{retry_after}}", ResponseFormat::Text, "id"), "{{x 80");
    }
}
