//! A worker: one thread with its own runtime, listeners and upstream connections.
//!
//! Workers share the engine's tables, the connection limit and the health of upstreams; nothing else, and no lock that
//! every request takes. `http1` and `http2` drive the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::budget::WorkBudget;
use super::heartbeat::{DrainProgress, Heartbeat, WorkingTask};
use super::{handshake, http1, http2};
use crate::event::{ConnectionEvent, Event, RejectReason};
use crate::net::connection_limit::{ConnectionLimit, Permit};
use crate::net::listener::{BoundSocket, Callers, Listener, ListenerKind};
use crate::net::proxy_protocol::{self, ProxyHeaderError, ProxyProtocolVersion};
use crate::net::shutdown::{Shutdown, Stage};
use crate::net::stream::{NetStream, PeerAddr};
use crate::net::tls::common_name;
use crate::policy::attempt::TlsClient;
use crate::proxy::connection::{ConnectionState, DownstreamConnection};
use crate::proxy::error::event_reason;
use crate::proxy::settings::ProxySettings;
use crate::proxy::transaction::server::Server;
use crate::proxy::transaction::service::Service;
use crate::proxy::upstream::SWEEPS;
use crate::time::Span;

/// Serves until shutdown. Called on the worker's own thread.
///
/// # Errors
/// The error of the system if the runtime cannot be built or a socket cannot listen.
pub fn run(
    sockets: Vec<BoundSocket>,
    connection_limit: Arc<ConnectionLimit>,
    shutdown: Shutdown,
    heartbeat: Arc<Heartbeat>,
    make_server: impl FnOnce() -> Server,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker {
            server: Rc::new(make_server()),
            connection_limit,
            heartbeat,
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
            .map(|listener| worker.spawn(Rc::clone(&worker).accept(listener, shutdown.clone())));
        let accepting: Vec<_> = accepting.collect();
        let sweeping = tokio::task::spawn_local(Rc::clone(&worker).sweep());
        let budget = Rc::clone(&worker.budget);
        let refilling = tokio::task::spawn_local(async move { budget.run().await });
        let quiescing = tokio::task::spawn_local(Rc::clone(&worker).quiesce(shutdown.clone()));
        for task in accepting {
            // A panic of a task is counted already; the other listeners go on.
            let _ = task.await;
        }
        quiescing.abort();
        worker.drain(shutdown).await;
        sweeping.abort();
        refilling.abort();
        Ok(())
    })
}

struct Worker {
    server: Rc<Server>,
    connection_limit: Arc<ConnectionLimit>,
    heartbeat: Arc<Heartbeat>,
    /// Open connections by number; `None` while the PROXY header is read.
    open: RefCell<HashMap<u64, Option<Rc<DownstreamConnection>>>>,
    /// Number of the next connection, over all listeners: they share `open`.
    accepted: Cell<u64>,
    /// Listeners that still accept.
    accepting: Cell<usize>,
    budget: Rc<WorkBudget>,
    /// The next response on each connection is its last.
    closes_after_next: Cell<bool>,
    /// Whether the connections in [`open`](Self::open) drain, and new ones have to.
    drains_new: Cell<bool>,
}

/// An admitted connection, of which no byte was read.
struct AcceptedConnection {
    stream: NetStream,
    listener_kind: ListenerKind,
    callers: Callers,
    peer: PeerAddr,
    permit: Permit,
}

impl Worker {
    /// Starts a task that works for clients.
    fn spawn(&self, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        tokio::task::spawn_local(WorkingTask::new(task, &self.heartbeat))
    }

