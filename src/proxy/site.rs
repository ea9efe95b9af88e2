//! What a request needs of the file: one value, so that none sees half of the old file and half of the new.
//!
//! Whoever reads the file publishes a [`Site`]; each worker follows with connections of its own. The surprising
//! thing: a worker looks whether there is another site at each request, and what it finds is nearly always the one
//! it knows, so a look is an atomic load.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderValue, Request};

use super::client_addr::ClientSettings;
use super::connection::Connection;
use super::redirect::Redirect;
use super::respond::RefuseSettings;
use super::scheme::is_secure;
use super::settings::Settings;
use super::target::Malformed;
use super::upstream::{Group, Health, Server};
use crate::engine::Rules;
use crate::net::listener::Door;
use crate::net::tls::Doorkeeper;
use crate::policy::attempt::Client;

/// What of the file a request uses, shared by all workers.
pub struct Site {
    /// Routes and limits, with their buckets.
    pub rules: Arc<Rules>,
    /// Who the client is.
    pub client: ClientSettings,
    /// How refusals look.
    pub refuse: Arc<RefuseSettings>,
    /// Bounds and time-outs.
    pub settings: Arc<Settings>,
    /// For clients that speak TLS; `None` without certificates.
    pub doorkeeper: Option<Doorkeeper>,
    /// Where `http://` sends its clients; `None` where they may stay.
    pub redirect: Option<Redirect>,
    /// Groups of upstreams, none of them empty; the first is the default. A route's
    /// [`upstream`](crate::policy::Route::upstream) is an index into this list.
    pub upstreams: Vec<Vec<Arc<Health>>>,
}

impl Site {
    /// Whether a client has to ask again over TLS: where there is a [`redirect`](Self::redirect), and neither we nor a
    /// proxy of ours speak it with the client.
    pub(super) fn sends_away<B>(&self, connection: &Connection, request: &Request<B>) -> bool {
        let is_secure = || is_secure(request.headers(), self.client.trusts(connection.peer), false);
        matches!(connection.door, Door::Plain(_)) && request.uri().path() != "*" && !is_secure()
    }

    /// Where such a client finds what it asks for.
    pub(super) fn elsewhere<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
    ) -> Result<HeaderValue, Malformed> {
        let Door::Plain(port) = connection.door else { return Err(Malformed::NoHost) };
        let location = self.redirect.as_ref().and_then(|redirect| redirect.location(port, request));
        location.ok_or(Malformed::NoHost)
    }
}

/// The site as one worker uses it.
pub struct Local {
    /// What all workers share of it.
    pub site: Arc<Site>,
    groups: Vec<Group>,
    /// All upstreams of the groups, each once.
    servers: Vec<Rc<Server>>,
}

/// One worker's way to the site that is in force.
pub struct Follower {
    published: Arc<ArcSwap<Site>>,
    local: RefCell<Rc<Local>>,
}

impl Follower {
    /// A worker without connections.
    #[must_use]
    pub fn new(published: Arc<ArcSwap<Site>>) -> Self {
        let local = Local::new(published.load_full(), &[]);
        Self { published, local: RefCell::new(Rc::new(local)) }
    }

    /// The site in force. To be held no longer than a request needs it: what it holds is the whole of the old file,
    /// and its buckets.
    #[must_use]
    pub fn now(&self) -> Rc<Local> {
        let site = self.published.load();
        let mut local = self.local.borrow_mut();
        if !Arc::ptr_eq(&site, &local.site) {
            *local = Rc::new(Local::new(Arc::clone(&site), &local.servers));
        }
        Rc::clone(&local)
    }
}

impl Local {
    /// Upstreams that are known keep the worker's connections to them.
    fn new(site: Arc<Site>, known: &[Rc<Server>]) -> Self {
        let mut servers: Vec<Rc<Server>> = Vec::new();
        let mut server = |health: &Arc<Health>| {
            let is = |server: &&Rc<Server>| server.is(health);
            if let Some(server) = servers.iter().find(is) {
                return Rc::clone(server);
            }
            let server = known.iter().find(is).map_or_else(|| Server::new(health), Rc::clone);
            servers.push(Rc::clone(&server));
            server
        };
        let group = |group: &Vec<_>| Group::new(group.iter().map(&mut server).collect(), &site.settings);
        let groups = site.upstreams.iter().map(group).collect();
        Self { groups, servers, site }
    }

    /// Who the client is.
    pub(super) fn client_of<B>(
        &self,
        connection: &Connection,
        request: &Request<B>,
    ) -> Result<Client, Malformed> {
        self.site.client.client_of(connection.peer, request.headers())
    }

    /// The same for the log: of what cannot be read it is the peer.
    pub(super) fn client_on_record<B>(&self, connection: &Connection, request: &Request<B>) -> Client {
        let known = self.client_of(connection, request);
        known.unwrap_or_else(|_| self.site.client.client_at(connection.peer))
    }

    /// The group of this number, else the default.
    #[must_use]
    pub fn group(&self, number: usize) -> &Group {
        self.groups.get(number).unwrap_or(&self.groups[0])
    }

    /// Closes upstream connections that were idle for too long: see [`Server::expire`].
    pub fn expire(&self) {
        self.servers.iter().for_each(|server| server.expire());
    }
}
