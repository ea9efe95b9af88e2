//! The upstreams of one worker: load balancing, connection pool, time-outs.
//!
//! Each worker keeps its own connections; no pool and no lock is shared. What workers share is how busy and how well each
//! upstream is, and its `upstream_max` places: a request for which none is left waits for one, or for a connection that
//! another request gives back, as long as for a connection. The surprising thing: a request that may have reached an upstream
//! is never sent twice; only one that provably never left is.

mod burst_queue;
mod connect;
mod fair_queue;
pub mod framing;
mod head_limit;
mod health;
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

use http::header::HOST;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::time::{Instant, Sleep};

use self::burst_queue::{BurstPermit, BurstQueue};
use self::head_limit::HeadLimit;
pub use self::health::Health;
use self::pool::{ConnectionPool, DemandGuard, IdleCloser};
use super::body::{RequestBody, UploadProgress, UploadState};
use super::error::Error;
use super::settings::ProxySettings;
use crate::event::Failure;
use crate::net::connection_slots::ConnectionSlot;
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
    /// `https://host:port`: the same over TLS, and the server has to prove that it is this host.
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

/// As it stands in an address.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// One worker's connections to a group of upstreams that do the same.
pub struct UpstreamGroup {
    backends: Vec<Rc<Backend>>,
    settings: Arc<ProxySettings>,
    round_robin: Cell<usize>,
}

/// One worker's connections to one upstream.
pub struct Backend {
    health: Arc<Health>,
    pool: Rc<ConnectionPool>,
    burst_queue: Rc<BurstQueue>,
    /// Since the first connection.
    idle_closer: OnceCell<IdleCloser>,
}

/// A connection to an upstream, and its place among `upstream_max`.
struct UpstreamConnection {
    sender: SendRequest<RequestBody>,
    /// For answers; kept, because moving a timer on costs less than making one.
    timer: Pin<Box<Sleep>>,
    head_limit: HeadLimit,
    /// By whose word the server is the one that is meant; `None` without TLS.
    trust: Option<Trust>,
    _permit: ConnectionSlot,
}

/// Counts a request as long as it is there.
struct InFlightGuard {
    backend: Rc<Backend>,
    _burst_permit: Option<BurstPermit>,
}

/// A connection in use, until the answer has come to its end.
pub struct ConnectionLease {
    backend: Rc<Backend>,
    connection: Option<UpstreamConnection>,
    /// The upstream answered before it can have read the whole request: something is unusual about it.
    was_early: bool,
    _in_flight: InFlightGuard,
}

impl UpstreamGroup {
    /// These upstreams, at least one, under these time-outs.
    #[must_use]
    pub fn new(servers: Vec<Rc<Backend>>, settings: &Arc<ProxySettings>) -> Self {
        Self { backends: servers, settings: Arc::clone(settings), round_robin: Cell::new(0) }
    }

    /// Its upstreams, in the order of the file.
    #[must_use]
    pub fn backends(&self) -> &[Rc<Backend>] {
        &self.backends
    }

    /// Sends a request to the least busy upstream that is up, and waits for the head of its answer. An upstream
    /// that cannot be connected to is passed over for the next one. The request is taken out of its slot when it may
    /// have left, and is still there, or there again, while it provably has not. `neighbours` is how many of its prefix
    /// are at upstreams.
    ///
    /// # Errors
    /// What went wrong, and whose fault it was.
    pub async fn forward(
        &self,
        request: &mut UnsentRequest,
        progress: &UploadProgress,
        neighbours: usize,
    ) -> Result<(Response<Incoming>, ConnectionLease), Error> {
        if let [only] = &self.backends[..] {
            return only.forward(request, progress, neighbours, &self.settings).await;
        }
        let mut last = Error::Upstream(Failure::Connect);
        for server in self.by_preference() {
            match server.forward(request, progress, neighbours, &self.settings).await {
                Err(error) if request.is_some() => last = error,
                done => return done,
            }
        }
        Err(last)
    }

    /// Those that are up by how busy they are, equals in turn; then the others, in case they are back.
    fn by_preference(&self) -> impl Iterator<Item = Rc<Backend>> {
        let turn = self.round_robin.get();
        self.round_robin.set(turn.wrapping_add(1));
        let count = self.backends.len();
        let mut order: smallvec::SmallVec<[Rc<Backend>; 4]> =
            (0..count).map(|at| Rc::clone(&self.backends[(turn % count + at) % count])).collect();
        if count > 1 {
            order.sort_by_key(|server| (server.health.is_down(), server.health.busy()));
        }
        order.into_iter()
    }
}

