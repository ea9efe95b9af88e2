//! The upstreams of one worker: which one, over which connection.
//!
//! Each worker keeps its own connections; no pool and no lock is shared. What workers share is how busy and how well each
//! upstream is, and its `upstream_max` places: a request for which none is left waits for one, or for a connection that
//! another request gives back, as long as for a connection. The surprising thing: a request that may have reached an upstream
//! is never sent twice; only one that provably never left is.

mod connect;
mod crowd;
mod health;
mod idle;
mod pace;
mod ration;

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

pub use self::health::Health;
use self::idle::{Idle, MakingRoom, Wanted};
use self::pace::{Pace, Step};
use self::ration::Ration;
use super::body::{Progress, RequestBody, Sent};
use super::error::Error;
use super::settings::Settings;
use crate::event::Failure;
use crate::net::places::Place;
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
pub struct Group {
    servers: Vec<Rc<Server>>,
    settings: Arc<Settings>,
    turn: Cell<usize>,
}

/// One worker's connections to one upstream.
pub struct Server {
    health: Arc<Health>,
    idle: Rc<Idle>,
    pace: Rc<Pace>,
    /// Since the first connection.
    making_room: OnceCell<MakingRoom>,
}

/// A connection to an upstream, and its place among `upstream_max`.
struct Connection {
    sender: SendRequest<RequestBody>,
    /// For answers; kept, because moving a timer on costs less than making one.
    patience: Pin<Box<Sleep>>,
    ration: Ration,
    /// By whose word the server is the one that is meant; `None` without TLS.
    trust: Option<Trust>,
    _place: Place,
}

/// Counts a request as long as it is there.
struct Busy {
    server: Rc<Server>,
    _step: Option<Step>,
}

/// A connection in use, until the answer has come to its end.
pub struct Lease {
    server: Rc<Server>,
    connection: Option<Connection>,
    /// The upstream answered before it can have read the whole request: something is unusual about it.
    was_early: bool,
    _busy: Busy,
}

impl Group {
    /// These upstreams, at least one, under these time-outs.
    #[must_use]
    pub fn new(servers: Vec<Rc<Server>>, settings: &Arc<Settings>) -> Self {
        Self { servers, settings: Arc::clone(settings), turn: Cell::new(0) }
    }

    /// Its upstreams, in the order of the file.
    #[must_use]
    pub fn servers(&self) -> &[Rc<Server>] {
        &self.servers
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
        request: &mut Unsent,
        progress: &Progress,
        neighbours: usize,
    ) -> Result<(Response<Incoming>, Lease), Error> {
        if let [only] = &self.servers[..] {
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
    fn by_preference(&self) -> impl Iterator<Item = Rc<Server>> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let count = self.servers.len();
        let mut order: smallvec::SmallVec<[Rc<Server>; 4]> =
            (0..count).map(|at| Rc::clone(&self.servers[(turn % count + at) % count])).collect();
        if count > 1 {
            order.sort_by_key(|server| (server.health.is_down(), server.health.busy()));
        }
        order.into_iter()
    }
}

/// A request that provably has not left.
pub type Unsent = Option<Request<RequestBody>>;

impl Server {
    /// No connection of this worker to this upstream yet.
    #[must_use]
    pub fn new(health: &Arc<Health>) -> Rc<Self> {
        Rc::new(Self {
            health: Arc::clone(health),
            idle: Rc::default(),
            pace: Rc::default(),
            making_room: OnceCell::new(),
        })
    }

    /// Whether this is the upstream.
    #[must_use]
    pub fn is(&self, health: &Arc<Health>) -> bool {
        Arc::ptr_eq(&self.health, health)
    }

    /// Closes what was idle for too long. To be called [`SWEEPS`] times within `proxy.upstream_idle`.
    pub fn expire(&self) {
        self.idle.expire(SWEEPS);
    }

