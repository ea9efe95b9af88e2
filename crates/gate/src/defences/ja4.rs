//! `key = "ja4+..."`: what a limit by the fingerprint of a client's TLS needs next to it.
//!
//! A fingerprint names a program: all its users have the same, and a client can send another. So it divides other buckets
//! and never makes a bucket alone. `net/tls/with_rustls/ja4.rs` reads it.

use tollgate_grammar::Findings;

use super::KeyedLimit;
use crate::policy::Limit;
use crate::policy::client_fact::ClientFact;
use crate::policy::key::KeyPart;

/// Checks the limits that tell clients apart by it, and says whether there are any. `has_tls`: whether a listener has it.
pub fn fingerprints(limits: &[KeyedLimit<'_>], has_tls: bool, f: &mut Findings) -> bool {
    let mut has_any = false;
    for KeyedLimit { limit, key } in limits.iter().filter(|of| is_by_fingerprint(of.limit)) {
        has_any = true;
        if limit.key.iter().all(|part| matches!(part, KeyPart::Fact(ClientFact::Ja4) | KeyPart::Host)) {
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
pub fn is_by_fingerprint(limit: &Limit) -> bool {
    limit.key.contains(&KeyPart::Fact(ClientFact::Ja4))
}
