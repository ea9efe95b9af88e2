//! Cache of rendered refusals, one per worker.
//!
//! Only for the plain text form, which differs from one request to the next by its id alone. Bounded, and each
//! worker has its own. A remembered answer is given only if every number in it is the same.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use smallvec::SmallVec;

use super::accept::ResponseFormat;
use super::builder::X_REQUEST_ID;
use super::{Negotiation, RefuseSettings, refusal, wait};
use crate::bucket::Spec;
use crate::engine::Refusal;
use crate::policy::{Limit, Policy};
use crate::time::Span;

/// Remembers the refusals that one worker gave lately.
#[derive(Debug)]
pub struct RefusalCache(RefCell<Box<[Option<CachedRefusal>]>>);

#[derive(Debug)]
struct CachedRefusal {
    key: RefusalKey,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// All that a plain refusal depends on, but for the id. Of limits that do not show themselves that is the wait alone.
#[derive(Debug)]
struct RefusalKey {
    generation: u64,
    settings: Arc<RefuseSettings>,
    wait: u64,
    limits: ShownLimits,
}

/// Of each limit: its position, its spec, what is left, the seconds to the next token, whether it refuses.
type ShownLimits = SmallVec<[(usize, Spec, u32, u64, bool); 2]>;

impl Default for RefusalCache {
    fn default() -> Self {
        Self(RefCell::new((0..CACHE_SLOTS).map(|_| None).collect()))
    }
}

impl RefusalCache {
    /// The same as [`refusal`], which it asks for what it does not remember. `generation` is that of the policy.
    pub fn refusal(
        &self,
        generation: u64,
        settings: &Arc<RefuseSettings>,
        policy: &Policy,
        refused: &Refusal,
        asked: &Negotiation<'_>,
    ) -> Response<Bytes> {
        let Some(wait) = wait::shown_wait(policy, refused).filter(|_| is_cacheable(settings, asked)) else {
            return refusal(settings, policy, refused, asked);
        };
        let occasion = RefusalKey::of(generation, settings, wait, policy, refused);
        let mut places = self.0.borrow_mut();
        let place = &mut places[occasion.slot()];
        match place {
            Some(remembered) if remembered.key.matches(&occasion) => remembered.render(asked),
            _ => {
                let response = refusal(settings, policy, refused, asked);
                let (status, headers) = (response.status(), response.headers().clone());
                *place =
                    Some(CachedRefusal { key: occasion, status, headers, body: response.body().clone() });
                response
            }
        }
    }
}

impl CachedRefusal {
    fn render(&self, asked: &Negotiation<'_>) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(X_REQUEST_ID, asked.request_id.clone());
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
        let mut numbers = ShownLimits::new();
        let is_hidden = |limit: usize| policy.limits.get(limit).is_some_and(Limit::is_hidden);
        for standing in refused.statuses.iter().filter(|standing| !is_hidden(standing.charge.limit)) {
            let next = standing.verdict.next_token.as_secs_ceil();
            let (limit, spec) = (standing.charge.limit, standing.charge.spec);
            numbers.push((limit, spec, standing.verdict.left, next, standing.refuses()));
        }
        Self { generation, settings: Arc::clone(settings), wait: wait.as_secs_ceil(), limits: numbers }
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

/// Whether the answer differs from the next by nothing but its numbers and its id: no page with the id in it, no
/// jitter drawn from the id.
fn is_cacheable(settings: &RefuseSettings, asked: &Negotiation<'_>) -> bool {
    let is_text = ResponseFormat::preferred(asked.accept) == ResponseFormat::Text;
    is_text && !asked.head && settings.text.is_none() && settings.jitter_permille == 0
}

const CACHE_SLOTS: usize = 64;
