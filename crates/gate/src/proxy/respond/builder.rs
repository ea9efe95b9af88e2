//! Builds a generated response: one string, sliced into body and header values. `details` and `template` write the
//! body.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::details::ProblemDetails;
use super::escape::push_number;
use super::offer::script_source;
use super::rate_limit::{LegacyLimit, RATE_LIMIT, RATE_LIMIT_POLICY, ShownWindows, push_limit, push_policy};
use super::template::Template;
use crate::engine::LimitStatus;
use crate::policy::Policy;
use crate::proxy::headers::REQUEST_ID;

/// Where a response's text may come from.
pub(super) struct Templates<'a> {
    /// For this format, if the configuration has one.
    pub(super) configured: Option<&'a Template>,
    /// In HTML, else. JSON and text need none.
    pub(super) built_in: &'a Template,
}

/// A response under construction.
pub(super) struct ResponseBuilder {
    status: StatusCode,
    headers: HeaderMap,
    /// The body, then the values of `values` one after the other.
    text: String,
    values: SmallVec<[(HeaderName, Range<usize>); 4]>,
    body: usize,
    head: bool,
}

impl ResponseBuilder {
    /// A response with these details in this format.
    pub(super) fn new(
        details: &ProblemDetails<'_>,
        format: ResponseFormat,
        Templates { configured, built_in }: Templates<'_>,
        head: bool,
    ) -> Self {
        let built_in = (format == ResponseFormat::Html && configured.is_none()).then_some(built_in);
        let template = configured.or(built_in);
        let mut text = String::with_capacity(template.map_or(0, Template::length) + EXTRA_CAPACITY);
        match (template, format) {
            (Some(template), _) => template.fill(&mut text, format, details),
            (None, ResponseFormat::Json) => details.push_json(&mut text),
            (None, _) => details.push_text(&mut text),
        }
        let mut builder = Self {
            status: details.status,
            headers: HeaderMap::with_capacity(MAX_HEADERS),
            body: text.len(),
            text,
            values: SmallVec::new(),
            head,
        };
        builder.constant_headers(format, configured.is_some(), details.offer.is_some());
        if built_in.is_some() && details.limits.is_some() {
            builder.headers.insert(CONTENT_LANGUAGE, details.texts.content_language().clone());
            builder.headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Language"));
        }
        builder.headers.insert(REQUEST_ID, details.request_id.clone());
        builder.add_value(CONTENT_LENGTH, |text| push_number(text, text.len() as u64));
        if let Some(seconds) = details.retry_after {
            builder.add_value(RETRY_AFTER, |text| push_number(text, seconds));
        }
        builder
    }

    fn constant_headers(&mut self, format: ResponseFormat, is_configured: bool, has_offer: bool) {
        let headers = &mut self.headers;
        headers.insert(CONTENT_TYPE, format.content_type());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if format == ResponseFormat::Html {
            let csp = match (is_configured, has_offer) {
                (false, false) => HeaderValue::from_static(CSP_BUILT_IN_PAGE),
                (true, false) => HeaderValue::from_static(CSP_OWN_PAGE),
                (false, true) => CSP_BUILT_IN_OFFER.clone(),
                (true, true) => CSP_OWN_OFFER.clone(),
            };
            headers.insert(CONTENT_SECURITY_POLICY, csp);
            // Not `no-referrer`: the link back to the form may lead to an application that checks the `Referer`.
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
    }

    /// Adds `RateLimit` and `RateLimit-Policy`.
    pub(super) fn rate_limits(&mut self, policy: &Policy, statuses: &[LimitStatus], windows: ShownWindows) {
        self.add_value(RATE_LIMIT_POLICY, |text| push_policy(text, policy, statuses));
        self.add_value(RATE_LIMIT, |text| push_limit(text, policy, statuses, windows));
    }

    /// Adds `X-RateLimit-Limit` and `X-RateLimit-Remaining`, and `X-RateLimit-Reset` if waiting helps.
    pub(super) fn legacy_limits(&mut self, policy: &Policy, statuses: &[LimitStatus], timed: bool) {
        let numbers = LegacyLimit::of(policy, statuses).into_iter().flat_map(LegacyLimit::numbers);
        for (name, number) in numbers.take(if timed { 3 } else { 2 }) {
            self.add_value(name, |text| push_number(text, number));
        }
    }

    /// Adds `Allow`.
    pub(super) fn allow(&mut self, methods: HeaderValue) {
        self.headers.insert(ALLOW, methods);
    }

    /// The complete response.
    pub(super) fn finish(mut self) -> Response<Bytes> {
        let text = Bytes::from(self.text);
        for (name, range) in self.values {
            // Digits and names reduced to printable ASCII are always a valid value.
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

    /// Adds a header whose value `write` appends to the text; none if it appends nothing.
    fn add_value(&mut self, name: HeaderName, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        if self.text.len() > start {
            self.values.push((name, start..self.text.len()));
        }
    }
}

/// Allows nothing but the page's inline style.
const CSP_BUILT_IN_PAGE: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// Allows a configured page the files of its site; scripts only from files, never inline.
const CSP_OWN_PAGE: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// The same with the script of an offer, and its form.
static CSP_BUILT_IN_OFFER: LazyLock<HeaderValue> = LazyLock::new(|| {
    let with_form = CSP_BUILT_IN_PAGE.replace("form-action 'none'", "form-action 'self'");
    csp(format!("{with_form}; script-src {}", script_source()))
});
static CSP_OWN_OFFER: LazyLock<HeaderValue> =
    LazyLock::new(|| csp(format!("{CSP_OWN_PAGE}; script-src 'self' {}", script_source())));

fn csp(policy: String) -> HeaderValue {
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(CSP_BUILT_IN_PAGE))
}

/// Enough for the largest response here and the two headers that the connection adds.
const MAX_HEADERS: usize = 12;

/// Bytes in addition to a page: header values and filled placeholders; or a whole response as JSON or text.
const EXTRA_CAPACITY: usize = 512;
