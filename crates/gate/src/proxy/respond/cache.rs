//! Cache of rendered refusals, one per worker.
//!
//! Refusals with the same numbers differ only in the request id. So the cache renders a response once with a mark in the place of the
//! id, and cuts it there. It has a fixed number of slots, and uses a cached response only if every number in it is the same.
//! [`refusal`] renders the others.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use memchr::memmem;
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::escape::{push_urn, push_value};
use super::pages::PageLanguage;
use super::{Negotiation, RefusalPages, RefuseSettings, refusal, retry_after};
use crate::bucket::Spec;
use crate::engine::Refusal;
use crate::policy::{Limit, Policy};
use crate::proxy::headers::carried::{CarriedHeaders, ReadyLines};
use crate::proxy::headers::request_id::RequestIds;
use crate::time::Span;

/// The latest refusals of one worker.
#[derive(Debug)]
pub struct RefusalCache {
    slots: RefCell<Box<[Option<CachedRefusal>]>>,
    /// An id of no request, in letters and digits that no format escapes.
    mark: HeaderValue,
}

/// A refusal, as it is sent.
#[derive(Debug)]
pub struct RenderedRefusal {
    /// Status and body, and all headers unless they are kept.
    pub response: Response<Bytes>,
    /// The headers but the length of the body, if they are kept for the next refusal.
    pub lines: Option<Rc<ReadyLines>>,
}

#[derive(Debug)]
struct CachedRefusal {
    key: RefusalKey,
    status: StatusCode,
    /// But for the length of the body.
    lines: Rc<ReadyLines>,
    /// The body, cut where the request id stands.
    pieces: Box<[Bytes]>,
}

/// All inputs of a refusal except the id. Of hidden limits that is the wait alone.
#[derive(Debug)]
struct RefusalKey {
    format: ResponseFormat,
    language: PageLanguage,
    generation: u64,
    settings: Arc<RefuseSettings>,
    /// The route, if it has its own pages.
    route: Option<usize>,
    wait: u64,
    limits: ShownLimits,
}

/// For each limit: its position, its spec, tokens left, seconds to the next token, whether it refuses.
type ShownLimits = SmallVec<[(usize, Spec, u32, u64, bool); 2]>;

impl Default for RefusalCache {
    fn default() -> Self {
        let slots = (0..CACHE_SLOTS).map(|_| None).collect();
        Self { slots: RefCell::new(slots), mark: RequestIds::default().next() }
    }
}

impl RefusalCache {
    /// The same as [`refusal`], from the cache if possible. `generation` is that of the policy.
    pub fn refusal(
        &self,
        generation: u64,
        settings: &Arc<RefuseSettings>,
        policy: &Policy,
        refused: &Refusal,
        negotiation: &Negotiation<'_>,
    ) -> RenderedRefusal {
        let fresh = || RenderedRefusal::from(refusal(settings, policy, refused, negotiation));
        let Some(wait) =
            retry_after::shown_wait(policy, refused).filter(|_| is_cacheable(settings, negotiation))
        else {
            return fresh();
        };
        let format = ResponseFormat::preferred(negotiation.accept);
        let form = (format, negotiation.language, generation);
        let key = RefusalKey::of(form, settings, wait, policy, refused);
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[key.slot()];
        if slot.as_ref().is_none_or(|cached| !cached.key.matches(&key)) {
            let marked = Negotiation { request_id: &self.mark, ..*negotiation };
            let response = refusal(settings, policy, refused, &marked);
            *slot = Some(CachedRefusal::new(key, response, self.mark.as_bytes()));
        }
        match slot {
            Some(cached) => cached.render(negotiation),
            None => fresh(),
        }
    }
}

impl CachedRefusal {
    fn new(key: RefusalKey, response: Response<Bytes>, mark: &[u8]) -> Self {
        let (mut head, body) = response.into_parts();
        let (mut pieces, mut start) = (Vec::new(), 0);
        for at in memmem::find_iter(&body, mark) {
            pieces.push(body.slice(start..at));
            start = at + mark.len();
        }
        pieces.push(body.slice(start..));
        head.headers.remove(CONTENT_LENGTH);
        Self { key, status: head.status, lines: Rc::new(head.headers.into()), pieces: pieces.into() }
    }

