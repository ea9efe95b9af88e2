//! The monitors of the file, and which of them signed a request: HTTP Message Signatures (RFC 9421) by Ed25519, as Web Bot
//! Auth has them (draft-meunier-web-bot-auth-architecture).
//!
//! A signature may be sent again by anyone who sees it, until it expires and to the same authority. So it has to expire
//! soon, and gives nothing but another rate. Whatever does not verify is no signature. At most one is verified each
//! time a request is read, by its head and again with its body, and only for a key of the file. `base` makes the text that is signed.

mod base;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, Request};
use sfv::{Dictionary, InnerList, Key, ListEntry, Parser};
use sha2::{Digest as _, Sha256};

use self::base::{joined, signature_base};
use crate::net::tls::Ed25519;
use crate::time::{Span, Time};

/// The keys of monitors.
#[derive(Debug, Clone)]
pub struct Monitors {
    verifier: Ed25519,
    /// By the thumbprint of the key (RFC 7638), which signatures name.
    keys: HashMap<Box<str>, MonitorKey>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MonitorKey {
    monitor: Arc<str>,
    public: [u8; 32],
}

/// The signer of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signer {
    /// No monitor of the file, by its `keyid`.
    Unknown,
    /// It names the key of one, but the signature does not hold.
    Invalid,
    Monitor(Arc<str>),
}

impl Monitors {
    /// Without keys; `None` in a build that cannot check signatures.
    #[must_use]
    pub fn new() -> Option<Self> {
        Some(Self { verifier: Ed25519::new()?, keys: HashMap::new() })
    }

    /// Adds a key of a monitor. Returns whether no other monitor has it.
    pub fn insert(&mut self, monitor: &Arc<str>, public: [u8; 32]) -> bool {
        let new = MonitorKey { monitor: Arc::clone(monitor), public };
        self.keys.entry(thumbprint(&public).into()).or_insert(new).monitor == *monitor
    }

    /// Whether a request may be signed by one of them.
    pub(in crate::proxy) fn may_have_signed(headers: &HeaderMap) -> bool {
        headers.contains_key(SIGNATURE_INPUT)
    }

    /// The signer of a request. `is_secure`: whether its client uses HTTPS.
    pub(super) fn signer_of<B>(&self, request: &Request<B>, is_secure: bool, now: Time) -> Signer {
        let headers = request.headers();
        let inputs = dictionary(headers, SIGNATURE_INPUT);
        let Some((label, input, key)) = inputs.as_ref().and_then(|inputs| self.named_in(inputs)) else {
            return Signer::Unknown;
        };
        let signature = dictionary(headers, SIGNATURE).and_then(|all| byte_sequence(&all, label));
        let holds = signature.is_some_and(|signature| {
            is_in_time(input, now)
                && is_plain_ed25519(input)
                && covers_enough(input, headers)
                && signature_base(request, is_secure, input)
                    .is_some_and(|base| self.verifier.verifies(&key.public, &base, &signature))
        });
        if holds { Signer::Monitor(Arc::clone(&key.monitor)) } else { Signer::Invalid }
    }

    /// The first signature of Web Bot Auth that names a known key.
    fn named_in<'i>(&self, inputs: &'i Dictionary) -> Option<(&'i Key, &'i InnerList, &MonitorKey)> {
        inputs.iter().find_map(|(label, entry)| {
            let ListEntry::InnerList(input) = entry else { return None };
            let key = self.keys.get(text(input, "keyid")?)?;
            (text(input, "tag") == Some(TAG)).then_some((label, input, key))
        })
    }
}

impl PartialEq for Monitors {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

/// RFC 7638 and RFC 8037, A.3.
fn thumbprint(public: &[u8; 32]) -> String {
    let x = BASE64_URL_SAFE_NO_PAD.encode(public);
    let jwk = format!("{{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"{x}\"}}");
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(jwk))
}

/// Whether it was made before now, as far as clocks agree, and expires soon after.
fn is_in_time(input: &InnerList, now: Time) -> bool {
    let seconds = |name| input.params.get(name)?.as_integer().and_then(|value| u64::try_from(value).ok());
    let (Some(created), Some(expires)) = (seconds("created"), seconds("expires")) else { return false };
    let time = |seconds| Time::from_nanos(0).after(Span::from_secs(seconds));
    created < expires
        && time(created) <= now.after(MAX_SKEW)
        && time(expires) > now
        && time(expires) <= now.after(MAX_AHEAD).after(MAX_SKEW)
}

/// Whether no other algorithm is named.
fn is_plain_ed25519(input: &InnerList) -> bool {
    input.params.get("alg").is_none_or(|alg| alg.as_string().is_some_and(|alg| alg.as_str() == "ed25519"))
}

/// Whether it is for one host, and for one agent if the request names one.
fn covers_enough(input: &InnerList, headers: &HeaderMap) -> bool {
    let covers =
        |name| input.items.iter().any(|item| item.bare_item.as_string().is_some_and(|s| s.as_str() == name));
    covers("@authority") && (covers(SIGNATURE_AGENT) || !headers.contains_key(SIGNATURE_AGENT))
}

fn text<'i>(input: &'i InnerList, name: &str) -> Option<&'i str> {
    input.params.get(name)?.as_string().map(|text| text.as_str())
}

fn byte_sequence(all: &Dictionary, label: &Key) -> Option<Vec<u8>> {
    let ListEntry::Item(item) = all.get(label)? else { return None };
    item.bare_item.as_byte_sequence().map(<[u8]>::to_vec)
}

/// A header as a dictionary (RFC 9651); `None` if it is none, or too long.
fn dictionary(headers: &HeaderMap, name: HeaderName) -> Option<Dictionary> {
    let length: usize = headers.get_all(&name).iter().map(|line| line.len() + 2).sum();
    let value = (length <= MAX_FIELD).then(|| joined(headers, &name))??;
    Parser::new(&value).parse().ok()
}

const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
const SIGNATURE: HeaderName = HeaderName::from_static("signature");
const SIGNATURE_AGENT: &str = "signature-agent";
const TAG: &str = "web-bot-auth";

/// Bytes of a header with signatures that are read.
const MAX_FIELD: usize = 4 * 1024;
/// How far ahead a signature may expire: so long it can be sent again.
const MAX_AHEAD: Span = Span::from_secs(300);
/// How far the clock of a monitor may be ahead.
const MAX_SKEW: Span = Span::from_secs(30);

#[cfg(test)]
mod tests;
