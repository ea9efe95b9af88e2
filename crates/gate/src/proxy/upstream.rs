//! The upstreams of one worker: load balancing, connection pool, time-outs.
//!
//! Each worker has its own connections; workers share no pool and no lock. They share the load and health of each
//! upstream, and its `upstream_max` connection slots: a request without a slot waits for one, or for a connection that
//! another request releases, within `connect_timeout`. A request is sent once more only if provably no byte of it was
//! sent, or if it is safe: then to another upstream, if there is one. Headers and outcomes are left to `transaction::forward`.

mod addresses;
mod backend;
pub mod bound;
mod connect;
mod fair_queue;
pub mod framing;
mod health;
mod health_check;
mod http1;
pub(super) mod plain_response;
mod pool;
mod reuse;
mod shares;
mod target;
pub(super) mod tunnel;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use smallvec::SmallVec;
use tokio::time::Sleep;

pub use self::addresses::NameAnswer;
use self::addresses::NamedAddress;
pub use self::backend::Backend;
use self::backend::SentRequest;
use self::bound::BoundConnections;
use self::fair_queue::FairQueuePermit;
pub use self::health::Health;
pub use self::health_check::{HealthChange, HealthProbe};
pub use self::http1::UpstreamBody;
use self::shares::ShareTurns;
pub use self::target::{UpstreamAddress, UpstreamHost, UpstreamTarget};
use super::body::{RequestBody, UploadProgress};
use super::buffered_socket::BufferedSocket;
use super::error::Error;
use super::headers::passed::{HeaderCase, PassedHeaders};
use super::headers::received_head::ReceivedHead;
pub use super::settings::TargetShare;
use super::settings::{Forwarding, ProxySettings};
use crate::event::Failure;
use crate::net::connection_limit::ClientLoad;
use crate::net::connection_slots::ConnectionSlot;
use crate::net::stream::NetStream;
use crate::net::tls::Trust;

/// One worker's connections to a group of interchangeable upstreams.
pub struct UpstreamGroup {
    backends: Vec<Rc<Backend>>,
    settings: Arc<ProxySettings>,
    forwarding: Forwarding,
    round_robin: Cell<usize>,
    /// For upstreams that an SRV record names.
    turns: Option<ShareTurns>,
}

/// A connection to an upstream, with its slot among `upstream_max`. Boxed when it is made, because each request moves it
/// several times.
struct UpstreamConnection {
    socket: BufferedSocket,
    /// For responses; reused, because resetting a timer costs less than making one.
    timer: Pin<Box<Sleep>>,
    /// The CAs that verified the server; `None` without TLS.
    trust: Option<Trust>,
    /// The address behind the name of the upstream; `None` without a name.
    address: Option<Arc<NamedAddress>>,
    _permit: ConnectionSlot,
}

/// A connection in use, until the end of its response.
pub struct ConnectionLease {
    backend: Rc<Backend>,
    connection: Option<Box<UpstreamConnection>>,
    /// Whether the connection may be used again: not if the response began before the whole request was sent.
    may_be_reused: bool,
    /// Whom the connection belongs to, if it carries an authentication: nobody after an HTTP/2 request.
    owner: Option<Option<Rc<BoundConnections>>>,
    _turn: FairQueuePermit,
}

impl UpstreamGroup {
    /// The group of these upstreams with this number, and the time-outs of `settings`.
    #[must_use]
    pub fn new(number: usize, backends: Vec<Rc<Backend>>, settings: &Arc<ProxySettings>) -> Self {
        let forwarding = settings.forwarding.get(number).copied().unwrap_or_default();
        let shares = settings.shares.get(number).filter(|shares| !shares.is_empty());
        let turns = shares.map(|shares| ShareTurns::new(shares));
        Self { backends, settings: Arc::clone(settings), forwarding, round_robin: Cell::new(0), turns }
    }

