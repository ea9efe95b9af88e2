//! Generated responses: refusals and errors.
//!
//! These are pure functions without sockets, clock or randomness; `transaction` sends the responses. No response names
//! a version, an address or a path: the link back to the form is an empty reference, which a browser resolves to the
//! current page, so nothing but the query of a refused form is echoed. Under attack most responses are refusals, so all variable values of one share a single string.

mod accept;
mod accept_language;
mod added_header;
mod builder;
mod cache;
mod checked;
mod contact;
mod cors;
mod descriptor_status;
mod details;
mod escape;
mod language;
mod mark;
mod offer;
mod pages;
mod problem;
mod processed;
mod rate_limit;
mod retry_after;
mod template;
mod texts;
mod without_request;

use std::sync::Arc;

use bytes::Bytes;
use http::header::ACCEPT_LANGUAGE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

pub(in crate::proxy) use self::added_header::{RequestChanges, show_limits, shown_limits, without_framing};
pub use self::cache::{CachedRefusal, RefusalCache, RenderedRefusal};
pub(in crate::proxy) use self::checked::CheckResponse;
pub use self::contact::Contact;
pub use self::cors::CorsPermission;
pub(in crate::proxy) use self::descriptor_status::{Code, DescriptorStatus, RateLimitResponse};
pub use self::language::Language;
pub use self::mark::refused_mark;
pub use self::offer::ShownOffer;
pub use self::pages::{LocalizedPages, PageLanguage};
pub use self::problem::ProblemKind;
pub(in crate::proxy) use self::processed::{ProcessingResponse, RequestPart};
pub use self::rate_limit::{RateLimitHeaders, rate_limit_headers};
pub use self::template::Template;
pub use self::texts::{TextError, Texts};
pub use self::without_request::problem_without_request;

use self::accept::ResponseFormat;
use self::builder::{ResponseBuilder, Templates};
use self::details::ProblemDetails;
use self::rate_limit::ShownWindows;
use crate::engine::Refusal;
use crate::policy::Policy;
use crate::time::Span;

/// The settings of `[refuse]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RefuseSettings {
    /// The status of a refusal, 4xx or 5xx.
    pub status: StatusCode,
    /// The pages of all routes that have none.
    pub pages: RefusalPages,
    /// The pages of single routes, by position.
    pub of_routes: Vec<Option<RefusalPages>>,
    /// When `RateLimit` and `RateLimit-Policy` are sent.
    pub headers: ShowLimits,
    /// How long a refusal is held before it is sent.
    pub delay: Span,
    /// Up to this many thousandths of the wait are added to `Retry-After`.
    pub jitter_permille: u32,
}

/// The pages of a refusal in its formats.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusalPages {
    /// The configured HTML page; `None` is the built-in one.
    pub html: Option<Template>,
    /// Likewise for JSON.
    pub json: Option<Template>,
    /// Likewise for plain text.
    pub text: Option<Template>,
    /// The built-in HTML pages.
    pub localized: Arc<LocalizedPages>,
}

/// When `RateLimit` and `RateLimit-Policy` are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowLimits {
    /// With refusals.
    Refused,
    /// With the response to every attempt.
    Always,
    /// With the response to every attempt, and `X-RateLimit-*` as well.
    Legacy,
    /// Never.
    Never,
}

impl ShowLimits {
    /// Whether an attempt that passes is told of its limits.
    #[must_use]
    pub fn tells_admitted(self) -> bool {
        matches!(self, Self::Always | Self::Legacy)
    }
}

/// The parts of a request that shape a generated response.
#[derive(Debug, Clone, Copy)]
pub struct Negotiation<'a> {
    /// The first `Accept` header: decides between HTML, JSON and text.
    pub accept: Option<&'a HeaderValue>,
    /// Whether the method is `HEAD`: the same headers, no body.
    pub head: bool,
    /// The request id, named in the response.
    pub request_id: &'a HeaderValue,
    /// The language of a refusal's page.
    pub language: PageLanguage,
    /// What a refusal's page offers.
    pub offer: Option<ShownOffer<'a>>,
}

/// Whether a refusal for this `Accept` is a page with a place for an offer.
#[must_use]
pub fn shows_offer(pages: &RefusalPages, accept: Option<&HeaderValue>) -> bool {
    ResponseFormat::preferred(accept) == ResponseFormat::Html
        && pages.html.as_ref().is_none_or(Template::has_offer)
}

