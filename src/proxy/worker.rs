//! One worker: a thread with its own runtime, its own listening sockets and its own connections to the upstreams.
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

use super::client_addr::ClientSettings;
use super::connection::{self, Connection, Phases, Windows};
use super::pulse::{Pulse, Rest};
use super::service::{Gate, Service};
use super::settings::Settings;
use super::turnstile::Turnstile;
use super::upstream::SWEEPS;
use crate::event::{Event, Reason};
use crate::net::guard::{Guard, TurnedAway};
use crate::net::listener::{Bound, Door, Listener};
use crate::net::places::Place;
use crate::net::proxy_protocol::{self, Refused, Version};
use crate::net::shutdown::{Shutdown, Stage};
use crate::net::stream::{Peer, Stream};
use crate::time::Span;

/// Serves until the gate stops. Called on the worker's own thread.
///
/// # Errors
/// If there is no runtime to be had, or a socket cannot be listened at.
pub fn run(
    sockets: Vec<Bound>,
    guard: Arc<Guard>,
    shutdown: Shutdown,
    pulse: Arc<Pulse>,
    gate: impl FnOnce() -> Gate,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let worker = Rc::new(Worker {
            gate: Rc::new(gate()),
            guard,
            pulse,
            open: RefCell::default(),
            accepted: Cell::new(0),
            accepting: Cell::new(0),
            turnstile: Rc::default(),
            leaves: Cell::new(false),
            ends: Cell::new(false),
        });
        let listeners = sockets.into_iter().map(Bound::listen).collect::<io::Result<Vec<_>>>()?;
        worker.accepting.set(listeners.len());
        let accepting = listeners
            .into_iter()
            .map(|listener| tokio::task::spawn_local(Rc::clone(&worker).accept(listener, shutdown.clone())));
        let accepting: Vec<_> = accepting.collect();
        let sweeping = tokio::task::spawn_local(Rc::clone(&worker).sweep());
        let turnstile = Rc::clone(&worker.turnstile);
        let turning = tokio::task::spawn_local(async move { turnstile.turn().await });
        let leaving = tokio::task::spawn_local(Rc::clone(&worker).leave(shutdown.clone()));
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
    gate: Rc<Gate>,
    guard: Arc<Guard>,
    pulse: Arc<Pulse>,
    /// `None` is one of which it is not known yet who is there.
    open: RefCell<HashMap<u64, Option<Arc<Connection>>>>,
    /// Counts the connections of all listeners: they share `open`.
    accepted: Cell<u64>,
    /// Listeners at which somebody may still be let in.
    accepting: Cell<usize>,
    turnstile: Rc<Turnstile>,
    /// The next answer on each connection is its last.
    leaves: Cell<bool>,
    /// Whether those in [`open`](Self::open) were told to end, and those that come after them have to be.
    ends: Cell<bool>,
}

/// A connection that has a place, and of which nothing was read.
struct Arrival {
    stream: Stream,
    door: Door,
    /// The other end of the connection.
    peer: Peer,
    place: Place,
}

impl Worker {
    /// Accepts until the gate drains. What waits in the kernel's queue by then is still served, unless another process listens
    /// to the same socket.
    async fn accept(self: Rc<Self>, listener: Listener, mut shutdown: Shutdown) {
        loop {
            let stage = shutdown.stage();
            if stage == Stage::Resting || stage > Stage::Resting && listener.stays {
                self.accepting.update(|count| count - 1);
                if !shutdown.stays().await {
                    return;
                }
                self.accepting.update(|count| count + 1);
                continue;
            }
            let (stream, peer) = tokio::select! {
                biased;
                accepted = listener.accept(|error| self.gate.events.emit(&Event::AcceptFailed(error))) => accepted,
                () = shutdown.reached(Stage::Resting) => match shutdown.stage() >= Stage::Draining {
                    true => return,
                    // It may even serve again by now.
                    false => continue,
                },
            };
            let place = tokio::select! {
                biased;
                place = self.find_place(&stream, peer) => place,
                () = shutdown.reached(Stage::Draining) => return,
            };
            match place {
                Ok(place) => self.receive(Arrival { stream, door: listener.door, peer, place }),
                Err(why) => self.turn_away(peer, reason(why)),
            }
        }
    }

    /// A place for a connection and what of the machine it needs, perhaps those of one that is idle.
    async fn find_place(&self, stream: &Stream, peer: Peer) -> Result<Place, TurnedAway> {
        let prefix = {
            let site = &self.gate.site.now().site;
            // Before a proxy has said who its client is, nobody knows what that one holds.
            let is_known = site.settings.proxy_protocol.is_none();
            is_known.then(|| site.client.prefix_at_the_door(peer)).flatten()
        };
        let place = self.guard.place(prefix).await?;
        self.guard.has_room_for(stream, prefix).await?;
        Ok(place)
    }

