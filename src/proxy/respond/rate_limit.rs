//! The headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
//!
//! Both are lists of structured fields (RFC 9651). Limits that only observe are not shown: they limit nobody. Neither
//! are those of accounts: nobody is to learn of them.

use std::cmp::Reverse;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::escape::push_number;
use crate::engine::LimitStatus;
use crate::policy::Policy;

/// Both headers of one attempt.
#[derive(Debug, Clone)]
pub struct RateLimitHeaders {
    /// What is promised: `"address";q=10;w=300`.
    pub policy: HeaderValue,
    /// What is left: `"address";r=0;t=21`.
    pub limit: HeaderValue,
}

/// Both headers for an attempt; `None` if no limit shows itself.
#[must_use]
pub fn rate_limit_headers(policy: &Policy, standings: &[LimitStatus]) -> Option<RateLimitHeaders> {
    let mut text = String::with_capacity(64 * standings.len());
    push_policy(&mut text, policy, standings);
    if text.is_empty() {
        return None;
    }
    let middle = text.len();
    push_limit(&mut text, policy, standings, true);
    let text = Bytes::from(text);
    let value = |part| HeaderValue::from_maybe_shared(part).ok();
    Some(RateLimitHeaders { policy: value(text.slice(..middle))?, limit: value(text.slice(middle..))? })
}

impl RateLimitHeaders {
    /// Adds both to an answer. Those of the application stay: a list may come in several lines.
    pub fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATE_LIMIT_POLICY, self.policy);
        headers.append(RATE_LIMIT, self.limit);
    }
}

/// Appends the value of `RateLimit-Policy`: q is the burst, w the seconds to refill it.
pub(super) fn push_policy(out: &mut String, policy: &Policy, standings: &[LimitStatus]) {
    push_items(out, policy, standings, |out, standing| {
        let spec = &standing.charge.spec;
        push_parameter(out, ";q=", spec.burst().into());
        push_parameter(out, ";w=", spec.window().as_secs_ceil());
    });
}

/// Appends the value of `RateLimit`: r is the whole tokens left, t the seconds to the next one, where that is of use.
pub(super) fn push_limit(out: &mut String, policy: &Policy, standings: &[LimitStatus], timed: bool) {
    push_items(out, policy, standings, |out, standing| {
        push_parameter(out, ";r=", standing.verdict.left.into());
        if timed {
            push_parameter(out, ";t=", standing.verdict.next_token.as_secs_ceil());
        }
    });
}

fn push_items(
    out: &mut String,
    policy: &Policy,
    standings: &[LimitStatus],
    parameters: impl Fn(&mut String, &LimitStatus),
) {
    let start = out.len();
    // A limit may have charged several buckets, where a header that makes its key was sent twice: the scarcest shows.
    for same_limit in standings.chunk_by(|one, next| one.charge.limit == next.charge.limit) {
        let scarcest = same_limit.iter().min_by_key(|s| (s.verdict.left, Reverse(s.verdict.next_token)));
        let Some(standing) = scarcest.filter(|standing| standing.charge.enforce) else { continue };
        let limit = policy.limits.get(standing.charge.limit).filter(|limit| limit.is_shown());
        let Some(limit) = limit else { continue };
        out.push_str(if out.len() == start { "\"" } else { ", \"" });
        push_string(out, &limit.name);
        out.push('"');
        parameters(out, standing);
    }
}

/// The inside of a String (RFC 9651, section 3.3.3), which knows nothing but printable ASCII.
fn push_string(out: &mut String, name: &str) {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return out.push_str(name);
    }
    for letter in name.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            _ => out.push('?'),
        }
    }
}

fn push_parameter(out: &mut String, name: &str, number: u64) {
    out.push_str(name);
    push_number(out, number);
}

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
