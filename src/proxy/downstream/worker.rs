//! A worker: one thread with its own runtime, listeners and upstream connections.
//!
//! Workers share the engine's tables, the guard and how well the upstreams are; nothing else, and no lock on the
//! way of a request.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::time::timeout;

use super::budget::WorkBudget;
use super::heartbeat::{DrainProgress, Heartbeat};
use super::{handshake, http1, http2};
use crate::event::{Event, RejectReason};
use crate::net::connection_limit::{AdmitError, ConnectionLimit};
use crate::net::connection_slots::ConnectionSlot;
use crate::net::listener::{BoundSocket, Listener, ListenerKind};
use crate::net::proxy_protocol::{self, ProxyHeaderError, ProxyProtocolVersion};
use crate::net::shutdown::{Shutdown, Stage};
use crate::net::stream::{NetStream, PeerAddr};
use crate::proxy::connection::{ConnectionState, DownstreamConnection};
use crate::proxy::request::client_addr::ClientSettings;
use crate::proxy::settings::ProxySettings;
use crate::proxy::transaction::server::Server;
use crate::proxy::transaction::service::Service;
use crate::proxy::upstream::SWEEPS;
use crate::time::Span;

/// Serves until the gate stops. Called on the worker's own thread.
///
/// # Errors
/// If there is no runtime to be had, or a socket cannot be listened at.
pub fn run(
    sockets: Vec<BoundSocket>,
    guard: Arc<ConnectionLimit>,
    shutdown: Shutdown,
    pulse: Arc<Heartbeat>,
    gate: impl FnOnce() -> Server,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker {
            server: Rc::new(gate()),
            connection_limit: guard,
            heartbeat: pulse,
            open: RefCell::default(),
            accepted: Cell::new(0),
            accepting: Cell::new(0),
            budget: Rc::default(),
            closes_after_next: Cell::new(false),
            drains_new: Cell::new(false),
        });
        let listeners = sockets.into_iter().map(BoundSocket::listen).collect::<io::Result<Vec<_>>>()?;
        worker.accepting.set(listeners.len());
        let accepting = listeners
            .into_iter()
            .map(|listener| tokio::task::spawn_local(Rc::clone(&worker).accept(listener, shutdown.clone())));
        let accepting: Vec<_> = accepting.collect();
        let sweeping = tokio::task::spawn_local(Rc::clone(&worker).sweep());
        let turnstile = Rc::clone(&worker.budget);
        let turning = tokio::task::spawn_local(async move { turnstile.run().await });
        let leaving = tokio::task::spawn_local(Rc::clone(&worker).quiesce(shutdown.clone()));
        for task in accepting {
            // A panic there would already have been counted; the others go on.
            let _ = task.await;
        }
        leaving.abort();
        worker.drain(shutdown).await;
        sweeping.abort();
        turning.abort();
        Ok(())
    })
}

struct Worker {
    server: Rc<Server>,
    connection_limit: Arc<ConnectionLimit>,
    heartbeat: Arc<Heartbeat>,
    /// `None` is one of which it is not known yet who is there.
    open: RefCell<HashMap<u64, Option<Arc<DownstreamConnection>>>>,
    /// Counts the connections of all listeners: they share `open`.
    accepted: Cell<u64>,
    /// Listeners at which somebody may still be let in.
    accepting: Cell<usize>,
    budget: Rc<WorkBudget>,
    /// The next answer on each connection is its last.
    closes_after_next: Cell<bool>,
    /// Whether those in [`open`](Self::open) were told to end, and those that come after them have to be.
    drains_new: Cell<bool>,
}

/// A connection that has a place, and of which nothing was read.
struct AcceptedConnection {
    stream: NetStream,
    listener_kind: ListenerKind,
    /// The other end of the connection.
    peer: PeerAddr,
    permit: ConnectionSlot,
}

