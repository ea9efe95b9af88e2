//! The headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
//!
//! Both are lists of structured fields (RFC 9651). They do not show limits that only observe, because these refuse no request, nor
//! limits of accounts, which would tell an attacker about accounts.

use std::cmp::Reverse;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::escape::push_number;
use crate::engine::LimitStatus;
use crate::policy::Policy;

/// Both headers of one attempt.
#[derive(Debug, Clone)]
pub struct RateLimitHeaders {
    /// The limits: `"address";q=10;w=300`.
    pub policy: HeaderValue,
    /// The tokens left: `"address";r=0;t=21`.
    pub limit: HeaderValue,
}

/// Both headers for an attempt; `None` if no limit is shown.
#[must_use]
pub fn rate_limit_headers(policy: &Policy, statuses: &[LimitStatus]) -> Option<RateLimitHeaders> {
    let mut text = String::with_capacity(64 * statuses.len());
    push_policy(&mut text, policy, statuses);
    if text.is_empty() {
        return None;
    }
    let middle = text.len();
    push_limit(&mut text, policy, statuses, true);
    let text = Bytes::from(text);
    let value = |part| HeaderValue::from_maybe_shared(part).ok();
    Some(RateLimitHeaders { policy: value(text.slice(..middle))?, limit: value(text.slice(middle..))? })
}

impl RateLimitHeaders {
    /// Adds both headers to a response. The application's own stay: a list may have several lines.
    pub fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATE_LIMIT_POLICY, self.policy);
        headers.append(RATE_LIMIT, self.limit);
    }
}

/// Appends the value of `RateLimit-Policy`: q is the burst, w the seconds to refill it.
pub(super) fn push_policy(out: &mut String, policy: &Policy, statuses: &[LimitStatus]) {
    push_items(out, policy, statuses, |out, status| {
        let spec = &status.charge.spec;
        push_parameter(out, ";q=", spec.burst().into());
        push_parameter(out, ";w=", spec.window().as_secs_ceil());
    });
}

/// Appends the value of `RateLimit`: r is the whole tokens left, t the seconds to the next one, if `timed`.
pub(super) fn push_limit(out: &mut String, policy: &Policy, statuses: &[LimitStatus], timed: bool) {
    push_items(out, policy, statuses, |out, status| {
        push_parameter(out, ";r=", status.verdict.left.into());
        if timed {
            push_parameter(out, ";t=", status.verdict.next_token.as_secs_ceil());
        }
    });
}

fn push_items(
    out: &mut String,
    policy: &Policy,
    statuses: &[LimitStatus],
    parameters: impl Fn(&mut String, &LimitStatus),
) {
    let start = out.len();
    // A limit charges several buckets if a header of its key was sent twice: the one with the fewest tokens is shown.
    for same_limit in statuses.chunk_by(|one, next| one.charge.limit == next.charge.limit) {
        let scarcest = same_limit.iter().min_by_key(|s| (s.verdict.left, Reverse(s.verdict.next_token)));
        let Some(status) = scarcest.filter(|status| status.charge.effect.is_enforced()) else { continue };
        let limit = policy.limits.get(status.charge.limit).filter(|limit| limit.is_shown());
        let Some(limit) = limit else { continue };
        out.push_str(if out.len() == start { "\"" } else { ", \"" });
        push_string(out, &limit.name);
        out.push('"');
        parameters(out, status);
    }
}

/// Appends the content of a String (RFC 9651, section 3.3.3), which is printable ASCII.
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
