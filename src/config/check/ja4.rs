//! `key = "ja4+..."`: what such a limit needs next to it.
//!
//! A fingerprint names a program: all its users have the same, and a client can send another. So it divides other buckets
//! and never makes a bucket alone.

use tollgate_grammar::{Findings, RawNamed};

use super::context::CheckContext;
use crate::net::listener::ListenAddress;
use crate::policy::Limit;
use crate::policy::key::KeyPart;

/// Checks the limits that tell clients apart by JA4, and says whether there are any.
pub(super) fn check(cx: &CheckContext<'_>, f: &mut Findings) -> bool {
    let has_tls = cx.listen.iter().any(ListenAddress::is_tls);
    let mut has_any = false;
    for (RawNamed { name, value: raw }, limit) in cx.raw.limits.iter().zip(&cx.limits) {
        let Some(limit) = limit.as_ref().filter(|limit| has_ja4(limit)) else { continue };
        has_any = true;
        let key = raw.key.as_ref().map_or(&name.spot, |key| &key.spot);
        if limit.key.iter().all(|part| matches!(part, KeyPart::Ja4 | KeyPart::Host)) {
            let message = "all users of one browser would share a bucket by `ja4`";
            f.error(key, message, "join it to what tells clients or accounts apart: key = \"ja4+user\"");
        }
        if !has_tls {
            let message = "no client shows a fingerprint: a listener with TLS is missing";
            f.error(key, message, "as in listen = \"https://[::]:443\"");
        }
    }
    has_any
}

/// Whether a limit tells clients apart by it.
pub(super) fn has_ja4(limit: &Limit) -> bool {
    limit.key.contains(&KeyPart::Ja4)
}
