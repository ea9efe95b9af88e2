//! The upstreams of one worker: load balancing, connection pool, time-outs.
//!
//! Each worker has its own connections; workers share no pool and no lock. They share the load and health of each
//! upstream, and its `upstream_max` connection slots: a request without a slot waits for one, or for a connection that
//! another request releases, within `connect_timeout`. A request is retried only if provably no byte of it was sent.
//! Headers and outcomes are left to `transaction::forward`.

mod connect;
mod fair_queue;
pub mod framing;
mod health;
mod http1;
pub(super) mod plain_response;
mod pool;
pub(super) mod tunnel;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response};
use tokio::time::{Instant, Sleep};

use self::fair_queue::{FairQueue, FairQueuePermit};
pub use self::health::Health;
pub use self::http1::UpstreamBody;
use self::http1::{BufferedSocket, PendingResponse, ResponseHead, Upload};
use self::pool::{ConnectionPool, DemandGuard, IdleCloser};
use super::body::{RequestBody, UploadProgress, UploadState};
use super::error::Error;
use super::settings::ProxySettings;
use crate::event::Failure;
use crate::net::connection_limit::ClientLoad;
use crate::net::connection_slots::ConnectionSlot;
use crate::net::stream::NetStream;
use crate::net::tls::Trust;

/// Where an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// `http://host:port`; a name is resolved at each new connection.
    Tcp {
        /// A name or an address without brackets.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
    /// `https://host:port`: the same over TLS; the server's certificate has to be valid for the host.
    Tls {
        /// A name or an address without brackets.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
    /// `unix:/path`.
    Unix(PathBuf),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "http://{}", authority(host, *port)),
            Self::Tls { host, port } => write!(f, "https://{}", authority(host, *port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An upstream: where it listens, and whom it is asked as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTarget {
    /// Where it listens.
    pub address: UpstreamAddress,
    /// The name that it goes by; `None` leaves it the `Host` of each request, and over TLS the host of its address.
    pub host: Option<UpstreamHost>,
}

/// `upstream_host` of a route: the `Host` that an upstream gets, and the name that its certificate has to be valid for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamHost {
    /// A name or an address without brackets, in lower case.
    pub name: String,
    /// 1 to 65,535, if `Host` has a port.
    pub port: Option<u16>,
}

impl From<UpstreamAddress> for UpstreamTarget {
    fn from(address: UpstreamAddress) -> Self {
        Self { address, host: None }
    }
}

impl fmt::Display for UpstreamTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => self.address.fmt(f),
            Some(host) => write!(f, "{} as {host}", self.address),
        }
    }
}

