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

/// The latest refusals of one worker.
#[derive(Debug)]
pub struct RefusalCache {
    slots: RefCell<Box<[Option<Rc<CachedRefusal>>]>>,
    /// An id of no request, in letters and digits that no format escapes.
    mark: HeaderValue,
}

/// A refusal, as it is sent.
#[derive(Debug)]
pub enum RenderedRefusal {
    /// One that is not kept.
    New(Response<Bytes>),
    /// One that is kept for the next refusals, without the id.
    Kept(Rc<CachedRefusal>),
}

/// A refusal that lacks the id of its request.
#[derive(Debug)]
pub struct CachedRefusal {
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
    limits: SmallVec<[ShownLimit; 2]>,
}

/// The same, before it is known whether they are kept.
struct RefusalInputs<'a> {
    format: ResponseFormat,
    language: PageLanguage,
    generation: u64,
    settings: &'a Arc<RefuseSettings>,
    route: Option<usize>,
    wait: u64,
    policy: &'a Policy,
    refused: &'a Refusal,
}

/// A limit: its position, its spec, tokens left, seconds to the next token, whether it refuses.
type ShownLimit = (usize, Spec, u32, u64, bool);

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
        let Some(wait) =
            retry_after::shown_wait(policy, refused).filter(|_| is_cacheable(settings, negotiation))
        else {
            return RenderedRefusal::New(refusal(settings, policy, refused, negotiation));
        };
        let inputs = RefusalInputs {
            format: ResponseFormat::preferred(negotiation.accept),
            language: negotiation.language,
            generation,
            settings,
            route: settings.own_pages_of(refused.route).map(|_| refused.route),
            wait: wait.as_secs_ceil(),
            policy,
            refused,
        };
        let slot = &mut self.slots.borrow_mut()[inputs.slot()];
        if let Some(cached) = slot.as_ref().filter(|cached| cached.key.is_of(&inputs)) {
            return RenderedRefusal::Kept(Rc::clone(cached));
        }
        let marked = Negotiation { request_id: &self.mark, ..*negotiation };
        let response = refusal(settings, policy, refused, &marked);
        let new = Rc::new(CachedRefusal::new(RefusalKey::of(&inputs), response, self.mark.as_bytes()));
        *slot = Some(Rc::clone(&new));
        RenderedRefusal::Kept(new)
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

    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers but the length of the body.
    #[must_use]
    pub fn lines(&self) -> &Rc<ReadyLines> {
        &self.lines
    }

    /// Bytes of the body without the id.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// The body with this id.
    #[must_use]
    pub fn body(&self, request_id: &HeaderValue) -> Bytes {
        let [first, others @ ..] = &*self.pieces else { return Bytes::new() };
        if others.is_empty() {
            return first.clone();
        }
        let mut id = String::new();
        match self.key.format {
            ResponseFormat::Json if self.key.pages().json.is_none() => push_urn(&mut id, request_id),
            format => push_value(&mut id, format, request_id),
        }
        let length = self.length() + others.len() * id.len();
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
        match self {
            Self::Kept(kept) => CarriedHeaders::Ready(Rc::clone(&kept.lines), request_id).into_map(),
            Self::New(response) => response.into_parts().0.headers,
        }
    }
}

impl RefusalInputs<'_> {
    /// The limits that are not hidden.
    fn limits(&self) -> impl Iterator<Item = ShownLimit> {
        let is_hidden = |limit: usize| self.policy.limits.get(limit).is_some_and(Limit::is_hidden);
        let shown = self.refused.statuses.iter().filter(move |status| !is_hidden(status.charge.limit));
        shown.map(|status| {
            let next = status.verdict.next_token.as_secs_ceil();
            let (limit, spec) = (status.charge.limit, status.charge.spec);
            (limit, spec, status.verdict.left, next, status.refuses())
        })
    }

    fn slot(&self) -> usize {
        let formats = usize::try_from(self.wait).unwrap_or(0).wrapping_mul(3);
        // Odd, and so another slot for each language of one wait.
        let languages = self.language.position().wrapping_mul(5);
        let routes = self.route.map_or(0, |route| route.wrapping_add(1).wrapping_mul(7));
        formats.wrapping_add(self.format as usize).wrapping_add(languages).wrapping_add(routes) % CACHE_SLOTS
    }
}

impl RefusalKey {
    fn of(inputs: &RefusalInputs<'_>) -> Self {
        let &RefusalInputs { format, language, generation, settings, route, wait, .. } = inputs;
        let (settings, limits) = (Arc::clone(settings), inputs.limits().collect());
        Self { format, language, generation, settings, route, wait, limits }
    }

    fn pages(&self) -> &RefusalPages {
        self.route.map_or(&self.settings.pages, |route| self.settings.pages_of(route))
    }

    fn is_of(&self, inputs: &RefusalInputs<'_>) -> bool {
        self.format == inputs.format
            && self.language == inputs.language
            && self.generation == inputs.generation
            && self.wait == inputs.wait
            && self.route == inputs.route
            && Arc::ptr_eq(&self.settings, inputs.settings)
            && self.limits.iter().copied().eq(inputs.limits())
    }
}

/// Whether a refusal depends on nothing but its numbers and the id: no jitter drawn from the id, no challenge for one
/// client.
fn is_cacheable(settings: &RefuseSettings, negotiation: &Negotiation<'_>) -> bool {
    !negotiation.head && settings.jitter_permille == 0 && negotiation.offer.is_none()
}

const CACHE_SLOTS: usize = 64;
