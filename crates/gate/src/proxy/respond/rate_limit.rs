//! The headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11), and their predecessors.
//!
//! Both are lists of structured fields (RFC 9651). They do not show limits that only observe, because these refuse no request, nor
//! limits of accounts, which would tell an attacker about accounts. The predecessors, `X-RateLimit-*`, have one limit.

use std::cmp::Reverse;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::ShowLimits;
use super::escape::push_number;
use crate::engine::LimitStatus;
use crate::policy::{Limit, Policy};

/// The headers of one attempt that passes.
#[derive(Debug, Clone)]
pub struct RateLimitHeaders {
    /// The limits: `"address";q=10;w=300`.
    pub policy: HeaderValue,
    /// The tokens left: `"address";r=0;t=21`.
    pub limit: HeaderValue,
    legacy: Option<LegacyLimit>,
}

/// The limit of `X-RateLimit-*`: of all that are shown the one that refuses, or else has the fewest tokens.
///
/// Some programs take `X-RateLimit-Reset` for a time of day, others for seconds; those for any server (ky,
/// ratelimit-header-parser) tell both apart by the size of the number. Seconds need no clock, and taken for a time of day they
/// are long past and not far in the future. In a refusal, `Retry-After` precedes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LegacyLimit {
    burst: u32,
    left: u32,
    /// Seconds to the next token.
    reset: u64,
}

/// Which effective windows a response names.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShownWindows {
    /// All: no `Retry-After` is next to them.
    All,
    /// Those that end within so many seconds, which `Retry-After` names: section 6 of the draft wants none that is longer.
    UpTo(u64),
    /// None: waiting does not help.
    None,
}

/// The headers for an attempt that passes; `None` if `shown` has none for it, or no limit is shown.
#[must_use]
pub fn rate_limit_headers(
    shown: ShowLimits,
    policy: &Policy,
    statuses: &[LimitStatus],
) -> Option<RateLimitHeaders> {
    if !shown.tells_admitted() {
        return None;
    }
    let mut text = String::with_capacity(64 * statuses.len());
    push_policy(&mut text, policy, statuses);
    if text.is_empty() {
        return None;
    }
    let middle = text.len();
    push_limit(&mut text, policy, statuses, ShownWindows::All);
    let text = Bytes::from(text);
    let value = |part| HeaderValue::from_maybe_shared(part).ok();
    let (policy_value, limit) = (value(text.slice(..middle))?, value(text.slice(middle..))?);
    let legacy = if shown == ShowLimits::Legacy { LegacyLimit::of(policy, statuses) } else { None };
    Some(RateLimitHeaders { policy: policy_value, limit, legacy })
}

impl RateLimitHeaders {
    /// The headers of the application that these replace: unlike a list, a number has one line.
    pub fn replaced(&self) -> impl Iterator<Item = HeaderName> + use<> {
        self.legacy.into_iter().flat_map(|_| LEGACY)
    }

    /// Adds the headers to a response. The application's own lists stay: a list may have several lines.
    pub fn append_to(self, headers: &mut HeaderMap) {
        headers.append(RATE_LIMIT_POLICY, self.policy);
        headers.append(RATE_LIMIT, self.limit);
        for (name, number) in self.legacy.into_iter().flat_map(LegacyLimit::numbers) {
            headers.insert(name, number.into());
        }
    }
}

impl LegacyLimit {
    /// `None` if no limit is shown.
    pub(super) fn of(policy: &Policy, statuses: &[LimitStatus]) -> Option<Self> {
        let shown = statuses.iter().filter(|status| shown_limit(policy, status).is_some());
        let key = |s: &&LimitStatus| (!s.refuses(), s.verdict.left, Reverse(s.verdict.next_token));
        shown.min_by_key(key).map(|LimitStatus { charge, verdict }| Self {
            burst: charge.spec.burst(),
            left: verdict.left,
            reset: verdict.next_token.as_secs_ceil(),
        })
    }

    /// The headers with their numbers.
    pub(super) fn numbers(self) -> [(HeaderName, u64); 3] {
        let [limit, remaining, reset] = LEGACY;
        [(limit, self.burst.into()), (remaining, self.left.into()), (reset, self.reset)]
    }
}

impl ShownWindows {
    /// Whether a window of so many seconds is named; that of a full bucket, for which no token is due, is none.
    fn include(self, seconds: u64) -> bool {
        match self {
            Self::All => seconds > 0,
            Self::UpTo(most) => (1..=most).contains(&seconds),
            Self::None => false,
        }
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

/// Appends the value of `RateLimit`: r is the whole tokens left, t the seconds to the next one.
pub(super) fn push_limit(out: &mut String, policy: &Policy, statuses: &[LimitStatus], windows: ShownWindows) {
    push_items(out, policy, statuses, |out, status| {
        push_parameter(out, ";r=", status.verdict.left.into());
        let seconds = status.verdict.next_token.as_secs_ceil();
        if windows.include(seconds) {
            push_parameter(out, ";t=", seconds);
        }
    });
}

/// The limit of a status, if responses show it.
fn shown_limit<'p>(policy: &'p Policy, status: &LimitStatus) -> Option<&'p Limit> {
    let limit = policy.limits.get(status.charge.limit)?;
    (status.charge.effect.is_enforced() && limit.is_shown()).then_some(limit)
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
        let Some(status) = scarcest else { continue };
        let Some(limit) = shown_limit(policy, status) else { continue };
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

/// Whether a header of this name shows limits.
pub(super) fn shows_limits(name: &HeaderName) -> bool {
    [RATE_LIMIT_POLICY, RATE_LIMIT].contains(name) || LEGACY.contains(name)
}

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