    fn receive(self: &Rc<Self>, arrival: Arrival) {
        let local = self.gate.site.now();
        match local.site.settings.proxy_protocol {
            None => self.welcome(arrival, &local.site.client),
            Some(version) if local.site.client.trusts(arrival.peer) => self.introduce(arrival, version),
            Some(_) => self.turn_away(arrival.peer, Reason::Untrusted),
        }
    }

    /// Lets a client in, if there are not too many of its prefix.
    fn welcome(self: &Rc<Self>, Arrival { stream, door, peer, place }: Arrival, clients: &ClientSettings) {
        match self.guard.admit(place, clients.prefix_at_the_door(peer)) {
            Ok(pass) => {
                self.serve(stream, Connection::new(door, peer, pass, self.gate.engine.clock().clone()));
            }
            Err(why) => self.turn_away(peer, reason(why)),
        }
    }

    /// Lets a proxy in front of us say who the client is. The client is welcome, or not, as if it had come by itself; in a
    /// task of its own, because that may take its time.
    fn introduce(self: &Rc<Self>, arrival: Arrival, version: Version) {
        let (worker, number) = (Rc::clone(self), self.enter(None));
        tokio::task::spawn_local(async move {
            let _presence = Presence::enter(&worker, number);
            let header_timeout = worker.gate.site.now().site.settings.header_timeout;
            let header = proxy_protocol::receive(&arrival.stream, version);
            match timeout(header_timeout.min(LONGEST_INTRODUCTION).to_std(), header).await {
                Ok(Ok(source)) => {
                    let arrival = Arrival { peer: source.map_or(arrival.peer, Peer::Ip), ..arrival };
                    worker.welcome(arrival, &worker.gate.site.now().site.client);
                    if worker.ends.get() {
                        // First the client's task runs, and takes the request that is there already.
                        tokio::task::yield_now().await;
                        worker.each_open(Phases::drain);
                    }
                }
                Ok(Err(Refused::Silent)) => {}
                Ok(Err(Refused::Malformed)) | Err(_) => {
                    worker.turn_away(arrival.peer, Reason::Introduction);
                }
            }
        });
    }

    fn turn_away(&self, peer: Peer, reason: Reason) {
        let peer = match peer {
            Peer::Ip(address) => Some(address.ip().to_canonical()),
            Peer::Unix => None,
        };
        self.gate.events.emit(&Event::TurnedAway { peer, reason });
    }