    /// Accepts until the drain. Connections in the listen backlog are then still accepted, unless another process
    /// listens on the same socket.
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
                accepted = listener.accept(|error| self.server.events.emit(&Event::Connection(ConnectionEvent::AcceptFailed(error)))) => accepted,
                () = shutdown.reached(Stage::AcceptPaused) => match shutdown.stage() >= Stage::Draining {
                    true => return,
                    // The upgrade may be cancelled by now.
                    false => continue,
                },
            };
            let admitted = tokio::select! {
                biased;
                admitted = self.admit(&stream, peer, listener.callers) => admitted,
                () = shutdown.reached(Stage::Draining) => return,
            };
            match admitted {
                Ok((permit, version)) => {
                    let (listener_kind, callers) = (listener.kind, listener.callers);
                    let accepted = AcceptedConnection { stream, listener_kind, callers, peer, permit };
                    match version {
                        None => self.serve(accepted),
                        Some(version) => self.read_proxy_header(accepted, version),
                    }
                }
                Err(reason) => self.server.reject(peer, reason),
            }
        }
    }

    /// Asks for a permit: for a client; or for a proxy that names it in the PROXY header, whose version is returned.
    async fn admit(
        &self,
        stream: &NetStream,
        peer: PeerAddr,
        callers: Callers,
    ) -> Result<(Permit, Option<ProxyProtocolVersion>), RejectReason> {
        let (prefix, version) = {
            let config = &self.server.config.current().shared;
            match config.settings.proxy_protocol {
                // One who asks for its clients sends no header of theirs.
                _ if !callers.are_clients() => (config.asker_prefix(callers, peer), None),
                None => (config.client.connection_prefix(peer), None),
                // The client is not known yet.
                version if config.client.trusts(peer) => (None, version),
                Some(_) => return Err(RejectReason::UntrustedProxy),
            }
        };
        let permit = self.connection_limit.admit(stream, prefix).await.map_err(event_reason)?;
        Ok((permit, version))
    }

    /// Reads the PROXY header of a trusted proxy, then admits the client that it names like any other. It runs in a
    /// separate task, because the header may take time.
    fn read_proxy_header(self: &Rc<Self>, accepted: AcceptedConnection, version: ProxyProtocolVersion) {
        let (worker, number) = (Rc::clone(self), self.register(None));
        self.spawn(async move {
            let _guard = ConnectionGuard::register(&worker, number);
            let header_timeout = worker.server.config.current().shared.settings.header_timeout;
            let header = proxy_protocol::receive(&accepted.stream, version);
            match timeout(header_timeout.min(PROXY_HEADER_TIMEOUT).to_std(), header).await {
                Ok(Ok(source)) => {
                    worker.identify(accepted, source.map(PeerAddr::Ip)).await;
                    if worker.drains_new.get() {
                        // The client's task runs first, and reads a request that has arrived already.
                        tokio::task::yield_now().await;
                        worker.each_open(ConnectionState::drain);
                    }
                }
                Ok(Err(ProxyHeaderError::Closed)) => {}
                Ok(Err(ProxyHeaderError::Malformed)) | Err(_) => {
                    worker.server.reject(accepted.peer, RejectReason::ProxyHeader);
                }
            }
        });
    }

    /// Serves the client that a proxy has named, within the limits of its prefix.
    async fn identify(self: &Rc<Self>, accepted: AcceptedConnection, client: Option<PeerAddr>) {
        let peer = client.unwrap_or(accepted.peer);
        let prefix = self.server.config.current().shared.client.connection_prefix(peer);
        match self.connection_limit.identify(accepted.permit, prefix).await {
            Ok(permit) => self.serve(AcceptedConnection { peer, permit, ..accepted }),
            Err(error) => self.server.reject(peer, event_reason(error)),
        }
    }

    /// Registers a connection, and returns its number.
    fn register(&self, connection: Option<Rc<DownstreamConnection>>) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        self.open.borrow_mut().insert(number, connection);
        number
    }

    fn serve(
        self: &Rc<Self>,
        AcceptedConnection { stream, listener_kind, callers, peer, permit }: AcceptedConnection,
    ) {
        let clock = self.server.engine.clock().clone();
        let connection = DownstreamConnection::new(listener_kind, callers, peer, permit, clock);
        if self.closes_after_next.get() {
            connection.state.close_after_next();
        }
        let (worker, number) = (Rc::clone(self), self.register(Some(Rc::clone(&connection))));
        self.spawn(async move {
            let _guard = ConnectionGuard::register(&worker, number);
            // Only the settings: a connection would keep an old configuration alive.
            let settings = Arc::clone(&worker.server.config.current().shared.settings);
            let shaken = worker.handshake(stream, &connection, &settings).await;
            let Some((stream, fingerprint)) = shaken else { return };
            if stream.is_validation() {
                return;
            }
            let certificate = stream.peer_certificate().and_then(common_name);
            let tls = TlsClient { certificate, fingerprint, monitor: None };
            if !tls.is_empty() {
                // It is set here alone.
                let _ = connection.tls.set(Box::new(tls));
            }
            let service = Service::new(Rc::clone(&worker.server), Rc::clone(&connection));
            let Some(is_called) = worker.is_called(&stream, &connection, &settings).await else { return };
            if stream.speaks_http2() || is_called {
                // Boxed: it would enlarge the task of an HTTP/1 connection.
                let budget = worker.budget.handle();
                let windows = http2::FlowWindows::for_connections(worker.connection_limit.active());
                let serving = http2::serve_http2(stream, connection, service, &settings, budget, windows);
                return Box::pin(serving).await;
            }
            http1::serve(stream, connection, service, &settings).await;
        });
    }

    /// Whether a peer speaks gRPC; `None` if the connection has to end before that is known. What has no TLS cannot agree on a
    /// protocol.
    async fn is_called(
        &self,
        stream: &NetStream,
        connection: &DownstreamConnection,
        settings: &ProxySettings,
    ) -> Option<bool> {
        match self.server.config.current().shared.called_kind(connection) {
            None => Some(false),
            Some(kind) if kind.takes_reports() => {
                // Boxed: it would enlarge the task of an HTTP/1 connection.
                let mut begins = Box::pin(timeout(settings.header_timeout.to_std(), stream.begins_http2()));
                let state = &connection.state;
                let begins = poll_fn(|cx| {
                    state.remember_waker(cx);
                    if connection.should_evict(cx) {
                        state.evict();
                    }
                    if state.is_draining() || state.was_evicted() {
                        return Poll::Ready(None);
                    }
                    begins.as_mut().poll(cx).map(|begins| Some(begins.unwrap_or(false)))
                });
                begins.await
            }
            Some(_) => Some(true),
        }
    }

    /// Does the TLS handshake of a TLS listener, in the connection's own task, so that it delays no other client.
    async fn handshake(
        &self,
        stream: NetStream,
        connection: &DownstreamConnection,
        settings: &ProxySettings,
    ) -> Option<(NetStream, Option<String>)> {
        let stream = match (connection.listener_kind, stream) {
            (ListenerKind::Tls, NetStream::Tcp(stream)) => stream,
            (_, stream) => return Some((stream, None)),
        };
        let acceptor = self.server.config.current().shared.tls_acceptor.clone()?;
        // Boxed: it would enlarge the task of a connection without TLS.
        let handshake = handshake::handshake(stream, connection, &acceptor, settings, self.budget.handle());
        let stream = Box::pin(handshake).await;
        if stream.is_none() {
            self.server.reject(connection.peer, RejectReason::Handshake);
        }
        stream
    }

    /// Lets every request be decided when another process is about to take over, and serves again if the upgrade is
    /// cancelled.
    async fn quiesce(self: Rc<Self>, mut shutdown: Shutdown) {
        loop {
            shutdown.reached(Stage::Upgrading).await;
            self.closes_after_next.set(true);
            self.finish_keep_alive().await;
            self.heartbeat.set_progress(DrainProgress::KeepAliveClosed);
            while shutdown.stage() == Stage::Upgrading {
                tokio::time::sleep(QUIET_POLL).await;
            }
            // A connection accepted since then has one request at most, and it is in transit.
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

    /// Waits until no listener accepts and no undecided request is left, or the stage changes.
    async fn wait_until_quiet(&self, shutdown: &Shutdown) {
        let is_busy =
            |open: &Option<Rc<DownstreamConnection>>| open.as_ref().is_some_and(|open| open.state.is_busy());
        let is_quiet = || {
            self.accepting.get() == 0
                && self.server.unread_bodies.get() == 0
                && self.open.borrow().values().all(is_busy)
        };
        while !is_quiet() && shutdown.stage() == Stage::AcceptPaused {
            tokio::time::sleep(QUIET_POLL).await;
        }
    }

    /// Gives kept-alive connections [`KEEP_ALIVE_GRACE`] for one more request, then drains them.
    async fn finish_keep_alive(&self) {
        self.each_open(ConnectionState::close_after_next);
        let since = self.accepted.get();
        let is_any_open = || self.open.borrow().keys().any(|number| *number < since);
        let all_gone = async {
            while is_any_open() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        let _ = timeout(KEEP_ALIVE_GRACE, all_gone).await;
        let open = self.open.borrow();
        let earlier = open.iter().filter(|(number, _)| **number < since);
        earlier.filter_map(|(_, open)| open.as_ref()).for_each(|connection| connection.state.drain());
    }

    /// Closes every open connection, and every later one, as soon as it is idle.
    fn drain_open(&self) {
        self.drains_new.set(true);
        self.each_open(ConnectionState::drain);
    }

    fn each_open(&self, action: impl Fn(&ConnectionState)) {
        self.open.borrow().values().flatten().for_each(|connection| action(&connection.state));
    }

    /// Lets requests in flight finish, within `proxy.drain`.
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

    /// Closes upstream connections that were idle for too long, and beats the heartbeat. A worker without requests
    /// follows a new configuration here, and [rests](Self::rest) after a second.
    async fn sweep(self: Rc<Self>) {
        let (mut waited, mut quiet) = (Duration::ZERO, Duration::ZERO);
        loop {
            let pause = self.server.config.current().shared.settings.upstream_idle.to_std() / SWEEPS;
            let step = pause.clamp(QUIET_POLL, CONFIG_POLL);
            let polls = self.heartbeat.polls();
            tokio::time::sleep(step).await;
            waited += step;
            self.heartbeat.beat();
            let config = self.server.config.current();
            self.server.refused_heads.follow(&config);
            if waited >= pause {
                config.expire();
                waited = Duration::ZERO;
            }
            let is_quiet = self.heartbeat.polls() == polls && !config.has_idle();
            drop(config);
            quiet = if is_quiet { quiet + step } else { Duration::ZERO };
            if quiet >= CONFIG_POLL {
                self.server.refused_heads.clear();
                self.rest().await;
                quiet = Duration::ZERO;
            }
        }
    }

    /// Sleeps until there is work, and answers the calls of the watchdog.
    async fn rest(&self) {
        while self.heartbeat.rest().await {
            self.heartbeat.beat();
            drop(self.server.config.current());
        }
        self.heartbeat.beat();
    }
}

/// Counts a connection while its task lives, and reports a panic of it.
struct ConnectionGuard {
    worker: Rc<Worker>,
    number: u64,
}

impl ConnectionGuard {
    fn register(worker: &Rc<Worker>, number: u64) -> Self {
        worker.server.events.emit(&Event::Connection(ConnectionEvent::Opened));
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
            self.worker.server.events.emit(&Event::Connection(ConnectionEvent::Evicted));
        }
        self.worker.server.events.emit(&Event::Connection(ConnectionEvent::Closed));
    }
}

/// For the PROXY header of a trusted proxy.
const PROXY_HEADER_TIMEOUT: Span = Span::from_secs(3);
const QUIET_POLL: Duration = Duration::from_millis(1);
const DRAIN_POLL: Duration = Duration::from_millis(10);
/// An active client sends its next request within this time, even if it is far away or busy.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(1);
/// Longer than the transit from a client's connect to its first request.
const IN_TRANSIT_GRACE: Duration = Duration::from_millis(250);
/// A worker checks at least this often for a new configuration.
const CONFIG_POLL: Duration = Duration::from_secs(1);
