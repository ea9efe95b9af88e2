//! The part of a refusal's page that offers an attempt for a proof of work: a button, and the only script of the gate.
//!
//! The script works within the page: it loads no other file, and needs no worker, cookie or storage. Browsers without scripts do not
//! show this part. `engine` makes the challenge.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::texts::Texts;

/// What stands before and behind a challenge, which needs no escaping.
pub(super) fn parts(texts: &Texts) -> [String; 2] {
    let (before, after) = FORM.split_once("{{challenge}}").unwrap_or((FORM, ""));
    [before.to_owned(), texts.translate(after).replace("{{script}}", SCRIPT)]
}

/// The source of the script for a Content-Security-Policy: its hash (CSP Level 3, 2.3.1).
pub(super) fn script_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(SCRIPT)))
}

const FORM: &str = include_str!("../../../assets/challenge.html");
const SCRIPT: &str = include_str!("../../../assets/challenge.js");
