//! The checked settings of `[proxy]`, and the CAs trusted for upstreams.

use std::net::SocketAddr;

use super::headers::filter::HeaderFilter;
use super::headers::passed::HeaderCase;
use crate::net::proxy_protocol::ProxyProtocolVersion;
use crate::net::tls::Trust;
use crate::time::Span;

/// Bounds and time-outs of `[proxy]`, and trust in upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Worker threads; 0 is one for each core.
    pub threads: usize,
    /// Upper bound of client connections, at least 1.
    pub connections: usize,
    /// Connections from one client prefix at once, at least 1.
    pub client_max: usize,
    /// New connections from one client prefix; `None` is no bound.
    pub client_rate: Option<ClientRate>,
    /// For the complete head of a request.
    pub header_timeout: Span,
    /// For the next piece of a request's body.
    pub body_timeout: Span,
    /// For the next request on a kept-alive connection.
    pub idle_timeout: Span,
    /// For a connection to an upstream, or a free slot among `upstream_max`.
    pub connect_timeout: Span,
    /// How long an idle connection to an upstream is kept.
    pub upstream_idle: Span,
    /// Connections to one upstream at once, at least 1.
    pub upstream_max: usize,
    /// How requests are forwarded, by the number of their group of upstreams.
    pub forwarding: Vec<Forwarding>,
    /// The shares of the upstreams of a group that an SRV record names, in their order, by the number of the group; empty for
    /// any other group.
    pub shares: Vec<Vec<TargetShare>>,
    /// The servers of DNS that names of upstreams are looked up at; if empty, those of the system.
    pub resolver: Vec<SocketAddr>,
    /// When health checks are due, and how many count.
    pub health: HealthTerms,
    /// Bytes for buffered bodies of requests in the whole process, and as many for those of responses; one client prefix may
    /// hold a quarter of it.
    pub body_memory: usize,
    /// How long requests in flight may take to finish after a stop.
    pub drain: Span,
    /// Which request headers are not forwarded.
    pub headers: HeaderFilter,
    /// How the names of headers are written over HTTP/1.
    pub header_case: HeaderCase,
    /// The PROXY protocol header with which every connection has to begin; only trusted proxies may send it.
    pub proxy_protocol: Option<ProxyProtocolVersion>,
    /// The CAs trusted for `https://` upstreams; `None` without such an upstream.
    pub upstream_trust: Option<Trust>,
}

/// How the requests to a group of upstreams are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarding {
    /// For the head of an upstream's response, and for each next piece of its body.
    pub reply_timeout: Span,
    /// For each next piece of a response that is a stream of events.
    pub event_timeout: Span,
    /// Bytes of a request that are read before a connection to an upstream is taken; 0 streams.
    pub request_buffer: usize,
    /// Bytes of a response that are read ahead of a slow client, beyond what a connection sends at once; 0 is none.
    pub response_buffer: usize,
}

/// When health checks are due, and how many in a row count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthTerms {
    /// Between two checks of an upstream.
    pub interval: Span,
    /// For the whole of a check.
    pub timeout: Span,
    /// Passes in a row that make an upstream well, at least 1.
    pub rises: u32,
    /// Failures in a row that make it ill, at least 1.
    pub falls: u32,
}

impl Default for HealthTerms {
    fn default() -> Self {
        Self { interval: Span::from_secs(5), timeout: Span::from_secs(2), rises: 2, falls: 3 }
    }
}

impl Default for Forwarding {
    fn default() -> Self {
        Self {
            reply_timeout: Span::from_secs(60),
            event_timeout: Span::from_secs(3600),
            request_buffer: 256 * 1024,
            response_buffer: 256 * 1024,
        }
    }
}

/// New connections from one client prefix: `count` each `period`, `burst` at once; all at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRate {
    /// Connections per period.
    pub count: u32,
    /// Length of the period.
    pub period: Span,
    /// Connections at once.
    pub burst: u32,
}

impl ProxySettings {
    /// The time that a TLS handshake has, with this `proxy.header_timeout`.
    #[must_use]
    pub fn handshake_time(header_timeout: Option<Span>) -> Span {
        header_timeout.unwrap_or(HEADER_TIMEOUT).min(MAX_HANDSHAKE_TIME)
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            threads: 0,
            connections: 10_000,
            client_max: 1_000,
            client_rate: Some(ClientRate { count: 1000, period: Span::from_secs(1), burst: 2000 }),
            header_timeout: HEADER_TIMEOUT,
            body_timeout: Span::from_secs(30),
            idle_timeout: Span::from_secs(75),
            connect_timeout: Span::from_secs(2),
            upstream_idle: Span::from_secs(4),
            upstream_max: 512,
            forwarding: vec![Forwarding::default()],
            shares: Vec::new(),
            resolver: Vec::new(),
            health: HealthTerms::default(),
            body_memory: 64 * 1024 * 1024,
            drain: Span::from_secs(30),
            headers: HeaderFilter::default(),
            header_case: HeaderCase::Preserve,
            proxy_protocol: None,
            upstream_trust: None,
        }
    }
}

/// What an SRV record says about one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetShare {
    /// Lower ones come first.
    pub priority: u16,
    /// Its part among those of its priority.
    pub weight: u16,
}

const HEADER_TIMEOUT: Span = Span::from_secs(10);
const MAX_HANDSHAKE_TIME: Span = Span::from_secs(10);
