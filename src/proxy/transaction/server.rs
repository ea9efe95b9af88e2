//! What one worker needs to serve requests; `service` serves them.

use std::cell::Cell;
use std::sync::Arc;

use crate::engine::Engine;
use crate::event::Events;
use crate::proxy::body::BodyMemory;
use crate::proxy::headers::request_id::RequestIds;
use crate::proxy::respond::RefusalCache;
use crate::proxy::runtime_config::ConfigHandle;

/// What one worker needs to serve requests.
pub struct Server {
    /// Decides.
    pub engine: Arc<Engine>,
    /// What of the file may change while the gate runs.
    pub config: ConfigHandle,
    /// Hears what happened.
    pub events: Events,
    /// Names requests.
    pub ids: RequestIds,
    /// What this worker's refusals said lately.
    pub refusal_cache: RefusalCache,
    /// Requests whose bodies are being read: it was not decided on them yet.
    pub unread_bodies: Cell<u32>,
    /// For bodies that are read for their fields, by all workers.
    pub body_memory: Arc<BodyMemory>,
}
