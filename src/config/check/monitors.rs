//! `[monitor.NAME]`: the keys of programs that sign their requests.
//!
//! They come from the file, or from a directory of keys next to it (draft-meunier-http-message-signatures-directory), which
//! is a set of JWK (RFC 7517, RFC 8037). Nothing is fetched.

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;
use tollgate_grammar::{Findings, Located, RawNamed, name};

use super::super::raw::RawMonitor;
use super::context::CheckContext;
use crate::proxy::request::signature::Monitors;

/// Who may sign requests; `None` if nobody may.
pub(super) fn check(cx: &mut CheckContext<'_>, f: &mut Findings) -> Option<Arc<Monitors>> {
    let raw = cx.raw;
    if raw.monitors.is_empty() {
        return None;
    }
    // A build that cannot check signatures is reported with the keys of TLS.
    let mut monitors = Monitors::new()?;
    for RawNamed { name, value } in &raw.monitors {
        name::check(name, f);
        let rate = format!("signed:{}", name.value);
        let mut rates = raw.limits.iter().flat_map(|limit| &limit.value.rates);
        if !rates.any(|given| given.name.value == rate) {
            let hint = format!("\"{rate}\" = \"60/min\" in [limit.NAME.rates] gives it one");
            f.warning(&name.spot, format!("no limit has a rate for monitor `{}`", name.value), hint);
        }
        let keys = keys(value, name, cx, f);
        let monitor: Arc<str> = name.value.as_str().into();
        if keys.into_iter().any(|key| !monitors.insert(&monitor, key)) {
            f.error(&name.spot, "another monitor has one of these keys", "a signature names its key alone");
        }
    }
    Some(Arc::new(monitors))
}

fn keys(
    raw: &RawMonitor,
    name: &Located<String>,
    cx: &mut CheckContext<'_>,
    f: &mut Findings,
) -> Vec<[u8; 32]> {
    let (place, keys) = match (&raw.key, &raw.keys) {
        (Some(key), None) => (key, keys_in(&key.value)),
        (None, Some(path)) => {
            let Some(text) = cx.files.text(&path.value, &path.spot, f) else { return Vec::new() };
            (path, keys_in(&text.text))
        }
        (Some(key), Some(_)) => {
            f.error(&key.spot, "`key` and `keys` are both there", "one of them");
            return Vec::new();
        }
        (None, None) => {
            f.error(&name.spot, format!("monitor `{}` has no key", name.value), EXAMPLE);
            return Vec::new();
        }
    };
    keys.unwrap_or_else(|why| {
        f.error(&place.spot, why, EXAMPLE);
        Vec::new()
    })
}

/// The keys of a text: a directory, a JWK, or a public key in base64.
fn keys_in(text: &str) -> Result<Vec<[u8; 32]>, &'static str> {
    if !text.trim_start().starts_with('{') {
        return Ok(vec![public_key(text.trim())?]);
    }
    let document: Value = serde_json::from_str(text).map_err(|_| "this is not JSON")?;
    let entries = match document.get("keys") {
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(_) => return Err("`keys` of this document is no list"),
        None => std::slice::from_ref(&document),
    };
    if entries.iter().any(|entry| entry.get("d").is_some()) {
        return Err("this has a private key: the gate needs the public one, without `d`");
    }
    let is_ed25519 = |entry: &&Value| entry["kty"] == "OKP" && entry["crv"] == "Ed25519";
    let known =
        entries.iter().filter(is_ed25519).map(|entry| public_key(entry["x"].as_str().unwrap_or_default()));
    match known.collect::<Result<Vec<_>, _>>()? {
        keys if keys.is_empty() => Err("this has no key of Ed25519"),
        keys if keys.len() > MAX_KEYS => Err("this has more than 64 keys"),
        keys => Ok(keys),
    }
}

fn public_key(text: &str) -> Result<[u8; 32], &'static str> {
    let text = text.replace('+', "-").replace('/', "_");
    let bytes = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or("this is not a public key of Ed25519: 32 bytes in base64")
}

/// Both alphabets, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const EXAMPLE: &str =
    "as in key = \"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs\", or keys = \"directory.json\"";
/// Keys of one monitor.
const MAX_KEYS: usize = 64;
