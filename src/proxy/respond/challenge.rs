//! The part of a refusal's page that offers an attempt for a proof of work: a button, and the only script of the gate.
//!
//! The script works on the page itself: it asks for no other file, and needs no worker, cookie or storage. Without scripts
//! the part is not shown. Which challenge it is, is left to `engine`.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Appends the part with this challenge, which needs no escaping.
pub(super) fn push(out: &mut String, challenge: &str) {
    let [before, after] = &*PART;
    out.push_str(before);
    out.push_str(challenge);
    out.push_str(after);
}

/// The source of the script for a Content-Security-Policy: its hash (CSP Level 3, 2.3.1).
pub(super) fn script_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(SCRIPT)))
}

static PART: LazyLock<[String; 2]> = LazyLock::new(|| {
    let (before, after) = FORM.split_once("{{challenge}}").unwrap_or((FORM, ""));
    [before.to_owned(), after.replace("{{script}}", SCRIPT)]
});

const FORM: &str = include_str!("../../../assets/challenge.html");
const SCRIPT: &str = include_str!("../../../assets/challenge.js");