/// As in `Host`.
impl fmt::Display for UpstreamHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => f.write_str(&authority(&self.name, port)),
            None if self.name.contains(':') => write!(f, "[{}]", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Host and port as in a URL.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// One worker's connections to a group of interchangeable upstreams.
pub struct UpstreamGroup {
    backends: Vec<Rc<Backend>>,
    settings: Arc<ProxySettings>,
    round_robin: Cell<usize>,
}

/// One worker's connections to one upstream.
pub struct Backend {
    health: Arc<Health>,
    pool: Rc<ConnectionPool>,
    fair_queue: Rc<FairQueue>,
    /// Set at the first connection.
    idle_closer: OnceCell<IdleCloser>,
}

/// A connection to an upstream, with its slot among `upstream_max`.
struct UpstreamConnection {
    socket: BufferedSocket,
    /// For responses; reused, because resetting a timer costs less than making one.
    timer: Pin<Box<Sleep>>,
    /// The CAs that verified the server; `None` without TLS.
    trust: Option<Trust>,
    _permit: ConnectionSlot,
}

/// A connection in use, until the end of its response.
pub struct ConnectionLease {
    backend: Rc<Backend>,
    connection: Option<UpstreamConnection>,
    /// The response began before the whole request was sent, so the connection is not used again.
    was_early: bool,
    _in_flight: FairQueuePermit,
}

impl UpstreamGroup {
    /// A group of at least one upstream, with the time-outs of `settings`.
    #[must_use]
    pub fn new(backends: Vec<Rc<Backend>>, settings: &Arc<ProxySettings>) -> Self {
        Self { backends, settings: Arc::clone(settings), round_robin: Cell::new(0) }
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
    ) -> Result<Response<UpstreamBody>, Error> {
        if let [only] = &self.backends[..] {
            return only.forward(request, progress, client, &self.settings).await;
        }
        let mut last = Error::Upstream(Failure::Connect);
        for backend in self.by_preference() {
            match backend.forward(request, progress, client, &self.settings).await {
                Err(error) if request.is_some() => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// Upstreams that are up, least busy first and equals in turn; then those that are down, in case they are back.
    fn by_preference(&self) -> impl Iterator<Item = Rc<Backend>> {
        let turn = self.round_robin.get();
        self.round_robin.set(turn.wrapping_add(1));
        let count = self.backends.len();
        let mut order: smallvec::SmallVec<[Rc<Backend>; 4]> =
            (0..count).map(|at| Rc::clone(&self.backends[(turn % count + at) % count])).collect();
        if count > 1 {
            order.sort_by_key(|backend| (backend.health.is_down(), backend.health.busy()));
        }
        order.into_iter()
    }
}

/// A request of which provably no byte was sent; otherwise `None`.
pub type UnsentRequest = Option<Request<RequestBody>>;

impl Backend {
    /// A backend without connections.
    #[must_use]
    pub fn new(health: &Arc<Health>) -> Rc<Self> {
        Rc::new(Self {
            health: Arc::clone(health),
            pool: Rc::default(),
            fair_queue: FairQueue::new(health),
            idle_closer: OnceCell::new(),
        })
    }

    /// Whether this is the upstream with this health.
    #[must_use]
    pub fn is(&self, health: &Arc<Health>) -> bool {
        Arc::ptr_eq(&self.health, health)
    }

    /// Closes connections that were idle for too long. To be called [`SWEEPS`] times within `proxy.upstream_idle`.
    pub fn expire(&self) {
        self.pool.expire(SWEEPS);
    }

    /// Whether an idle connection is left, so that [`expire`](Self::expire) has to be called.
    pub fn has_idle(&self) -> bool {
        !self.pool.is_empty()
    }

    async fn forward(
        self: &Rc<Self>,
        request: &mut UnsentRequest,
        progress: &UploadProgress,
        client: Option<ClientLoad>,
        settings: &ProxySettings,
    ) -> Result<Response<UpstreamBody>, Error> {
        let in_flight = match client.filter(|client| self.fair_queue.has_to_wait(client)) {
            None => self.fair_queue.pass(),
            // Boxed: it is rarely awaited, and would enlarge every request's future.
            Some(client) => {
                Box::pin(self.fair_queue.wait(client)).await.ok_or_else(|| self.failed(Failure::Busy))?
            }
        };
        let mut idle = self.pop_idle(settings, in_flight.reserved_for_others());
        loop {
            let (mut connection, is_fresh) = match idle.take() {
                Some(connection) => (connection, false),
                // Boxed: as above.
                None => Box::pin(self.acquire(settings)).await.map_err(|failure| self.failed(failure))?,
            };
            match self.send(&mut connection, request, progress, settings).await {
                Ok((head, upload)) => {
                    let lease = ConnectionLease {
                        backend: Rc::clone(self),
                        connection: Some(connection),
                        was_early: progress.state() != UploadState::Complete,
                        _in_flight: in_flight,
                    };
                    let body = UpstreamBody::new(&head, upload, lease);
                    return Ok(head.response.map(|()| body));
                }
                // The upstream closed the idle connection before the request was sent: try another one.
                Err(_) if !is_fresh && request.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn send(
        &self,
        connection: &mut UpstreamConnection,
        unsent: &mut UnsentRequest,
        progress: &UploadProgress,
        settings: &ProxySettings,
    ) -> Result<(ResponseHead, Upload), Error> {
        let Some(mut request) = unsent.take() else { return Err(Error::Upstream(Failure::Broken)) };
        if self.health.target.host.is_some() || !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.health.host.clone());
        }
        let (head, body) = request.into_parts();
        let mut pending = PendingResponse::new(head, body);
        let UpstreamConnection { socket, timer, .. } = connection;
        let timeout = settings.reply_timeout.to_std();
        timer.as_mut().reset(Instant::now() + timeout);
        let received = poll_fn(|cx| {
            loop {
                if let Poll::Ready(received) = pending.poll_head(socket, cx) {
                    return Poll::Ready(Some(received));
                }
                ready!(timer.as_mut().poll(cx));
                // The time for a response starts when the request has been sent: an upload may take as long as it
                // makes progress.
                match progress.last_progress().map(|last| last + timeout) {
                    Some(later) if progress.state() == UploadState::Partial && later > timer.deadline() => {
                        timer.as_mut().reset(later);
                    }
                    _ => return Poll::Ready(None),
                }
            }
        });
        match received.await {
            None => Err(self.failed(Failure::Timeout)),
            Some(Ok(head)) => Ok((head, pending.into_upload())),
            Some(Err(_)) => Err(match progress.state() {
                UploadState::Stalled => Error::ClientStalled,
                UploadState::Aborted => Error::ClientDisconnected,
                UploadState::Partial | UploadState::Complete => self.failed(Failure::Broken),
            }),
        }
    }

    /// The youngest usable idle connection; `reserved` idle ones are left in the pool.
    fn pop_idle(&self, settings: &ProxySettings, reserved: usize) -> Option<UpstreamConnection> {
        loop {
            let mut connection = self.pool.pop(reserved)?;
            if connection.is_usable(settings) {
                return Some(connection);
            }
        }
    }

    /// A fresh connection; or without a free slot, one that another request releases. Returns whether it is fresh.
    async fn acquire(&self, settings: &ProxySettings) -> Result<(UpstreamConnection, bool), Failure> {
        self.idle_closer.get_or_init(|| IdleCloser::begin(&self.pool, &self.health));
        let slot = match self.health.connection_limit.try_take() {
            Some(slot) => slot,
            None => {
                let next = tokio::time::timeout(settings.connect_timeout.to_std(), self.next_free(settings));
                match next.await.map_err(|_| Failure::Busy)? {
                    Acquired::Reused(connection) => return Ok((connection, false)),
                    Acquired::New(slot) => slot,
                }
            }
        };
        Ok((connect::connect(&self.health, slot, settings).await?, true))
    }

    /// Waits for a released connection or a free slot, whichever comes first.
    async fn next_free(&self, settings: &ProxySettings) -> Acquired {
        let _demand = DemandGuard::begin(&self.health.demand, &self.pool);
        loop {
            tokio::select! {
                biased;
                Ok(mut connection) = self.pool.wait() => if connection.is_usable(settings) {
                    return Acquired::Reused(connection);
                },
                slot = self.health.connection_limit.take() => return Acquired::New(slot),
            }
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        self.health.failed(failure);
        Error::Upstream(failure)
    }
}

/// The result of waiting for a connection.
enum Acquired {
    Reused(UpstreamConnection),
    New(ConnectionSlot),
}

impl UpstreamConnection {
    /// Whether another request may be sent over it.
    fn is_usable(&mut self, settings: &ProxySettings) -> bool {
        self.is_trusted(settings) && self.socket.is_idle()
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

    /// The response is complete. The connection returns to the pool if it `is_reusable` and the response did not begin
    /// before the whole request was sent.
    fn give_back(mut self, is_reusable: bool) {
        self.backend.health.succeeded();
        if let Some(connection) = self.connection.take()
            && is_reusable
            && !self.was_early
        {
            self.backend.pool.put(connection, &self.backend.health.demand);
        }
    }

    /// The response is of no use: the connection closes, so that its rest reaches no client.
    fn close(self) {
        self.backend.health.failed(Failure::Broken);
    }
}

/// Sweeps within the time that an idle connection is kept.
pub const SWEEPS: u32 = 8;