impl Worker {
    /// Accepts until the gate drains. What waits in the kernel's queue by then is still served, unless another process listens
    /// to the same socket.
    async fn accept(self: Rc<Self>, listener: Listener, mut shutdown: Shutdown) {
        loop {
            let stage = shutdown.stage();
            if stage == Stage::AcceptPaused || stage > Stage::AcceptPaused && listener.outlives_process {
                self.accepting.update(|count| count - 1);
                if !shutdown.upgrade_cancelled().await {
                    return;
                }
                self.accepting.update(|count| count + 1);
                continue;
            }
            let (stream, peer) = tokio::select! {
                biased;
                accepted = listener.accept(|error| self.server.events.emit(&Event::AcceptFailed(error))) => accepted,
                () = shutdown.reached(Stage::AcceptPaused) => match shutdown.stage() >= Stage::Draining {
                    true => return,
                    // It may even serve again by now.
                    false => continue,
                },
            };
            let place = tokio::select! {
                biased;
                place = self.acquire_permit(&stream, peer) => place,
                () = shutdown.reached(Stage::Draining) => return,
            };
            match place {
                Ok(place) => self.receive(AcceptedConnection {
                    stream,
                    listener_kind: listener.kind,
                    peer,
                    permit: place,
                }),
                Err(why) => self.reject(peer, event_reason(why)),
            }
        }
    }

    /// A place for a connection and what of the machine it needs, perhaps those of one that is idle.
    async fn acquire_permit(&self, stream: &NetStream, peer: PeerAddr) -> Result<ConnectionSlot, AdmitError> {
        let prefix = {
            let site = &self.server.config.current().shared;
            // Before a proxy has said who its client is, nobody knows what that one holds.
            let is_known = site.settings.proxy_protocol.is_none();
            is_known.then(|| site.client.connection_prefix(peer)).flatten()
        };
        let place = self.connection_limit.acquire_slot(prefix).await?;
        self.connection_limit.check_resources(stream, prefix).await?;
        Ok(place)
    }

    fn receive(self: &Rc<Self>, arrival: AcceptedConnection) {
        let local = self.server.config.current();
        match local.shared.settings.proxy_protocol {
            None => self.admit(arrival, &local.shared.client),
            Some(version) if local.shared.client.trusts(arrival.peer) => {
                self.read_proxy_header(arrival, version)
            }
            Some(_) => self.reject(arrival.peer, RejectReason::UntrustedProxy),
        }
    }

    /// Lets a client in, if there are not too many of its prefix.
    fn admit(
        self: &Rc<Self>,
        AcceptedConnection { stream, listener_kind: door, peer, permit: place }: AcceptedConnection,
        clients: &ClientSettings,
    ) {
        match self.connection_limit.admit(place, clients.connection_prefix(peer)) {
            Ok(pass) => {
                self.serve(
                    stream,
                    DownstreamConnection::new(door, peer, pass, self.server.engine.clock().clone()),
                );
            }
            Err(why) => self.reject(peer, event_reason(why)),
        }
    }

    /// Lets a proxy in front of us say who the client is. The client is welcome, or not, as if it had come by itself; in a
    /// task of its own, because that may take its time.
    fn read_proxy_header(self: &Rc<Self>, arrival: AcceptedConnection, version: ProxyProtocolVersion) {
        let (worker, number) = (Rc::clone(self), self.register(None));
        tokio::task::spawn_local(async move {
            let _presence = ConnectionGuard::register(&worker, number);
            let header_timeout = worker.server.config.current().shared.settings.header_timeout;
            let header = proxy_protocol::receive(&arrival.stream, version);
            match timeout(header_timeout.min(PROXY_HEADER_TIMEOUT).to_std(), header).await {
                Ok(Ok(source)) => {
                    let arrival =
                        AcceptedConnection { peer: source.map_or(arrival.peer, PeerAddr::Ip), ..arrival };
                    worker.admit(arrival, &worker.server.config.current().shared.client);
                    if worker.drains_new.get() {
                        // First the client's task runs, and takes the request that is there already.
                        tokio::task::yield_now().await;
                        worker.each_open(ConnectionState::drain);
                    }
                }
                Ok(Err(ProxyHeaderError::Closed)) => {}
                Ok(Err(ProxyHeaderError::Malformed)) | Err(_) => {
                    worker.reject(arrival.peer, RejectReason::ProxyHeader);
                }
            }
        });
    }

