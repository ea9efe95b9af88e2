//! The answers of Envoy's rate limit service, version 3 (`envoy/service/ratelimit/v3/rls.proto`).
//!
//! Envoy may show the numbers of a status to its client (`enable_x_ratelimit_headers`), so they come only from limits that the gate
//! shows to clients. `grpc` writes the messages.

use std::cmp::Reverse;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;

use super::added_header::AddedHeader;
use super::rate_limit;
use crate::bucket::{Admission, Spec};
use crate::engine::LimitStatus;
use crate::policy::Policy;
use crate::time::Span;

/// `RateLimitResponse`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(in crate::proxy) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::proxy) statuses: Vec<DescriptorStatus>,
    /// For the client.
    #[prost(message, repeated, tag = "3")]
    response_headers_to_add: Vec<AddedHeader>,
    /// For the application.
    #[prost(message, repeated, tag = "4")]
    request_headers_to_add: Vec<AddedHeader>,
}

/// `RateLimitResponse.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(in crate::proxy) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

/// `RateLimitResponse.DescriptorStatus`.
#[derive(Clone, PartialEq, Message)]
pub(in crate::proxy) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<CurrentLimit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    duration_until_reset: Option<WholeSeconds>,
}

/// `RateLimitResponse.RateLimit`.
#[derive(Clone, PartialEq, Message)]
struct CurrentLimit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
    #[prost(string, tag = "3")]
    name: String,
}

/// `google.protobuf.Duration`, in whole seconds.
#[derive(Clone, Copy, PartialEq, Message)]
struct WholeSeconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl RateLimitResponse {
    /// An answer without statuses and headers.
    pub(in crate::proxy) fn with(code: Code) -> Self {
        Self { overall_code: code.into(), ..Self::default() }
    }

    /// Adds the limits that a refusal or an admission shows in these headers.
    pub(in crate::proxy) fn tell_client(&mut self, headers: &HeaderMap) {
        let limits = headers.iter().filter(|(name, _)| rate_limit::shows_limits(name));
        self.response_headers_to_add.extend(limits.filter_map(|(name, value)| AddedHeader::new(name, value)));
    }

    /// Adds the longest of these waits, in seconds; none if one of them is `None`.
    pub(in crate::proxy) fn tell_wait(&mut self, waits: impl Iterator<Item = Option<u64>>) {
        let longest = waits.reduce(|one, other| Some(one?.max(other?))).flatten();
        let header = longest.and_then(|seconds| AddedHeader::new(&RETRY_AFTER, &seconds.into()));
        self.response_headers_to_add.extend(header);
    }

    /// Adds a header for the application.
    pub(in crate::proxy) fn tell_application(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.request_headers_to_add.extend(AddedHeader::new(name, value));
    }
}

impl DescriptorStatus {
    /// The status of a descriptor that no limit counts, or that cannot be understood.
    pub(in crate::proxy) fn without_limit(code: Code) -> Self {
        Self { code: code.into(), ..Self::default() }
    }

    /// By the limits of an attempt.
    pub(in crate::proxy) fn of(code: Code, policy: &Policy, statuses: &[LimitStatus]) -> Self {
        let is_over = code == Code::OverLimit;
        let is_shown = |status: &&LimitStatus| {
            let limit = policy.limits.get(status.charge.limit);
            status.charge.effect.is_enforced()
                && status.refuses() == is_over
                && limit.is_some_and(|limit| limit.is_shown())
        };
        let shown = statuses.iter().filter(is_shown);
        let Some(status) = shown.min_by_key(|status| (status.verdict.left, Reverse(until_reset(status))))
        else {
            return Self::without_limit(code);
        };
        Self {
            code: code.into(),
            current_limit: CurrentLimit::of(policy, status),
            limit_remaining: if is_over { 0 } else { status.verdict.left },
            duration_until_reset: until_reset(status).map(WholeSeconds::from),
        }
    }
}

/// Until the limit admits one attempt more: as `t` of `RateLimit`, and what a refused one has to wait. `None` if waiting
/// does not help.
fn until_reset(status: &LimitStatus) -> Option<Span> {
    match status.verdict.admission {
        Admission::Admitted | Admission::Held { .. } => Some(status.verdict.next_token),
        Admission::Refused { wait } => Some(wait),
        Admission::NeverFits => None,
    }
}

impl CurrentLimit {
    /// `None` if the limit fills up in no unit of the protocol.
    fn of(policy: &Policy, status: &LimitStatus) -> Option<Self> {
        let unit = unit_of(&status.charge.spec)?;
        let name = policy.limits.get(status.charge.limit).map(|limit| limit.name.to_string());
        Some(Self { requests_per_unit: status.charge.spec.burst(), unit, name: name.unwrap_or_default() })
    }
}

/// `RateLimitResponse.RateLimit.Unit`.
fn unit_of(spec: &Spec) -> Option<i32> {
    let unit = UNITS.iter().find(|(_, seconds)| Span::from_secs(*seconds) == spec.window());
    unit.map(|(number, _)| *number)
}

impl From<Span> for WholeSeconds {
    fn from(span: Span) -> Self {
        Self { seconds: i64::try_from(span.as_secs_ceil()).unwrap_or(i64::MAX) }
    }
}

/// Seconds of each unit; a month and a year are those of Envoy's own service.
const UNITS: [(i32, u64); 7] =
    [(1, 1), (2, 60), (3, 3_600), (4, 86_400), (5, 30 * 86_400), (6, 365 * 86_400), (7, 7 * 86_400)];
