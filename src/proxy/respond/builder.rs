//! Builds a generated response: one string, sliced into body and header values.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::details::ProblemDetails;
use super::escape::push_number;
use super::rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY, push_limit, push_policy};
use super::template::Template;
use crate::engine::LimitStatus;
use crate::policy::Policy;

/// An answer in the making.
pub(super) struct ResponseBuilder {
    status: StatusCode,
    headers: HeaderMap,
    /// The body, then the values of `cuts` one after the other.
    text: String,
    values: SmallVec<[(HeaderName, Range<usize>); 4]>,
    body: usize,
    head: bool,
}

impl ResponseBuilder {
    /// An answer that says `message` in `form`, on the site's `own` page if there is one.
    pub(super) fn new(
        message: &ProblemDetails<'_>,
        form: ResponseFormat,
        own: Option<&Template>,
        head: bool,
    ) -> Self {
        let template = own.or_else(|| (form == ResponseFormat::Html).then(|| built_in(message)));
        let mut text = String::with_capacity(template.map_or(0, Template::length) + EXTRA_CAPACITY);
        match (template, form) {
            (Some(template), _) => template.fill(&mut text, form, message),
            (None, ResponseFormat::Json) => message.push_json(&mut text),
            (None, _) => message.push_text(&mut text),
        }
        let mut draft = Self {
            status: message.status,
            headers: HeaderMap::with_capacity(MAX_HEADERS),
            body: text.len(),
            text,
            values: SmallVec::new(),
            head,
        };
        draft.constant_headers(form, own.is_some());
        draft.headers.insert(X_REQUEST_ID, message.request_id.clone());
        draft.add_value(CONTENT_LENGTH, |text| push_number(text, text.len() as u64));
        if let Some(seconds) = message.retry_after {
            draft.add_value(RETRY_AFTER, |text| push_number(text, seconds));
        }
        draft
    }

    fn constant_headers(&mut self, form: ResponseFormat, own: bool) {
        let headers = &mut self.headers;
        headers.insert(CONTENT_TYPE, form.content_type());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if form == ResponseFormat::Html {
            let csp = if own { CSP_OWN_PAGE } else { CSP_BUILT_IN_PAGE };
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(csp));
            // Not `no-referrer`: the link back to the form may lead to an application that checks where one came from.
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
    }

    /// Adds `RateLimit` and `RateLimit-Policy`; `timed` says whether it is worth waiting.
    pub(super) fn rate_limits(&mut self, policy: &Policy, standings: &[LimitStatus], timed: bool) {
        self.add_value(RATE_LIMIT_POLICY, |text| push_policy(text, policy, standings));
        self.add_value(RATE_LIMIT, |text| push_limit(text, policy, standings, timed));
    }

    /// Adds `Allow`.
    pub(super) fn allow(&mut self, methods: HeaderValue) {
        self.headers.insert(ALLOW, methods);
    }

    /// The answer.
    pub(super) fn finish(mut self) -> Response<Bytes> {
        let text = Bytes::from(self.text);
        for (name, range) in self.values {
            // Digits, and names that were reduced to printable ASCII: always a value.
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(range)) {
                self.headers.insert(name, value);
            }
        }
        let body = if self.head { Bytes::new() } else { text.slice(..self.body) };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    /// A header whose value `write` appends; left out if it appends nothing.
    fn add_value(&mut self, name: HeaderName, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        if self.text.len() > start {
            self.values.push((name, start..self.text.len()));
        }
    }
}

/// The page with the countdown where the wait is all there is to say, the plain one otherwise.
fn built_in(message: &ProblemDetails<'_>) -> &'static Template {
    if message.retry_after.is_some() && message.detail.is_empty() { &REFUSED } else { &PROBLEM }
}

/// Its clock runs without script: four strips of digits, each one line high, jump one line every 600, 60, 10 or 1
/// seconds. All of them start as far into their hour as leaves the wait, so that they show 00:00 exactly when it is
/// over. Waits of an hour and more have no clock: its height is what is left of 3,600 seconds in lines, or nothing.
static REFUSED: LazyLock<Template> = LazyLock::new(|| styled(include_str!("../../../assets/refused.html")));
static PROBLEM: LazyLock<Template> = LazyLock::new(|| styled(include_str!("../../../assets/problem.html")));

fn styled(page: &str) -> Template {
    Template::parse(&page.replace("{{style}}", include_str!("../../../assets/page.css")))
}

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Nothing but the style that the page carries.
const CSP_BUILT_IN_PAGE: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A site's own page may show the site's own files; script only from files, never from the page itself.
const CSP_OWN_PAGE: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Enough for the largest answer here and the two that the connection adds.
const MAX_HEADERS: usize = 12;

/// Bytes beside a page: the values of headers and what is filled in; or a whole answer as JSON or text.
const EXTRA_CAPACITY: usize = 512;