/// A request that provably has not left.
pub type UnsentRequest = Option<Request<RequestBody>>;

impl Backend {
    /// No connection of this worker to this upstream yet.
    #[must_use]
    pub fn new(health: &Arc<Health>) -> Rc<Self> {
        Rc::new(Self {
            health: Arc::clone(health),
            pool: Rc::default(),
            burst_queue: Rc::default(),
            idle_closer: OnceCell::new(),
        })
    }

    /// Whether this is the upstream.
    #[must_use]
    pub fn is(&self, health: &Arc<Health>) -> bool {
        Arc::ptr_eq(&self.health, health)
    }

    /// Closes what was idle for too long. To be called [`SWEEPS`] times within `proxy.upstream_idle`.
    pub fn expire(&self) {
        self.pool.expire(SWEEPS);
    }

    async fn forward(
        self: &Rc<Self>,
        request: &mut UnsentRequest,
        progress: &UploadProgress,
        neighbours: usize,
        settings: &ProxySettings,
    ) -> Result<(Response<Incoming>, ConnectionLease), Error> {
        if fair_queue::exceeds_share(neighbours, settings.upstream_max) && self.is_congested(settings) {
            // Boxed: a request seldom waits for this, and would carry it along.
            Box::pin(self.wait_for_share(settings)).await?;
        }
        let (step, spared) = if burst_queue::is_burst(neighbours) {
            // Boxed: as above.
            (
                Some(Box::pin(self.burst_queue.acquire()).await),
                burst_queue::reserved_for_others(settings.upstream_max),
            )
        } else {
            (None, 0)
        };
        let busy = InFlightGuard::enter(self, step);
        let mut kept = self.pop_idle(settings, spared).await;
        loop {
            let (mut connection, is_fresh) = match kept.take() {
                Some(connection) => (connection, false),
                // Boxed: a request seldom needs what connecting takes, and would carry it along.
                None => Box::pin(self.acquire(settings)).await.map_err(|why| self.failed(why))?,
            };
            match self.send(&mut connection, request, progress, settings).await {
                Ok(response) => {
                    let was_early = progress.state() != UploadState::Complete;
                    let server = Rc::clone(self);
                    return Ok((
                        response,
                        ConnectionLease {
                            backend: server,
                            connection: Some(connection),
                            was_early,
                            _in_flight: busy,
                        },
                    ));
                }
                // A kept connection that had ended meanwhile, which nobody noticed before it was used.
                Err(_) if !is_fresh && request.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_congested(&self, settings: &ProxySettings) -> bool {
        fair_queue::is_congested(self.health.busy(), settings.upstream_max)
    }

    async fn wait_for_share(&self, settings: &ProxySettings) -> Result<(), Error> {
        let thins = self.health.fair_queue.wait(|| self.is_congested(settings));
        let thinned = tokio::time::timeout(fair_queue::QUEUE_TIMEOUT, thins).await;
        thinned.map_err(|_| self.failed(Failure::Busy))
    }

    async fn send(
        &self,
        connection: &mut UpstreamConnection,
        slot: &mut UnsentRequest,
        progress: &UploadProgress,
        settings: &ProxySettings,
    ) -> Result<Response<Incoming>, Error> {
        let Some(mut request) = slot.take() else { return Err(Error::Upstream(Failure::Broken)) };
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.health.host.clone());
        }
        let UpstreamConnection { sender, timer: patience, head_limit: ration, .. } = connection;
        ration.arm();
        let mut reply = std::pin::pin!(sender.try_send_request(request));
        let timeout = settings.reply_timeout.to_std();
        patience.as_mut().reset(Instant::now() + timeout);
        let sent = poll_fn(|cx| {
            loop {
                if let Poll::Ready(sent) = reply.as_mut().poll(cx) {
                    return Poll::Ready(Some(sent));
                }
                ready!(patience.as_mut().poll(cx));
                // The time for an answer starts when the request has been sent: an upload may take as long as it
                // makes progress.
                match progress.last_progress().map(|moved| moved + timeout) {
                    Some(later)
                        if progress.state() == UploadState::Partial && later > patience.deadline() =>
                    {
                        patience.as_mut().reset(later);
                    }
                    _ => return Poll::Ready(None),
                }
            }
        });
        let Some(sent) = sent.await else { return Err(self.failed(Failure::Timeout)) };
        ration.disarm();
        sent.map_err(|mut error| {
            *slot = error.take_message();
            match progress.state() {
                _ if slot.is_some() => Error::Upstream(Failure::Broken),
                UploadState::Stalled => Error::ClientStalled,
                UploadState::Aborted => Error::ClientDisconnected,
                UploadState::Partial | UploadState::Complete => self.failed(Failure::Broken),
            }
        })
    }

    /// The youngest idle connection that still stands; so many are spared.
    async fn pop_idle(&self, settings: &ProxySettings, spared: usize) -> Option<UpstreamConnection> {
        loop {
            let mut connection = self.pool.pop(spared)?;
            if connection.is_usable(settings).await {
                return Some(connection);
            }
        }
    }

    /// A fresh connection; or one that another request gives back, while there is no place for a fresh one. Says which.
    async fn acquire(&self, settings: &ProxySettings) -> Result<(UpstreamConnection, bool), Failure> {
        self.idle_closer.get_or_init(|| IdleCloser::begin(&self.pool, &self.health));
        let place = match self.health.connection_limit.try_take() {
            Some(place) => place,
            None => {
                let turn = tokio::time::timeout(settings.connect_timeout.to_std(), self.next_free(settings));
                match turn.await.map_err(|_| Failure::Busy)? {
                    Acquired::Reused(connection) => return Ok((connection, false)),
                    Acquired::New(place) => place,
                }
            }
        };
        Ok((connect::connect(&self.health, place, settings).await?, true))
    }

    /// Waits for what comes first.
    async fn next_free(&self, settings: &ProxySettings) -> Acquired {
        let _wanted = DemandGuard::begin(&self.health.demand, &self.pool);
        loop {
            tokio::select! {
                biased;
                Ok(mut connection) = self.pool.wait() => if connection.is_usable(settings).await {
                    return Acquired::Reused(connection);
                },
                place = self.health.connection_limit.take() => return Acquired::New(place),
            }
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        self.health.failed(failure);
        Error::Upstream(failure)
    }
}

/// What a request gets that has waited.
enum Acquired {
    Reused(UpstreamConnection),
    New(ConnectionSlot),
}

impl UpstreamConnection {
    /// Whether another request may be sent over it.
    async fn is_usable(&mut self, settings: &ProxySettings) -> bool {
        // Ready at once for a connection that rests; its task may still have to hear that the answer has ended.
        self.is_trusted(settings) && (self.sender.is_ready() || Box::pin(self.becomes_ready(settings)).await)
    }

    async fn becomes_ready(&mut self, settings: &ProxySettings) -> bool {
        let ready = poll_fn(|cx| self.sender.poll_ready(cx));
        let ready = tokio::time::timeout(settings.connect_timeout.to_std(), ready).await;
        ready.is_ok_and(|ready| ready.is_ok())
    }

    /// Whether it was made by the word of those who are trusted now.
    fn is_trusted(&self, settings: &ProxySettings) -> bool {
        let Some(trust) = &self.trust else { return true };
        settings.upstream_trust.as_ref().is_some_and(|now| now.ptr_eq(trust))
    }
}

impl InFlightGuard {
    fn enter(server: &Rc<Backend>, step: Option<BurstPermit>) -> Self {
        server.health.request_begins();
        Self { backend: Rc::clone(server), _burst_permit: step }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.backend.health.request_ends();
    }
}

impl ConnectionLease {
    /// The answer has come to its end: the connection may be used again, unless the upstream answered before it
    /// had read the whole request.
    pub fn give_back(mut self) {
        self.backend.health.succeeded();
        if let Some(connection) = self.connection.take()
            && !self.was_early
            && !connection.sender.is_closed()
        {
            self.backend.pool.put(connection, &self.backend.health.demand);
        }
    }

    /// The answer broke off: nothing that still comes over this connection may reach anybody.
    pub fn close(self) {
        self.backend.health.failed(Failure::Broken);
    }
}

/// Sweeps within the time that an idle connection is kept.
pub const SWEEPS: u32 = 8;