    async fn forward(
        self: &Rc<Self>,
        request: &mut Unsent,
        progress: &Progress,
        neighbours: usize,
        settings: &Settings,
    ) -> Result<(Response<Incoming>, Lease), Error> {
        if crowd::is_more_than_its_share(neighbours, settings.upstream_max) && self.is_crowded(settings) {
            // Boxed: a request seldom waits for this, and would carry it along.
            Box::pin(self.leave_to_others(settings)).await?;
        }
        let (step, spared) = if pace::has_many(neighbours) {
            // Boxed: as above.
            (Some(Box::pin(self.pace.keep()).await), pace::spared(settings.upstream_max))
        } else {
            (None, 0)
        };
        let busy = Busy::enter(self, step);
        let mut kept = self.pop_idle(settings, spared).await;
        loop {
            let (mut connection, is_fresh) = match kept.take() {
                Some(connection) => (connection, false),
                // Boxed: a request seldom needs what connecting takes, and would carry it along.
                None => Box::pin(self.another(settings)).await.map_err(|why| self.failed(why))?,
            };
            match self.send(&mut connection, request, progress, settings).await {
                Ok(response) => {
                    let was_early = progress.sent() != Sent::Wholly;
                    let server = Rc::clone(self);
                    return Ok((
                        response,
                        Lease { server, connection: Some(connection), was_early, _busy: busy },
                    ));
                }
                // A kept connection that had ended meanwhile, which nobody noticed before it was used.
                Err(_) if !is_fresh && request.is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_crowded(&self, settings: &Settings) -> bool {
        crowd::is_crowded(self.health.busy(), settings.upstream_max)
    }

    async fn leave_to_others(&self, settings: &Settings) -> Result<(), Error> {
        let thins = self.health.crowd.thins(|| self.is_crowded(settings));
        let thinned = tokio::time::timeout(crowd::PATIENCE, thins).await;
        thinned.map_err(|_| self.failed(Failure::Busy))
    }

    async fn send(
        &self,
        connection: &mut Connection,
        slot: &mut Unsent,
        progress: &Progress,
        settings: &Settings,
    ) -> Result<Response<Incoming>, Error> {
        let Some(mut request) = slot.take() else { return Err(Error::Upstream(Failure::Broken)) };
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.health.host.clone());
        }
        let Connection { sender, patience, ration, .. } = connection;
        ration.set();
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
                match progress.moved().map(|moved| moved + timeout) {
                    Some(later) if progress.sent() == Sent::Partly && later > patience.deadline() => {
                        patience.as_mut().reset(later);
                    }
                    _ => return Poll::Ready(None),
                }
            }
        });
        let Some(sent) = sent.await else { return Err(self.failed(Failure::Timeout)) };
        ration.lift();
        sent.map_err(|mut error| {
            *slot = error.take_message();
            match progress.sent() {
                _ if slot.is_some() => Error::Upstream(Failure::Broken),
                Sent::Stalled => Error::ClientStalled,
                Sent::Broken => Error::ClientGone,
                Sent::Partly | Sent::Wholly => self.failed(Failure::Broken),
            }
        })
    }

    /// The youngest idle connection that still stands; so many are spared.
    async fn pop_idle(&self, settings: &Settings, spared: usize) -> Option<Connection> {
        loop {
            let mut connection = self.idle.pop(spared)?;
            if connection.is_usable(settings).await {
                return Some(connection);
            }
        }
    }

    /// A fresh connection; or one that another request gives back, while there is no place for a fresh one. Says which.
    async fn another(&self, settings: &Settings) -> Result<(Connection, bool), Failure> {
        self.making_room.get_or_init(|| MakingRoom::begin(&self.idle, &self.health));
        let place = match self.health.places.try_take() {
            Some(place) => place,
            None => {
                let turn = tokio::time::timeout(settings.connect_timeout.to_std(), self.turn(settings));
                match turn.await.map_err(|_| Failure::Busy)? {
                    Turn::Kept(connection) => return Ok((connection, false)),
                    Turn::Place(place) => place,
                }
            }
        };
        Ok((connect::connect(&self.health, place, settings).await?, true))
    }

    /// Waits for what comes first.
    async fn turn(&self, settings: &Settings) -> Turn {
        let _wanted = Wanted::begin(&self.health.want, &self.idle);
        loop {
            tokio::select! {
                biased;
                Ok(mut connection) = self.idle.wait() => if connection.is_usable(settings).await {
                    return Turn::Kept(connection);
                },
                place = self.health.places.take() => return Turn::Place(place),
            }
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        self.health.failed(failure);
        Error::Upstream(failure)
    }
}

/// What a request gets that has waited.
enum Turn {
    Kept(Connection),
    Place(Place),
}

impl Connection {
    /// Whether another request may be sent over it.
    async fn is_usable(&mut self, settings: &Settings) -> bool {
        // Ready at once for a connection that rests; its task may still have to hear that the answer has ended.
        self.is_trusted(settings) && (self.sender.is_ready() || Box::pin(self.becomes_ready(settings)).await)
    }

    async fn becomes_ready(&mut self, settings: &Settings) -> bool {
        let ready = poll_fn(|cx| self.sender.poll_ready(cx));
        let ready = tokio::time::timeout(settings.connect_timeout.to_std(), ready).await;
        ready.is_ok_and(|ready| ready.is_ok())
    }

    /// Whether it was made by the word of those who are trusted now.
    fn is_trusted(&self, settings: &Settings) -> bool {
        let Some(trust) = &self.trust else { return true };
        settings.upstream_trust.as_ref().is_some_and(|now| now.is(trust))
    }
}

impl Busy {
    fn enter(server: &Rc<Server>, step: Option<Step>) -> Self {
        server.health.enter();
        Self { server: Rc::clone(server), _step: step }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.server.health.leave();
    }
}

impl Lease {
    /// The answer has come to its end: the connection may be used again, unless the upstream answered before it
    /// had read the whole request.
    pub fn give_back(mut self) {
        self.server.health.succeeded();
        if let Some(connection) = self.connection.take()
            && !self.was_early
            && !connection.sender.is_closed()
        {
            self.server.idle.put(connection, &self.server.health.want);
        }
    }

    /// The answer broke off: nothing that still comes over this connection may reach anybody.
    pub fn close(self) {
        self.server.health.failed(Failure::Broken);
    }
}

/// Sweeps within the time that an idle connection is kept.
pub const SWEEPS: u32 = 8;
