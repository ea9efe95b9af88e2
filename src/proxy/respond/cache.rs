//! Cache of rendered refusals, one per worker.
//!
//! It caches plain text only, which differs between requests by its id alone, in a fixed number of slots. A cached
//! response is used only if every number in it is the same. [`refusal`] renders the others.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::builder::X_REQUEST_ID;
use super::{Negotiation, RefuseSettings, refusal, retry_after};
use crate::bucket::Spec;
use crate::engine::Refusal;
use crate::policy::{Limit, Policy};
use crate::time::Span;

/// The latest refusals of one worker.
#[derive(Debug)]
pub struct RefusalCache(RefCell<Box<[Option<CachedRefusal>]>>);

#[derive(Debug)]
struct CachedRefusal {
    key: RefusalKey,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// All inputs of a plain text refusal except the id. Of hidden limits that is the wait alone.
#[derive(Debug)]
struct RefusalKey {
    generation: u64,
    settings: Arc<RefuseSettings>,
    wait: u64,
    limits: ShownLimits,
}

/// For each limit: its position, its spec, tokens left, seconds to the next token, whether it refuses.
type ShownLimits = SmallVec<[(usize, Spec, u32, u64, bool); 2]>;

impl Default for RefusalCache {
    fn default() -> Self {
        Self(RefCell::new((0..CACHE_SLOTS).map(|_| None).collect()))
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
    ) -> Response<Bytes> {
        let Some(wait) =
            retry_after::shown_wait(policy, refused).filter(|_| is_cacheable(settings, negotiation))
        else {
            return refusal(settings, policy, refused, negotiation);
        };
        let key = RefusalKey::of(generation, settings, wait, policy, refused);
        let mut slots = self.0.borrow_mut();
        let slot = &mut slots[key.slot()];
        match slot {
            Some(cached) if cached.key.matches(&key) => cached.render(negotiation),
            _ => {
                let response = refusal(settings, policy, refused, negotiation);
                let (status, headers) = (response.status(), response.headers().clone());
                *slot = Some(CachedRefusal { key, status, headers, body: response.body().clone() });
                response
            }
        }
    }
}

impl CachedRefusal {
    fn render(&self, negotiation: &Negotiation<'_>) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(X_REQUEST_ID, negotiation.request_id.clone());
        response
    }
}

impl RefusalKey {
    fn of(
        generation: u64,
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
        Self { generation, settings: Arc::clone(settings), wait: wait.as_secs_ceil(), limits }
    }

    fn matches(&self, other: &Self) -> bool {
        self.generation == other.generation
            && self.wait == other.wait
            && Arc::ptr_eq(&self.settings, &other.settings)
            && self.limits == other.limits
    }

    fn slot(&self) -> usize {
        usize::try_from(self.wait).unwrap_or(0) % CACHE_SLOTS
    }
}

/// Whether a refusal depends on nothing but its numbers and the id header: no configured page, no jitter drawn from the
/// id.
fn is_cacheable(settings: &RefuseSettings, negotiation: &Negotiation<'_>) -> bool {
    let is_text = ResponseFormat::preferred(negotiation.accept) == ResponseFormat::Text;
    is_text && !negotiation.head && settings.text.is_none() && settings.jitter_permille == 0
}

const CACHE_SLOTS: usize = 64;
