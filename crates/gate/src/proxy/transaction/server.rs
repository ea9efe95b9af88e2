//! The components that one worker serves requests with; `service` uses them.

use std::cell::Cell;
use std::sync::Arc;

use super::refusal_rate::RefusalRate;
use super::refused_heads::RefusedHeads;
use crate::engine::{Engine, OpenAttempts};
use crate::event::{ConnectionEvent, Event, Events, RejectReason};
use crate::net::stream::PeerAddr;
use crate::proxy::body::{BodyMemories, BodySearches};
use crate::proxy::headers::request_id::RequestIds;
use crate::proxy::headers::trace_context::Tracer;
use crate::proxy::respond::RefusalCache;
use crate::proxy::runtime_config::ConfigHandle;

/// The components that one worker serves requests with.
pub struct Server {
    /// Decides on attempts.
    pub engine: Arc<Engine>,
    /// The configuration in force.
    pub config: ConfigHandle,
    /// Receives all events.
    pub events: Events,
    /// The attempts of each decision endpoint, shared by all workers.
    pub open_attempts: Arc<[OpenAttempts]>,
    /// Generates request ids.
    pub ids: RequestIds,
    /// Continues distributed traces; `None` passes their headers on as any others.
    pub tracer: Option<Tracer>,
    /// The latest refusals of this worker.
    pub refusal_cache: RefusalCache,
    /// The heads that this worker refuses again and again.
    pub refused_heads: RefusedHeads,
    /// How fast this worker refuses, where challenges are offered.
    pub refusal_rate: RefusalRate,
    /// Number of undecided requests whose bodies are being read.
    pub unread_bodies: Cell<u32>,
    /// Memory for buffered bodies, shared by all workers.
    pub body_memory: BodyMemories,
    /// Searches long bodies, for all workers.
    pub body_searches: BodySearches,
}

impl Server {
    /// Reports that a connection of this peer was rejected.
    pub(in crate::proxy) fn reject(&self, peer: PeerAddr, reason: RejectReason) {
        let peer = match peer {
            PeerAddr::Ip(address) => Some(address.ip().to_canonical()),
            PeerAddr::Unix => None,
        };
        self.events.emit(&Event::Connection(ConnectionEvent::Rejected { peer, reason }));
    }
}