    fn reject(&self, peer: PeerAddr, reason: RejectReason) {
        let peer = match peer {
            PeerAddr::Ip(address) => Some(address.ip().to_canonical()),
            PeerAddr::Unix => None,
        };
        self.server.events.emit(&Event::ConnectionRejected { peer, reason });
    }

    /// The number of a connection from now on.
    fn register(&self, connection: Option<Arc<DownstreamConnection>>) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        self.open.borrow_mut().insert(number, connection);
        number
    }

    fn serve(self: &Rc<Self>, stream: NetStream, connection: Arc<DownstreamConnection>) {
        if self.closes_after_next.get() {
            connection.state.close_after_next();
        }
        let (worker, number) = (Rc::clone(self), self.register(Some(Arc::clone(&connection))));
        tokio::task::spawn_local(async move {
            let _presence = ConnectionGuard::register(&worker, number);
            // Not the site, which a connection would hold for as long as it lasts.
            let settings = Arc::clone(&worker.server.config.current().shared.settings);
            let Some(stream) = worker.handshake(stream, &connection, &settings).await else { return };
            let service = Service::new(Rc::clone(&worker.server), Arc::clone(&connection));
            if stream.speaks_http2() {
                // Boxed: the others would carry it along.
                let ticket = worker.budget.handle();
                let windows = http2::FlowWindows::for_connections(worker.connection_limit.active());
                let serving = http2::serve_http2(stream, connection, service, &settings, ticket, windows);
                return Box::pin(serving).await;
            }
            http1::serve(stream, connection, service, &settings).await;
        });
    }

    /// Shakes hands, where the client has to: here and not where it was accepted, so that it holds up nobody else.
    async fn handshake(
        &self,
        stream: NetStream,
        connection: &DownstreamConnection,
        settings: &ProxySettings,
    ) -> Option<NetStream> {
        let stream = match (connection.listener_kind, stream) {
            (ListenerKind::Tls, NetStream::Tcp(stream)) => stream,
            (_, stream) => return Some(stream),
        };
        let doorkeeper = self.server.config.current().shared.tls_acceptor.clone()?;
        // Boxed: a connection without TLS would carry it along.
        let shaken = handshake::handshake(stream, connection, &doorkeeper, settings, self.budget.handle());
        let opened = Box::pin(shaken).await;
        if opened.is_none() {
            self.reject(connection.peer, RejectReason::Handshake);
        }
        opened
    }

    /// Comes to rest each time another process is about to take over, and goes on if it does not.
    async fn quiesce(self: Rc<Self>, mut shutdown: Shutdown) {
        loop {
            shutdown.reached(Stage::Upgrading).await;
            self.closes_after_next.set(true);
            self.finish_keep_alive().await;
            self.heartbeat.set_progress(DrainProgress::KeepAliveClosed);
            while shutdown.stage() == Stage::Upgrading {
                tokio::time::sleep(QUIET_POLL).await;
            }
            // Who has come since then has only one request, which is on its way.
            let _ = timeout(IN_TRANSIT_GRACE, self.wait_until_quiet(&shutdown)).await;
            if shutdown.stage() >= Stage::AcceptPaused {
                self.drain_open();
            }
            self.wait_until_quiet(&shutdown).await;
            self.heartbeat.set_progress(DrainProgress::Quiet);
            if !shutdown.upgrade_cancelled().await {
                return;
            }
            self.heartbeat.set_progress(DrainProgress::Serving);
            self.closes_after_next.set(false);
            self.drains_new.set(false);
        }
    }

    /// Waits until nobody is let in and nothing is read any more that has still to be decided on, or the gate serves again.
    async fn wait_until_quiet(&self, shutdown: &Shutdown) {
        let is_busy =
            |open: &Option<Arc<DownstreamConnection>>| open.as_ref().is_some_and(|open| open.state.is_busy());
        let is_quiet = || {
            self.accepting.get() == 0
                && self.server.unread_bodies.get() == 0
                && self.open.borrow().values().all(is_busy)
        };
        while !is_quiet() && shutdown.stage() == Stage::AcceptPaused {
            tokio::time::sleep(QUIET_POLL).await;
        }
    }

    /// Gives those who are kept alive some time in which their next request is still answered, as their last.
    async fn finish_keep_alive(&self) {
        self.each_open(ConnectionState::close_after_next);
        let since = self.accepted.get();
        let are_there = || self.open.borrow().keys().any(|number| *number < since);
        let all_gone = async {
            while are_there() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        let _ = timeout(KEEP_ALIVE_GRACE, all_gone).await;
        let open = self.open.borrow();
        let before = open.iter().filter(|(number, _)| **number < since);
        before.filter_map(|(_, open)| open.as_ref()).for_each(|connection| connection.state.drain());
    }

    /// Whoever is there, and whoever comes after them, ends as soon as it is idle.
    fn drain_open(&self) {
        self.drains_new.set(true);
        self.each_open(ConnectionState::drain);
    }

    fn each_open(&self, tell: impl Fn(&ConnectionState)) {
        self.open.borrow().values().flatten().for_each(|connection| tell(&connection.state));
    }

    /// Lets requests in flight finish, for as long as `proxy.drain` says.
    async fn drain(&self, mut shutdown: Shutdown) {
        self.closes_after_next.set(true);
        let finished = async {
            self.finish_keep_alive().await;
            self.drain_open();
            while !self.open.borrow().is_empty() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(self.server.config.current().shared.settings.drain.to_std()) => {}
            () = shutdown.reached(Stage::Stopped) => {}
        }
    }

    /// Closes connections to upstreams that were idle for too long. A worker that nobody asks anything lets go of an
    /// old site here.
    async fn sweep(self: Rc<Self>) {
        let mut waited = Duration::ZERO;
        loop {
            let pause = self.server.config.current().shared.settings.upstream_idle.to_std() / SWEEPS;
            let step = pause.clamp(QUIET_POLL, CONFIG_POLL);
            tokio::time::sleep(step).await;
            waited += step;
            self.heartbeat.beat();
            let local = self.server.config.current();
            if waited >= pause {
                local.expire();
                waited = Duration::ZERO;
            }
        }
    }
}

