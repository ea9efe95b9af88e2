//! Generated responses: refusals and errors.
//!
//! Pure functions from what is known to a finished response; no socket, no clock, no randomness. No answer names a
//! version, an address or a path: the link back to the form is an empty reference, which a browser resolves to the
//! page it is on, so nothing has to be echoed. The surprising thing: all values of an answer that are not constant
//! are written into one string and cut out of it, because a refusal is what the gate gives most often.

mod accept;
mod builder;
mod cache;
mod details;
mod escape;
mod problem;
mod rate_limit;
mod raw;
mod template;
mod wait;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

pub use self::cache::RefusalCache;
pub use self::problem::ProblemKind;
pub use self::rate_limit::{RateLimitHeaders, rate_limit_headers};
pub use self::raw::raw_problem;
pub use self::template::Template;

use self::accept::ResponseFormat;
use self::builder::ResponseBuilder;
use self::details::ProblemDetails;
use crate::engine::Refusal;
use crate::policy::Policy;
use crate::time::Span;

/// What the file says about refusals: `[refuse]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseSettings {
    /// The status of a refusal, 4xx or 5xx.
    pub status: StatusCode,
    /// A page of the site's own instead of the built-in one.
    pub html: Option<Template>,
    /// Likewise for programs.
    pub json: Option<Template>,
    /// Likewise for the rest.
    pub text: Option<Template>,
    /// When `RateLimit` and `RateLimit-Policy` are sent.
    pub headers: ShowLimits,
    /// How long a refusal is held before it is sent.
    pub delay: Span,
    /// Up to this many thousandths of the wait are added to `Retry-After`.
    pub jitter_permille: u32,
}

/// When `RateLimit` and `RateLimit-Policy` are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowLimits {
    /// With refusals.
    Refused,
    /// With every attempt's answer.
    Always,
    /// Not at all.
    Never,
}

/// What of a request shapes the gate's own answer to it.
#[derive(Debug, Clone, Copy)]
pub struct Negotiation<'a> {
    /// The first `Accept` header: decides between HTML, JSON and text.
    pub accept: Option<&'a HeaderValue>,
    /// Whether the method is `HEAD`: the same headers, no body.
    pub head: bool,
    /// The identity of the request, named in the answer.
    pub request_id: &'a HeaderValue,
}

/// The answer to a refused attempt: `refuse.status` with `Retry-After`, unless waiting does not help: then nothing of it
/// speaks of a time.
#[must_use]
pub fn refusal(
    settings: &RefuseSettings,
    policy: &Policy,
    refusal: &Refusal,
    asked: &Negotiation<'_>,
) -> Response<Bytes> {
    let form = ResponseFormat::preferred(asked.accept);
    let retry_after = wait::shown_wait(policy, refusal)
        .map(|wait| wait::retry_after(wait, settings.jitter_permille, asked.request_id.as_bytes()));
    let limits = refusal.violated().filter_map(|standing| policy.limits.get(standing.charge.limit));
    let shown = limits.filter(|limit| !limit.is_hidden());
    let mut limits: SmallVec<[&str; 4]> = shown.map(|limit| &*limit.name).collect();
    limits.dedup();
    let message = ProblemDetails {
        kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "Too many sign-in attempts",
        status: settings.status,
        detail: if retry_after.is_some() { "" } else { TIME_DOES_NOT_HELP },
        retry_after,
        limits: Some(limits),
        request_id: asked.request_id,
    };
    // A page of the site's own speaks of a wait; where there is none, the built-in one tells the truth.
    let own = settings.own(form).filter(|_| retry_after.is_some());
    let mut draft = ResponseBuilder::new(&message, form, own, asked.head);
    if settings.headers != ShowLimits::Never {
        draft.rate_limits(policy, &refusal.statuses, retry_after.is_some());
    }
    draft.finish()
}

/// The answer where the gate itself has to say that something went wrong.
#[must_use]
pub fn problem(problem: ProblemKind, asked: &Negotiation<'_>) -> Response<Bytes> {
    let message = problem.message(asked.request_id);
    let mut draft = ResponseBuilder::new(&message, ResponseFormat::preferred(asked.accept), None, asked.head);
    if problem == ProblemKind::MethodNotAllowed {
        draft.allow(problem::ALLOWED_METHODS);
    }
    draft.finish()
}

impl RefuseSettings {
    fn own(&self, form: ResponseFormat) -> Option<&Template> {
        match form {
            ResponseFormat::Html => self.html.as_ref(),
            ResponseFormat::Json => self.json.as_ref(),
            ResponseFormat::Text => self.text.as_ref(),
        }
    }
}

impl Default for RefuseSettings {
    fn default() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            html: None,
            json: None,
            text: None,
            headers: ShowLimits::Refused,
            delay: Span::ZERO,
            jitter_permille: 0,
        }
    }
}

/// The same words whatever it is that does not open with time: an account's row of failures, or an attempt that costs
/// more than a bucket holds.
const TIME_DOES_NOT_HELP: &str = "Waiting does not help here. Please ask the operator of this site.";

#[cfg(test)]
mod tests;
