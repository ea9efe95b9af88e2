//! The upstreams of one worker: which one, over which connection.
//!
//! Each worker keeps its own small stack of idle connections, last in, first out; no pool and no lock is shared.
//! What workers share is how busy and how well each upstream is. The surprising thing: a request that may have
//! reached an upstream is never sent twice; only one that provably never left is.

mod connect;
mod health;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use http::header::HOST;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use self::connect::Place;
pub use self::health::Health;
use super::body::{Progress, RequestBody, Sent};
use super::error::Error;
use super::settings::Settings;
use crate::event::Failure;

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
    /// `unix:/path`.
    Unix(PathBuf),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "http://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "http://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// One worker's connections to a group of upstreams that do the same.
pub struct Group {
    servers: Vec<Rc<Server>>,
    turn: Cell<usize>,
}

/// One worker's connections to one upstream.
pub struct Server {
    health: Arc<Health>,
    settings: Rc<Settings>,
    idle: RefCell<Vec<Idle>>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection to an upstream, and its place among `upstream_max`.
struct Connection {
    sender: SendRequest<RequestBody>,
    _place: Place,
}

/// A connection in use, until the answer has come to its end.
pub struct Lease {
    server: Rc<Server>,
    connection: Option<Connection>,
    /// The upstream answered before it can have read the whole request: something is unusual about it.
    was_early: bool,
    _busy: health::Busy,
}

impl Group {
    /// Connections of this worker to these upstreams.
    #[must_use]
    pub fn new(group: &[Arc<Health>], settings: &Rc<Settings>) -> Self {
        let server = |health: &Arc<Health>| {
            Rc::new(Server {
                health: Arc::clone(health),
                settings: Rc::clone(settings),
                idle: RefCell::default(),
            })
        };
        Self { servers: group.iter().map(server).collect(), turn: Cell::new(0) }
    }

    /// Sends a request to the least busy upstream that is up, and waits for the head of its answer. An upstream
    /// that cannot be connected to is passed over for the next one.
    ///
    /// # Errors
    /// What went wrong, and whose fault it was.
    pub async fn forward(
        &self,
        mut request: Request<RequestBody>,
        progress: &Rc<Progress>,
    ) -> Result<(Response<Incoming>, Lease), Error> {
        let mut last = Error::Upstream(Failure::Connect);
        for server in self.by_preference() {
            match server.forward(request, progress).await {
                Ok(answer) => return Ok(answer),
                Err((error, None)) => return Err(error),
                Err((error, Some(unsent))) => (last, request) = (error, unsent),
            }
        }
        Err(last)
    }

    /// Closes what was idle for too long.
    pub fn expire(&self) {
        self.servers.iter().for_each(|server| server.expire());
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

/// What went wrong, and the request if it provably never left.
type Failed = (Error, Option<Request<RequestBody>>);

impl Server {
    async fn forward(
        self: Rc<Self>,
        request: Request<RequestBody>,
        progress: &Rc<Progress>,
    ) -> Result<(Response<Incoming>, Lease), Failed> {
        let busy = Health::enter(&self.health);
        let mut unsent = request;
        let mut idle = self.pop_idle().await;
        loop {
            let is_fresh = idle.is_none();
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => match connect::connect(&self.health, &self.settings).await {
                    Ok(connection) => connection,
                    Err(failure) => return Err((self.failed(failure), Some(unsent))),
                },
            };
            match self.send(&mut connection, unsent, progress).await {
                Ok(response) => {
                    let was_early = progress.sent() != Sent::Wholly;
                    return Ok((
                        response,
                        Lease { server: self, connection: Some(connection), was_early, _busy: busy },
                    ));
                }
                Err((_, Some(returned))) if !is_fresh => unsent = returned,
                Err(failed) => return Err(failed),
            }
        }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        mut request: Request<RequestBody>,
        progress: &Rc<Progress>,
    ) -> Result<Response<Incoming>, Failed> {
        request.headers_mut().entry(HOST).or_insert_with(|| self.health.host.clone());
        let mut reply = std::pin::pin!(connection.sender.try_send_request(request));
        let timeout = self.settings.reply_timeout.to_std();
        let mut deadline = Instant::now() + timeout;
        let sent = loop {
            match tokio::time::timeout_at(deadline, &mut reply).await {
                Ok(sent) => break sent,
                // The time for an answer starts when the request has been sent: an upload may take as long as it
                // makes progress.
                Err(_) if progress.sent() == Sent::Partly && progress.moved() + timeout > deadline => {
                    deadline = progress.moved() + timeout;
                }
                Err(_) => return Err((self.failed(Failure::Timeout), None)),
            }
        };
        sent.map_err(|mut error| match (error.take_message(), progress.sent()) {
            (Some(request), _) => (Error::Upstream(Failure::Broken), Some(request)),
            (None, Sent::Stalled) => (Error::ClientStalled, None),
            (None, Sent::Broken) => (Error::ClientGone, None),
            (None, _) => (self.failed(Failure::Broken), None),
        })
    }

    /// The youngest idle connection that still stands.
    async fn pop_idle(&self) -> Option<Connection> {
        loop {
            let Idle { mut connection, since } = self.idle.borrow_mut().pop()?;
            let is_young = since.elapsed() < self.settings.upstream_idle.to_std();
            // Ready at once for a connection that rests; its task may still have to hear that the answer has ended.
            if is_young && (connection.sender.is_ready() || self.becomes_ready(&mut connection).await) {
                return Some(connection);
            }
        }
    }

    async fn becomes_ready(&self, connection: &mut Connection) -> bool {
        let ready = std::future::poll_fn(|cx| connection.sender.poll_ready(cx));
        let ready = tokio::time::timeout(self.settings.connect_timeout.to_std(), ready).await;
        ready.is_ok_and(|ready| ready.is_ok())
    }

    fn expire(&self) {
        let idle = self.settings.upstream_idle.to_std();
        self.idle
            .borrow_mut()
            .retain(|idle_one| idle_one.since.elapsed() < idle && !idle_one.connection.sender.is_closed());
    }

    fn failed(&self, failure: Failure) -> Error {
        self.health.failed(failure);
        Error::Upstream(failure)
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
            self.server.idle.borrow_mut().push(Idle { connection, since: Instant::now() });
        }
    }

    /// The answer broke off: nothing that still comes over this connection may reach anybody.
    pub fn close(self) {
        self.server.health.failed(Failure::Broken);
    }
}