/// The language of a refusal; only the built-in page has several.
#[must_use]
pub fn language_of(pages: &RefusalPages, accept: Option<&HeaderValue>, headers: &HeaderMap) -> PageLanguage {
    let is_built_in = pages.html.is_none() && ResponseFormat::preferred(accept) == ResponseFormat::Html;
    if is_built_in {
        pages.localized.preferred(headers.get(ACCEPT_LANGUAGE))
    } else {
        PageLanguage::default()
    }
}

/// The response to a refused attempt: `refuse.status` with `Retry-After`. If waiting does not help, it names no time.
#[must_use]
pub fn refusal(
    settings: &RefuseSettings,
    policy: &Policy,
    refusal: &Refusal,
    negotiation: &Negotiation<'_>,
) -> Response<Bytes> {
    let format = ResponseFormat::preferred(negotiation.accept);
    let retry_after = retry_after::shown_wait(policy, refusal)
        .map(|wait| retry_after::seconds(wait, settings.jitter_permille, negotiation.request_id.as_bytes()));
    let limits = refusal.violated().filter_map(|status| policy.limits.get(status.charge.limit));
    let shown = limits.filter(|limit| !limit.is_hidden());
    let mut limits: SmallVec<[&str; 4]> = shown.map(|limit| &*limit.name).collect();
    limits.dedup();
    let pages = settings.pages_of(refusal.route);
    let page = pages.localized.of(negotiation.language);
    let offer = negotiation.offer.filter(|_| format == ResponseFormat::Html);
    let details = ProblemDetails {
        kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "Too many sign-in attempts",
        status: settings.status,
        detail: if retry_after.is_some() { "" } else { TIME_DOES_NOT_HELP },
        retry_after,
        limits: Some(limits),
        request_id: negotiation.request_id,
        texts: &page.texts,
        contact: pages.localized.contact(),
        offer: offer.map(|offer| (&page.offer, offer)),
    };
    // A configured page names a wait; without a wait it would be wrong, so the built-in page is used.
    let configured = pages.configured(format).filter(|_| retry_after.is_some());
    let built_in = if retry_after.is_some() { &page.timed } else { &page.untimed };
    let mut builder =
        ResponseBuilder::new(&details, format, Templates { configured, built_in }, negotiation.head);
    if settings.headers != ShowLimits::Never {
        let until = retry_after.map_or(ShownWindows::None, ShownWindows::UpTo);
        builder.rate_limits(policy, &refusal.statuses, until);
    }
    if settings.headers == ShowLimits::Legacy {
        builder.legacy_limits(policy, &refusal.statuses, retry_after.is_some());
    }
    builder.finish()
}

/// The wait that a refusal tells its client, in whole seconds, but for jitter; `None` if waiting does not help.
#[must_use]
pub fn told_wait(policy: &Policy, refusal: &Refusal) -> Option<Span> {
    retry_after::shown_wait(policy, refusal).map(|wait| Span::from_secs(retry_after::seconds(wait, 0, &[])))
}

/// The response to an error.
#[must_use]
pub fn problem(problem: ProblemKind, negotiation: &Negotiation<'_>) -> Response<Bytes> {
    let details = problem.message(negotiation.request_id);
    let format = ResponseFormat::preferred(negotiation.accept);
    let templates = Templates { configured: None, built_in: &pages::ERROR };
    let mut builder = ResponseBuilder::new(&details, format, templates, negotiation.head);
    if problem == ProblemKind::MethodNotAllowed {
        builder.allow(problem::ALLOWED_METHODS);
    }
    builder.finish()
}

impl RefuseSettings {
    /// The pages of the refusals of a route.
    #[must_use]
    pub fn pages_of(&self, route: usize) -> &RefusalPages {
        self.own_pages_of(route).unwrap_or(&self.pages)
    }

    fn own_pages_of(&self, route: usize) -> Option<&RefusalPages> {
        self.of_routes.get(route)?.as_ref()
    }
}

impl RefusalPages {
    fn configured(&self, format: ResponseFormat) -> Option<&Template> {
        match format {
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
            pages: RefusalPages::default(),
            of_routes: Vec::new(),
            headers: ShowLimits::Refused,
            delay: Span::ZERO,
            jitter_permille: 0,
        }
    }
}

impl Default for RefusalPages {
    fn default() -> Self {
        let localized = Arc::clone(LocalizedPages::built_in());
        Self { html: None, json: None, text: None, localized }
    }
}

/// The same text for every cause: a limit on consecutive failures of an account, or an attempt that costs more than a
/// bucket holds.
const TIME_DOES_NOT_HELP: &str = "Waiting does not help here. Please ask the operator of this site.";

#[cfg(test)]
mod tests;
