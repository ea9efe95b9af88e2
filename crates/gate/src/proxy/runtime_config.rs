//! The running configuration: one snapshot per request, swapped atomically on reload.
//!
//! The main thread reads the file and publishes a [`RuntimeConfig`]. Each worker derives a [`WorkerConfig`] from it,
//! with its own upstream connections. A worker checks for a new configuration at each request, which costs an atomic
//! load.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderValue, Request};

use super::connection::DownstreamConnection;
use super::endpoint::{Endpoint, EndpointKind};
use super::error::MalformedRequest;
use super::request::client_addr::ClientSettings;
use super::request::described::SourceAddr;
use super::request::redirect::Redirect;
use super::request::scheme::is_secure;
use super::request::shown::{Requester, Shown};
use super::request::validation::ValidationHosts;
use super::respond::RefuseSettings;
use super::settings::ProxySettings;
use super::upstream::{Backend, Health, HealthProbe, UpstreamGroup, UpstreamTarget};
use crate::engine::Rules;
use crate::net::listener::{Callers, ListenerKind};
use crate::net::stream::PeerAddr;
use crate::net::tls::Acceptor;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// The parts of the configuration that a request uses, shared by all workers.
pub struct RuntimeConfig {
    /// Routes and limits, with their buckets.
    pub rules: Arc<Rules>,
    /// How the client address is found.
    pub client: ClientSettings,
    /// The form of refusals.
    pub refuse: Arc<RefuseSettings>,
    /// Decision endpoints, by their numbers.
    pub endpoints: Vec<Endpoint>,
    /// Bounds and time-outs.
    pub settings: Arc<ProxySettings>,
    /// For clients that speak TLS; `None` without certificates.
    pub tls_acceptor: Option<Acceptor>,
    /// The redirect of `http://` clients; `None` if they are served.
    pub redirect: Option<Redirect>,
    /// The names that an authority checks by requests; `None` if there are none.
    pub validation_hosts: Option<ValidationHosts>,
    /// Groups of upstreams, none of them empty; the first is the default. A route's
    /// [`upstream`](crate::policy::Route::upstream) is an index into this list.
    pub upstreams: Vec<Vec<Arc<Health>>>,
    /// The health checks of those that have one.
    pub probes: Arc<HashMap<UpstreamTarget, HealthProbe>>,
}

impl RuntimeConfig {
    /// The same with other rules.
    #[must_use]
    pub fn with_rules(&self, rules: &Arc<Rules>) -> Self {
        Self {
            rules: Arc::clone(rules),
            client: self.client.clone(),
            refuse: Arc::clone(&self.refuse),
            endpoints: self.endpoints.clone(),
            settings: Arc::clone(&self.settings),
            tls_acceptor: self.tls_acceptor.clone(),
            redirect: self.redirect,
            validation_hosts: self.validation_hosts.clone(),
            upstreams: self.upstreams.clone(),
            probes: Arc::clone(&self.probes),
        }
    }

    /// Whether the client is to be redirected to `https://`: it uses TLS neither with us nor with a trusted proxy. Only
    /// meaningful with a [`redirect`](Self::redirect).
    pub(super) fn needs_redirect<B>(&self, connection: &DownstreamConnection, request: &Request<B>) -> bool {
        let is_secure = || is_secure(request.headers(), self.client.trusts(connection.peer), false);
        matches!(connection.listener_kind, ListenerKind::Plain(_))
            && connection.callers.are_clients()
            && request.uri().path() != "*"
            && !is_secure()
    }

    /// The decision endpoint of a connection; `None` for a client's.
    pub(super) fn endpoint_of(&self, connection: &DownstreamConnection) -> Option<&Endpoint> {
        self.endpoint_at(connection.callers)
    }

    fn endpoint_at(&self, callers: Callers) -> Option<&Endpoint> {
        self.endpoints.get(callers.asked()?)
    }

    /// Whether the peer of a connection may ask at its decision endpoint.
    pub(super) fn may_ask(&self, connection: &DownstreamConnection) -> bool {
        self.endpoint_of(connection).is_some_and(|endpoint| endpoint.trusts(connection.peer))
    }

    /// How long the peer of a connection may report the outcome of an attempt; `None` for a client.
    pub(super) fn report_timeout(&self, connection: &DownstreamConnection) -> Option<Span> {
        self.endpoint_of(connection).map(|endpoint| endpoint.report_timeout)
    }

    /// How the peer of a connection asks, if it speaks gRPC.
    pub(super) fn called_kind(&self, connection: &DownstreamConnection) -> Option<EndpointKind> {
        let kind = self.endpoint_of(connection).map(|endpoint| endpoint.kind);
        kind.filter(|kind| kind.is_called())
    }

    /// Whether the peer of a connection sends the body of each request that it asks about.
    pub(super) fn shows_bodies(&self, connection: &DownstreamConnection) -> bool {
        self.endpoint_of(connection).is_some_and(|endpoint| endpoint.shows_bodies)
    }

    /// The prefix for the connection limits of a peer at this decision endpoint; `None` for one who may ask.
    pub(super) fn asker_prefix(&self, callers: Callers, peer: PeerAddr) -> Option<IpAddr> {
        let may_ask = self.endpoint_at(callers).is_some_and(|at| at.trusts(peer));
        if may_ask { None } else { self.client.connection_prefix(peer) }
    }