    /// How requests to it are forwarded.
    #[must_use]
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }

    /// The upstreams, in the order of the file.
    #[must_use]
    pub fn backends(&self) -> &[Rc<Backend>] {
        &self.backends
    }

    /// Sends a request to the least busy upstream that is up, and waits for the head of its response. If an upstream
    /// cannot be connected to, the next one is tried. `request` becomes `None` when the request may have been sent, and
    /// is `Some` while it provably was not. `client` is `None` where the client's requests are not counted.
    ///
    /// # Errors
    /// The failure, and the side to blame.
    pub async fn forward(
        &self,
        request: &mut UnsentRequest,
        progress: &UploadProgress,
        client: Option<ClientLoad>,
        source: &RequestSource<'_>,
    ) -> Result<Response<UpstreamBody>, Error> {
        let mut outgoing = OutgoingRequest { unsent: request, again: None };
        if let [only] = &self.backends[..] {
            return only.forward(&mut outgoing, progress, client, &self.settings, source).await;
        }
        if let Some(own) =
            source.bound.and_then(|bound| self.backends.iter().find(|backend| bound.has(&backend.pool.key)))
        {
            return own.forward(&mut outgoing, progress, client, &self.settings, source).await;
        }
        let mut last = Error::Upstream(Failure::Connect);
        for backend in self.by_preference() {
            match backend.forward(&mut outgoing, progress, client, &self.settings, source).await {
                Err(error) if outgoing.is_left() => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// Upstreams that are up, least busy first and equals in turn, or by their shares; then those that are down, in case
    /// they are back.
    fn by_preference(&self) -> SmallVec<[Rc<Backend>; 4]> {
        let is_down = |at: usize| self.backends.get(at).is_some_and(|backend| backend.health.is_down());
        if let Some(turns) = &self.turns {
            return turns.next(is_down).into_iter().filter_map(|at| self.backends.get(at).cloned()).collect();
        }
        let turn = self.round_robin.get();
        self.round_robin.set(turn.wrapping_add(1));
        let count = self.backends.len();
        let mut order: SmallVec<[Rc<Backend>; 4]> =
            (0..count).map(|at| Rc::clone(&self.backends[(turn % count + at) % count])).collect();
        if count > 1 {
            order.sort_by_key(|backend| (backend.health.is_down(), backend.health.busy()));
        }
        order
    }
}

/// A request to an upstream.
#[derive(Debug)]
pub struct UpstreamRequest {
    /// The method.
    pub method: Method,
    /// Path and query as the client sent them, or `*`.
    pub target: Bytes,
    /// All headers but those of the framing, which the body decides.
    pub headers: Box<PassedHeaders>,
    /// How names are written.
    pub case: HeaderCase,
    /// The body, if there is one.
    pub body: Option<Box<RequestBody>>,
    /// Whether it authenticates its connection, as NTLM and Negotiate do.
    pub authenticates: bool,
    /// Whether it may be sent once more where nothing is known of the first time (RFC 9110, 9.2.2): it is safe, has no
    /// body, and is not an attempt.
    pub is_repeatable: bool,
    /// For the head of the response.
    pub reply_timeout: Duration,
}

/// Whose request it is.
pub struct RequestSource<'c> {
    /// The connections that belong to its connection; `None` over HTTP/2.
    pub bound: Option<&'c Rc<BoundConnections>>,
    /// Gets the interim responses, each with its bytes.
    pub pass_on: &'c dyn Fn(Response<()>, ReceivedHead),
}

/// A request of which provably no byte was sent; otherwise `None`.
pub type UnsentRequest = Option<UpstreamRequest>;

/// A request on its way to one of several upstreams.
struct OutgoingRequest<'r> {
    unsent: &'r mut UnsentRequest,
    /// It was sent, and may be sent to another upstream.
    again: Option<Box<SentRequest>>,
}

impl OutgoingRequest<'_> {
    /// Whether another upstream may get it.
    fn is_left(&self) -> bool {
        self.unsent.is_some() || self.again.is_some()
    }
}

impl UpstreamConnection {
    /// Whether another request may be sent over it.
    fn is_usable(&mut self, settings: &ProxySettings) -> bool {
        self.is_current(settings) && self.socket.is_idle()
    }

    /// Whether the server is still the one that is meant.
    fn is_current(&self, settings: &ProxySettings) -> bool {
        self.is_trusted(settings) && !self.address.as_ref().is_some_and(|address| address.is_gone())
    }

    /// Whether the CAs that verified the server are still the configured ones.
    fn is_trusted(&self, settings: &ProxySettings) -> bool {
        let Some(trust) = &self.trust else { return true };
        settings.upstream_trust.as_ref().is_some_and(|current| current.ptr_eq(trust))
    }
}

impl ConnectionLease {
    /// The stream, and what was read of another protocol behind the head of a response.
    pub fn switch_protocols(&mut self) -> Option<(&mut NetStream, Bytes)> {
        self.socket().map(BufferedSocket::split)
    }

    fn socket(&mut self) -> Option<&mut BufferedSocket> {
        self.connection.as_mut().map(|connection| &mut connection.socket)
    }

    /// The response is complete. The connection returns to the pool if it `is_reusable`.
    fn give_back(mut self, is_reusable: bool) {
        self.backend.health.succeeded();
        if let Some(connection) = self.connection.take()
            && is_reusable
            && self.may_be_reused
        {
            match self.owner.take() {
                None => self.backend.pool.put(connection, &self.backend.health.demand),
                Some(Some(owner)) => {
                    self.backend.pool.note_bound(&owner);
                    owner.put(self.backend.pool.key.clone(), connection);
                }
                Some(None) => {}
            }
        }
    }

    /// The response is of no use: the connection closes, so that its rest reaches no client.
    fn close(self) {
        self.backend.health.failed(Failure::Broken("its body is malformed, or broke off".into()));
    }
}

/// Sweeps within the time that an idle connection is kept.
pub const SWEEPS: u32 = 8;
