//! The part of a refusal's page that offers another attempt, as the list of [`defences`](crate::defences) has it.
//!
//! The policy's pardon makes what is offered, and `engine` asks it. A form without a script names the query of the request, the only
//! part of one that a page repeats.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::accept::ResponseFormat;
use super::escape::push;
use super::texts::Texts;
use crate::defences::OFFER;
use crate::policy::Offer;

/// What is offered to a request.
#[derive(Debug, Clone, Copy)]
pub struct ShownOffer<'a> {
    /// What the policy's pardon offers.
    pub offer: &'a Offer,
    /// Where the form of a pause leads: the query of the refused request, with the ticket.
    pub action: &'a str,
}

/// The text around the places of an offer, in one language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfferTexts {
    /// Before the task, before the pause, and at the end.
    parts: [String; 3],
    /// Before the target of the form, before the time, and behind it.
    pause: [String; 3],
}

impl OfferTexts {
    pub(super) fn new(texts: &Texts) -> Self {
        let task = format!("{{{{{}}}}}", OFFER.placeholder);
        let page = texts.translate(OFFER.html).replace("{{script}}", OFFER.script);
        let parts = split(&page, [&task, "{{pause}}"]);
        Self { parts, pause: split(&texts.translate(OFFER.pause), ["{{action}}", "{{wait}}"]) }
    }

    /// Appends what is offered.
    pub(super) fn push(&self, out: &mut String, texts: &Texts, shown: &ShownOffer<'_>) {
        let [before, between, after] = &self.parts;
        out.extend([before.as_str(), &shown.offer.task, between]);
        if let Some(offered) = &shown.offer.pause {
            let [form, text, end] = &self.pause;
            out.push_str(form);
            push(out, ResponseFormat::Html, shown.action);
            out.push_str(text);
            push(out, ResponseFormat::Html, &texts.wait(offered.left.as_secs_ceil()));
            out.push_str(end);
        }
        out.push_str(after);
    }
}

/// The text before the first place, between both, and behind the second one.
fn split(page: &str, [first, second]: [&str; 2]) -> [String; 3] {
    let (before, rest) = page.split_once(first).unwrap_or((page, ""));
    let (between, after) = rest.split_once(second).unwrap_or((rest, ""));
    [before, between, after].map(str::to_owned)
}

/// The source of the script for a Content-Security-Policy: its hash (CSP Level 3, 2.3.1).
pub(super) fn script_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(OFFER.script)))
}