    /// The form of refusals on a connection.
    pub(super) fn refuse_on(&self, connection: &DownstreamConnection) -> &Arc<RefuseSettings> {
        self.endpoint_of(connection).map_or(&self.refuse, |endpoint| &endpoint.refuse)
    }

    /// Whether the peer of a connection says who its client is.
    pub(super) fn trusts_peer_of(&self, connection: &DownstreamConnection) -> bool {
        !connection.callers.are_clients() || self.client.trusts(connection.peer)
    }

    /// What a request's client showed of itself; what a trusted proxy showed in its handshake is not its clients'.
    pub(super) fn shown_by<'c, B>(
        &self,
        connection: &'c DownstreamConnection,
        request: &Request<B>,
        now: Time,
        is_attempt: impl FnOnce() -> bool,
    ) -> Result<Shown<'c>, MalformedRequest> {
        let tls = connection.tls.get().filter(|_| !self.trusts_peer_of(connection)).map(|tls| &**tls);
        let source = request.extensions().get().map_or(connection.peer, |SourceAddr(source)| *source);
        let requester = Requester {
            peer: connection.peer,
            source,
            names_scheme: self.trusts_peer_of(connection),
            is_secure: connection.is_secure(),
            tls,
        };
        self.client.shown_by(requester, request, now, is_attempt)
    }

    /// The `Location` for a redirected request.
    pub(super) fn redirect_location<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
    ) -> Result<HeaderValue, MalformedRequest> {
        let ListenerKind::Plain(port) = connection.listener_kind else {
            return Err(MalformedRequest::NoHost);
        };
        let location = self.redirect.as_ref().and_then(|redirect| redirect.location(port, request));
        location.ok_or(MalformedRequest::NoHost)
    }
}

/// The running configuration of one worker, with the worker's upstream connections.
pub struct WorkerConfig {
    /// The part that all workers share.
    pub shared: Arc<RuntimeConfig>,
    groups: Vec<UpstreamGroup>,
    /// All upstreams of the groups, each once.
    backends: Vec<Rc<Backend>>,
}

/// Gives one worker the configuration in force.
pub struct ConfigHandle {
    published: Arc<ArcSwap<RuntimeConfig>>,
    cached: RefCell<Rc<WorkerConfig>>,
}

impl ConfigHandle {
    /// A handle without upstream connections.
    #[must_use]
    pub fn new(published: Arc<ArcSwap<RuntimeConfig>>) -> Self {
        let cached = WorkerConfig::new(published.load_full(), &[]);
        Self { published, cached: RefCell::new(Rc::new(cached)) }
    }

    /// The configuration in force. Hold it no longer than a request: it keeps the buckets of an old file alive.
    #[must_use]
    pub fn current(&self) -> Rc<WorkerConfig> {
        let published = self.published.load();
        let mut cached = self.cached.borrow_mut();
        if !Arc::ptr_eq(&published, &cached.shared) {
            *cached = Rc::new(WorkerConfig::new(Arc::clone(&published), &cached.backends));
        }
        Rc::clone(&cached)
    }
}

impl WorkerConfig {
    /// The worker keeps its connections to `known` upstreams.
    fn new(shared: Arc<RuntimeConfig>, known: &[Rc<Backend>]) -> Self {
        let mut backends: Vec<Rc<Backend>> = Vec::new();
        let mut backend = |health: &Arc<Health>| {
            let is = |backend: &&Rc<Backend>| backend.is(health);
            if let Some(backend) = backends.iter().find(is) {
                return Rc::clone(backend);
            }
            let backend = known.iter().find(is).map_or_else(|| Backend::new(health), Rc::clone);
            backends.push(Rc::clone(&backend));
            backend
        };
        let group = |(number, group): (usize, &Vec<_>)| {
            UpstreamGroup::new(number, group.iter().map(&mut backend).collect(), &shared.settings)
        };
        let groups = shared.upstreams.iter().enumerate().map(group).collect();
        Self { groups, backends, shared }
    }

    /// The client behind the connection's peer.
    ///
    /// # Errors
    /// See [`ClientSettings::client_of`].
    pub(super) fn client_of<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
    ) -> Result<Client, MalformedRequest> {
        let settings = &self.shared.client;
        match connection.callers {
            Callers::Clients => settings.client_of(connection.peer, request.headers()),
            Callers::Askers(_) => match request.extensions().get() {
                Some(SourceAddr(source)) => settings.client_of(*source, request.headers()),
                None => settings.client_behind(connection.peer, request.headers()),
            },
        }
    }

    /// The same for the log: the peer if the client cannot be determined.
    pub(super) fn client_for_log<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
    ) -> Client {
        let client = self.client_of(connection, request);
        client.unwrap_or_else(|_| self.shared.client.client_of_peer(connection.peer))
    }

    /// The group with this number, or the default group.
    #[must_use]
    pub fn group(&self, number: usize) -> &UpstreamGroup {
        self.groups.get(number).unwrap_or(&self.groups[0])
    }

    /// Closes upstream connections that were idle for too long: see [`Backend::expire`].
    pub fn expire(&self) {
        self.backends.iter().for_each(|backend| backend.expire(&self.shared.settings));
    }

    /// Whether an idle connection to an upstream is left.
    #[must_use]
    pub fn has_idle(&self) -> bool {
        self.backends.iter().any(|backend| backend.has_idle())
    }
}
