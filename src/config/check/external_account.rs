//! `tls.acme.eab`: the account at an authority to which the gate's own account belongs (external account binding).
//!
//! The key is a secret: no message shows it. When it is used is left to `app/acme/authority.rs`.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, RawNamed};

use super::super::raw::RawEab;
use super::super::values::KeyId;
use super::files::Files;
use super::secret::resolve;
use crate::net::tls::ExternalAccount;

/// `None` after a mistake was reported, or if files are not read.
pub(super) fn check(
    RawNamed { name, value: raw }: &RawNamed<RawEab>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<ExternalAccount> {
    for (key, is_there) in [("key_id", raw.key_id.is_some()), ("key", raw.key.is_some())] {
        if !is_there {
            f.error(&name.spot, format!("`{key}` is missing"), EXAMPLE);
        }
    }
    let key_id = raw.key_id.checked(f);
    let secret = raw.key.as_ref()?;
    let (text, origin) = resolve(secret, files, f)?;
    match decoded(text.trim()) {
        Some(key) => key_id.map(|KeyId(key_id)| ExternalAccount { key_id, key }),
        None => {
            f.error(&secret.spot, format!("{origin} is not a key in base64"), "as the authority shows it");
            None
        }
    }
}

/// RFC 8555 has the letters of URLs and no padding; some authorities show others.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
    let is_sane = (1..=MAX_LETTERS).contains(&text.len());
    BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|_| is_sane)
}

const MAX_LETTERS: usize = 1024;
const EXAMPLE: &str = "as in eab = { key_id = \"kid-1\", key = \"${file:eab.key}\" }";
