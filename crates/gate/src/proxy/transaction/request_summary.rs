//! The parts of a request that generated responses need. `respond` renders these.

use http::{HeaderMap, HeaderValue, Response};

use crate::policy::Policy;
use crate::proxy::body::ResponseBody;
use crate::proxy::headers::recorded::RecordedHeaders;
use crate::proxy::headers::request_id::RequestIds;
use crate::proxy::respond::{CorsPermission, Negotiation, PageLanguage};

/// The parts of a request that generated responses need.
#[derive(Clone)]
pub(super) struct RequestSummary {
    accept: Option<HeaderValue>,
    head: bool,
    pub(super) request_id: HeaderValue,
    pub(super) id_is_ours: bool,
    /// Whether the client sent an id that this gate generated.
    pub(super) id_came_back: bool,
    /// For a page of another origin.
    cors: Option<CorsPermission>,
}

impl RequestSummary {
    pub(super) fn of(head: bool, recorded: &RecordedHeaders<'_>, ids: &RequestIds) -> Self {
        let own = recorded.usable_request_id();
        Self {
            accept: recorded.accept.cloned(),
            head,
            request_id: own.cloned().unwrap_or_else(|| ids.next()),
            id_is_ours: own.is_none(),
            id_came_back: own.is_some_and(RequestIds::is_generated),
            cors: None,
        }
    }

    /// Notes which page may read what the gate answers on this route.
    pub(super) fn permit_origin(&mut self, policy: &Policy, route: Option<&usize>, headers: &HeaderMap) {
        let route = route.and_then(|route| policy.routes.get(*route));
        self.cors = route.and_then(|route| CorsPermission::of(&route.cors, headers));
    }

    /// Adds the headers by which a page of another origin may read this answer of the gate.
    pub(super) fn allow_origin(&self, response: &mut Response<ResponseBody>) {
        self.cors.iter().for_each(|permission| permission.append_to(response.headers_mut()));
    }

    /// Whether a page of another origin may read the answers of the gate.
    pub(super) fn allows_origin(&self) -> bool {
        self.cors.is_some()
    }

    /// A copy in separate memory: values of a request are slices of its head.
    pub(super) fn detached(&self) -> Option<Self> {
        let copy = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
        let cors = match &self.cors {
            Some(CorsPermission::Origin(origin)) => Some(CorsPermission::Origin(copy(origin)?)),
            other => other.clone(),
        };
        let (accept, request_id) = (self.accept.as_ref().and_then(copy), copy(&self.request_id)?);
        Some(Self { accept, request_id, cors, ..*self })
    }

    /// Bytes of its values.
    pub(super) fn size(&self) -> usize {
        let origin = match &self.cors {
            Some(CorsPermission::Origin(origin)) => origin.len(),
            _ => 0,
        };
        self.accept.as_ref().map_or(0, HeaderValue::len) + self.request_id.len() + origin
    }

    /// Whether the response has no body.
    pub(super) fn is_head(&self) -> bool {
        self.head
    }

    pub(super) fn accept(&self) -> Option<&HeaderValue> {
        self.accept.as_ref()
    }

    pub(super) fn negotiation(&self) -> Negotiation<'_> {
        let accept = self.accept.as_ref();
        Negotiation {
            accept,
            head: self.head,
            request_id: &self.request_id,
            language: PageLanguage::default(),
            offer: None,
        }
    }
}