fn event_reason(why: AdmitError) -> RejectReason {
    match why {
        AdmitError::Connections => RejectReason::Connections,
        AdmitError::ClientMax => RejectReason::ClientMax,
        AdmitError::ClientRate => RejectReason::ClientRate,
        AdmitError::Memory => RejectReason::Memory,
        AdmitError::Descriptors => RejectReason::Descriptors,
    }
}

/// Counts a connection as long as its task lives, and notes if that ended in a panic.
struct ConnectionGuard {
    worker: Rc<Worker>,
    number: u64,
}

impl ConnectionGuard {
    fn register(worker: &Rc<Worker>, number: u64) -> Self {
        worker.server.events.emit(&Event::Connected);
        Self { worker: Rc::clone(worker), number }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.server.events.emit(&Event::Panicked);
        }
        let connection = self.worker.open.borrow_mut().remove(&self.number).flatten();
        if connection.is_some_and(|connection| connection.state.was_evicted()) {
            self.worker.server.events.emit(&Event::ConnectionEvicted);
        }
        self.worker.server.events.emit(&Event::Disconnected);
    }
}

/// For the header of a proxy in front of us.
const PROXY_HEADER_TIMEOUT: Span = Span::from_secs(3);
const QUIET_POLL: Duration = Duration::from_millis(1);
const DRAIN_POLL: Duration = Duration::from_millis(10);
/// A client that goes on asking has asked again by then, however far away or busy it is.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(1);
/// Longer than the way from a client that has connected to its request.
const IN_TRANSIT_GRACE: Duration = Duration::from_millis(250);
/// However long idle connections are kept, a worker looks this often whether there is another site.
const CONFIG_POLL: Duration = Duration::from_secs(1);
