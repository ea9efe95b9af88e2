//! Problem details (RFC 9457): the content of a generated response, and its JSON and text. `template` renders the
//! pages.

use http::{HeaderValue, StatusCode};
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::escape::{push, push_number, push_urn};
use super::offer::{OfferTexts, ShownOffer};
use super::retry_after::push_count;
use super::texts::Texts;

/// The content of a generated response.
#[derive(Debug)]
pub(super) struct ProblemDetails<'a> {
    /// The problem type (RFC 9457), a URI.
    pub(super) kind: &'static str,
    /// A few words, always the same for this kind.
    pub(super) title: &'static str,
    pub(super) status: StatusCode,
    /// A sentence or two; the wait is appended.
    pub(super) detail: &'static str,
    /// The wait in whole seconds, at least 1.
    pub(super) retry_after: Option<u64>,
    /// The limits that refused, without hidden ones; `None` for an error.
    pub(super) limits: Option<SmallVec<[&'a str; 4]>>,
    pub(super) request_id: &'a HeaderValue,
    /// Whom a person can ask.
    pub(super) contact: Option<&'a str>,
    /// The words for a wait.
    pub(super) texts: &'a Texts,
    /// What the page offers, and the text around it.
    pub(super) offer: Option<(&'a OfferTexts, ShownOffer<'a>)>,
}

impl ProblemDetails<'_> {
    /// The detail and the wait, as one line that needs no escaping.
    pub(super) fn push_detail(&self, out: &mut String) {
        out.push_str(self.detail);
        let Some(seconds) = self.retry_after else { return };
        if !self.detail.is_empty() {
            out.push(' ');
        }
        out.push_str("Wait ");
        push_count(out, seconds, "second");
        out.push_str(", then try again.");
    }

    /// Title and detail, a line each.
    pub(super) fn push_text(&self, out: &mut String) {
        out.push_str(self.title);
        out.push_str(".\n");
        self.push_detail(out);
        out.push('\n');
        if let Some(contact) = self.contact {
            out.push_str("Need help? Ask ");
            push(out, ResponseFormat::Text, contact);
            out.push_str(".\n");
        }
    }

    /// Problem details (RFC 9457) with `violated-policies` (draft-ietf-httpapi-ratelimit-headers).
    pub(super) fn push_json(&self, out: &mut String) {
        out.push_str("{\"type\":\"");
        out.push_str(self.kind);
        out.push_str("\",\"title\":\"");
        out.push_str(self.title);
        out.push_str("\",\"status\":");
        push_number(out, self.status.as_u16().into());
        out.push_str(",\"detail\":\"");
        self.push_detail(out);
        out.push('"');
        if let Some(seconds) = self.retry_after {
            out.push_str(",\"retry_after\":");
            push_number(out, seconds);
        }
        if let Some(limits) = &self.limits {
            out.push_str(",\"violated-policies\":[");
            for (index, name) in limits.iter().enumerate() {
                out.push_str(if index == 0 { "\"" } else { ",\"" });
                push(out, ResponseFormat::Json, name);
                out.push('"');
            }
            out.push(']');
        }
        if let Some(contact) = self.contact {
            out.push_str(",\"contact\":\"");
            push(out, ResponseFormat::Json, contact);
            out.push('"');
        }
        out.push_str(",\"instance\":\"urn:request:");
        push_urn(out, self.request_id);
        out.push_str("\"}");
    }
}