    fn render(&self, negotiation: &Negotiation<'_>) -> RenderedRefusal {
        let mut response = Response::new(self.body(negotiation.request_id));
        *response.status_mut() = self.status;
        RenderedRefusal { response, lines: Some(Rc::clone(&self.lines)) }
    }

    fn body(&self, request_id: &HeaderValue) -> Bytes {
        let [first, others @ ..] = &*self.pieces else { return Bytes::new() };
        if others.is_empty() {
            return first.clone();
        }
        let mut id = String::new();
        match self.key.format {
            ResponseFormat::Json if self.key.pages().json.is_none() => push_urn(&mut id, request_id),
            format => push_value(&mut id, format, request_id),
        }
        let length = self.pieces.iter().map(Bytes::len).sum::<usize>() + others.len() * id.len();
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(first);
        for piece in others {
            body.extend_from_slice(id.as_bytes());
            body.extend_from_slice(piece);
        }
        body.into()
    }
}

impl RenderedRefusal {
    /// The headers, with this id of the request.
    #[must_use]
    pub fn into_headers(self, request_id: HeaderValue) -> HeaderMap {
        match self.lines {
            Some(lines) => CarriedHeaders::Ready(lines, request_id).into_map(),
            None => self.response.into_parts().0.headers,
        }
    }
}

impl From<Response<Bytes>> for RenderedRefusal {
    fn from(response: Response<Bytes>) -> Self {
        Self { response, lines: None }
    }
}

impl RefusalKey {
    fn of(
        (format, language, generation): (ResponseFormat, PageLanguage, u64),
        settings: &Arc<RefuseSettings>,
        wait: Span,
        policy: &Policy,
        refused: &Refusal,
    ) -> Self {
        let mut limits = ShownLimits::new();
        let is_hidden = |limit: usize| policy.limits.get(limit).is_some_and(Limit::is_hidden);
        for status in refused.statuses.iter().filter(|status| !is_hidden(status.charge.limit)) {
            let next = status.verdict.next_token.as_secs_ceil();
            let (limit, spec) = (status.charge.limit, status.charge.spec);
            limits.push((limit, spec, status.verdict.left, next, status.refuses()));
        }
        Self {
            format,
            language,
            generation,
            settings: Arc::clone(settings),
            route: settings.own_pages_of(refused.route).map(|_| refused.route),
            wait: wait.as_secs_ceil(),
            limits,
        }
    }

    fn pages(&self) -> &RefusalPages {
        self.route.map_or(&self.settings.pages, |route| self.settings.pages_of(route))
    }

    fn matches(&self, other: &Self) -> bool {
        self.format == other.format
            && self.language == other.language
            && self.generation == other.generation
            && self.wait == other.wait
            && self.route == other.route
            && Arc::ptr_eq(&self.settings, &other.settings)
            && self.limits == other.limits
    }

    fn slot(&self) -> usize {
        let formats = usize::try_from(self.wait).unwrap_or(0).wrapping_mul(3);
        // Odd, and so another slot for each language of one wait.
        let languages = self.language.position().wrapping_mul(5);
        let routes = self.route.map_or(0, |route| route.wrapping_add(1).wrapping_mul(7));
        formats.wrapping_add(self.format as usize).wrapping_add(languages).wrapping_add(routes) % CACHE_SLOTS
    }
}

/// Whether a refusal depends on nothing but its numbers and the id: no jitter drawn from the id, no challenge for one
/// client.
fn is_cacheable(settings: &RefuseSettings, negotiation: &Negotiation<'_>) -> bool {
    !negotiation.head && settings.jitter_permille == 0 && negotiation.offer.is_none()
}

const CACHE_SLOTS: usize = 64;