    /// The number of a connection from now on.
    fn enter(&self, connection: Option<Arc<Connection>>) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        self.open.borrow_mut().insert(number, connection);
        number
    }

    fn serve(self: &Rc<Self>, stream: Stream, connection: Arc<Connection>) {
        if self.leaves.get() {
            connection.phases.leave();
        }
        let (worker, number) = (Rc::clone(self), self.enter(Some(Arc::clone(&connection))));
        tokio::task::spawn_local(async move {
            let _presence = Presence::enter(&worker, number);
            // Not the site, which a connection would hold for as long as it lasts.
            let settings = Arc::clone(&worker.gate.site.now().site.settings);
            let Some(stream) = worker.greet(stream, &connection, &settings).await else { return };
            let service = Service::new(Rc::clone(&worker.gate), Arc::clone(&connection));
            if stream.speaks_http2() {
                // Boxed: the others would carry it along.
                let ticket = worker.turnstile.ticket();
                let windows = Windows::beside(worker.guard.present());
                let serving =
                    connection::serve_http2(stream, connection, service, &settings, ticket, windows);
                return Box::pin(serving).await;
            }
            connection::serve(stream, connection, service, &settings).await;
        });
    }

    /// Shakes hands, where the client has to: here and not where it was accepted, so that it holds up nobody else.
    async fn greet(&self, stream: Stream, connection: &Connection, settings: &Settings) -> Option<Stream> {
        let stream = match (connection.door, stream) {
            (Door::Tls, Stream::Tcp(stream)) => stream,
            (_, stream) => return Some(stream),
        };
        let doorkeeper = self.gate.site.now().site.doorkeeper.clone()?;
        // Boxed: a connection without TLS would carry it along.
        let shaken =
            connection::shake_hands(stream, connection, &doorkeeper, settings, self.turnstile.ticket());
        let opened = Box::pin(shaken).await;
        if opened.is_none() {
            self.turn_away(connection.peer, Reason::Handshake);
        }
        opened
    }

    /// Comes to rest each time another process is about to take over, and goes on if it does not.
    async fn leave(self: Rc<Self>, mut shutdown: Shutdown) {
        loop {
            shutdown.reached(Stage::Leaving).await;
            self.leaves.set(true);
            self.see_off().await;
            self.pulse.comes_to(Rest::SeenOff);
            while shutdown.stage() == Stage::Leaving {
                tokio::time::sleep(MOMENT).await;
            }
            // Who has come since then has only one request, which is on its way.
            let _ = timeout(ON_ITS_WAY, self.quiet(&shutdown)).await;
            if shutdown.stage() >= Stage::Resting {
                self.end();
            }
            self.quiet(&shutdown).await;
            self.pulse.comes_to(Rest::Whole);
            if !shutdown.stays().await {
                return;
            }
            self.pulse.comes_to(Rest::None);
            self.leaves.set(false);
            self.ends.set(false);
        }
    }

    /// Waits until nobody is let in and nothing is read any more that has still to be decided on, or the gate serves again.
    async fn quiet(&self, shutdown: &Shutdown) {
        let is_busy =
            |open: &Option<Arc<Connection>>| open.as_ref().is_some_and(|open| open.phases.is_busy());
        let is_quiet = || {
            self.accepting.get() == 0
                && self.gate.unread.get() == 0
                && self.open.borrow().values().all(is_busy)
        };
        while !is_quiet() && shutdown.stage() == Stage::Resting {
            tokio::time::sleep(MOMENT).await;
        }
    }

    /// Gives those who are kept alive some time in which their next request is still answered, as their last.
    async fn see_off(&self) {
        self.each_open(Phases::leave);
        let since = self.accepted.get();
        let are_there = || self.open.borrow().keys().any(|number| *number < since);
        let all_gone = async {
            while are_there() {
                tokio::time::sleep(GLANCE).await;
            }
        };
        let _ = timeout(GRACE, all_gone).await;
        let open = self.open.borrow();
        let before = open.iter().filter(|(number, _)| **number < since);
        before.filter_map(|(_, open)| open.as_ref()).for_each(|connection| connection.phases.drain());
    }

    /// Whoever is there, and whoever comes after them, ends as soon as it is idle.
    fn end(&self) {
        self.ends.set(true);
        self.each_open(Phases::drain);
    }

    fn each_open(&self, tell: impl Fn(&Phases)) {
        self.open.borrow().values().flatten().for_each(|connection| tell(&connection.phases));
    }

    /// Lets requests in flight finish, for as long as `proxy.drain` says.
    async fn drain(&self, mut shutdown: Shutdown) {
        self.leaves.set(true);
        let finished = async {
            self.see_off().await;
            self.end();
            while !self.open.borrow().is_empty() {
                tokio::time::sleep(GLANCE).await;
            }
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(self.gate.site.now().site.settings.drain.to_std()) => {}
            () = shutdown.reached(Stage::Stopped) => {}
        }
    }

    /// Closes connections to upstreams that were idle for too long. A worker that nobody asks anything lets go of an
    /// old site here.
    async fn sweep(self: Rc<Self>) {
        let mut waited = Duration::ZERO;
        loop {
            let pause = self.gate.site.now().site.settings.upstream_idle.to_std() / SWEEPS;
            let step = pause.clamp(MOMENT, LOOK);
            tokio::time::sleep(step).await;
            waited += step;
            self.pulse.beat();
            let local = self.gate.site.now();
            if waited >= pause {
                local.expire();
                waited = Duration::ZERO;
            }
        }
    }
}

fn reason(why: TurnedAway) -> Reason {
    match why {
        TurnedAway::Places => Reason::Connections,
        TurnedAway::Max => Reason::ClientMax,
        TurnedAway::Rate => Reason::ClientRate,
        TurnedAway::Memory => Reason::Memory,
        TurnedAway::Descriptors => Reason::Descriptors,
    }
}

/// Counts a connection as long as its task lives, and notes if that ended in a panic.
struct Presence {
    worker: Rc<Worker>,
    number: u64,
}

impl Presence {
    fn enter(worker: &Rc<Worker>, number: u64) -> Self {
        worker.gate.events.emit(&Event::Connected);
        Self { worker: Rc::clone(worker), number }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.gate.events.emit(&Event::Panicked);
        }
        let connection = self.worker.open.borrow_mut().remove(&self.number).flatten();
        if connection.is_some_and(|connection| connection.phases.gave_way()) {
            self.worker.gate.events.emit(&Event::GaveWay);
        }
        self.worker.gate.events.emit(&Event::Disconnected);
    }
}

/// For the header of a proxy in front of us.
const LONGEST_INTRODUCTION: Span = Span::from_secs(3);
const MOMENT: Duration = Duration::from_millis(1);
const GLANCE: Duration = Duration::from_millis(10);
/// A client that goes on asking has asked again by then, however far away or busy it is.
const GRACE: Duration = Duration::from_secs(1);
/// Longer than the way from a client that has connected to its request.
const ON_ITS_WAY: Duration = Duration::from_millis(250);
/// However long idle connections are kept, a worker looks this often whether there is another site.
const LOOK: Duration = Duration::from_secs(1);
