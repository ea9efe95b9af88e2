//! The part of a refusal's page that offers another attempt, as the list of [`defences`](crate::defences) has it.
//!
//! The policy's pardon makes what is offered, and `engine` asks it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::texts::Texts;
use crate::defences::OFFER;

/// The text before and after an offer, which needs no escaping.
pub(super) fn parts(texts: &Texts) -> [String; 2] {
    let place = format!("{{{{{}}}}}", OFFER.placeholder);
    let (before, after) = OFFER.html.split_once(&place).unwrap_or((OFFER.html, ""));
    [before.to_owned(), texts.translate(after).replace("{{script}}", OFFER.script)]
}

/// The source of the script for a Content-Security-Policy: its hash (CSP Level 3, 2.3.1).
pub(super) fn script_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(OFFER.script)))
}
