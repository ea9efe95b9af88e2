//! The running configuration: one snapshot per request, swapped atomically on reload.
//!
//! Whoever reads the file publishes a [`RuntimeConfig`]; each worker follows with connections of its own. The surprising
//! thing: a worker looks whether there is another site at each request, and what it finds is nearly always the one
//! it knows, so a look is an atomic load.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderValue, Request};

use super::connection::DownstreamConnection;
use super::error::MalformedRequest;
use super::request::client_addr::ClientSettings;
use super::request::redirect::Redirect;
use super::request::scheme::is_secure;
use super::respond::RefuseSettings;
use super::settings::ProxySettings;
use super::upstream::{Backend, Health, UpstreamGroup};
use crate::engine::Rules;
use crate::net::listener::ListenerKind;
use crate::net::tls::Acceptor;
use crate::policy::attempt::Client;

/// What of the file a request uses, shared by all workers.
pub struct RuntimeConfig {
    /// Routes and limits, with their buckets.
    pub rules: Arc<Rules>,
    /// Who the client is.
    pub client: ClientSettings,
    /// How refusals look.
    pub refuse: Arc<RefuseSettings>,
    /// Bounds and time-outs.
    pub settings: Arc<ProxySettings>,
    /// For clients that speak TLS; `None` without certificates.
    pub tls_acceptor: Option<Acceptor>,
    /// Where `http://` sends its clients; `None` where they may stay.
    pub redirect: Option<Redirect>,
    /// Groups of upstreams, none of them empty; the first is the default. A route's
    /// [`upstream`](crate::policy::Route::upstream) is an index into this list.
    pub upstreams: Vec<Vec<Arc<Health>>>,
}

impl RuntimeConfig {
    /// Whether a client has to ask again over TLS: where there is a [`redirect`](Self::redirect), and neither we nor a
    /// proxy of ours speak it with the client.
    pub(super) fn needs_redirect<B>(&self, connection: &DownstreamConnection, request: &Request<B>) -> bool {
        let is_secure = || is_secure(request.headers(), self.client.trusts(connection.peer), false);
        matches!(connection.listener_kind, ListenerKind::Plain(_))
            && request.uri().path() != "*"
            && !is_secure()
    }

    /// Where such a client finds what it asks for.
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

/// The site as one worker uses it.
pub struct WorkerConfig {
    /// What all workers share of it.
    pub shared: Arc<RuntimeConfig>,
    groups: Vec<UpstreamGroup>,
    /// All upstreams of the groups, each once.
    backends: Vec<Rc<Backend>>,
}

/// One worker's way to the site that is in force.
pub struct ConfigHandle {
    published: Arc<ArcSwap<RuntimeConfig>>,
    cached: RefCell<Rc<WorkerConfig>>,
}

impl ConfigHandle {
    /// A worker without connections.
    #[must_use]
    pub fn new(published: Arc<ArcSwap<RuntimeConfig>>) -> Self {
        let local = WorkerConfig::new(published.load_full(), &[]);
        Self { published, cached: RefCell::new(Rc::new(local)) }
    }

    /// The site in force. To be held no longer than a request needs it: what it holds is the whole of the old file,
    /// and its buckets.
    #[must_use]
    pub fn current(&self) -> Rc<WorkerConfig> {
        let site = self.published.load();
        let mut local = self.cached.borrow_mut();
        if !Arc::ptr_eq(&site, &local.shared) {
            *local = Rc::new(WorkerConfig::new(Arc::clone(&site), &local.backends));
        }
        Rc::clone(&local)
    }
}

impl WorkerConfig {
    /// Upstreams that are known keep the worker's connections to them.
    fn new(site: Arc<RuntimeConfig>, known: &[Rc<Backend>]) -> Self {
        let mut servers: Vec<Rc<Backend>> = Vec::new();
        let mut server = |health: &Arc<Health>| {
            let is = |server: &&Rc<Backend>| server.is(health);
            if let Some(server) = servers.iter().find(is) {
                return Rc::clone(server);
            }
            let server = known.iter().find(is).map_or_else(|| Backend::new(health), Rc::clone);
            servers.push(Rc::clone(&server));
            server
        };
        let group =
            |group: &Vec<_>| UpstreamGroup::new(group.iter().map(&mut server).collect(), &site.settings);
        let groups = site.upstreams.iter().map(group).collect();
        Self { groups, backends: servers, shared: site }
    }

    /// Who the client is.
    pub(super) fn client_of<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
    ) -> Result<Client, MalformedRequest> {
        self.shared.client.client_of(connection.peer, request.headers())
    }

    /// The same for the log: of what cannot be read it is the peer.
    pub(super) fn client_for_log<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
    ) -> Client {
        let known = self.client_of(connection, request);
        known.unwrap_or_else(|_| self.shared.client.client_of_peer(connection.peer))
    }

    /// The group of this number, else the default.
    #[must_use]
    pub fn group(&self, number: usize) -> &UpstreamGroup {
        self.groups.get(number).unwrap_or(&self.groups[0])
    }

    /// Closes upstream connections that were idle for too long: see [`Backend::expire`].
    pub fn expire(&self) {
        self.backends.iter().for_each(|server| server.expire());
    }
}
