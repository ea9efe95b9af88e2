//! The one place that knows all parts: from a checked configuration to a running gate, and to its end.
//!
//! Binds everything before anything starts, so that a gate either runs whole or not at all. The surprising thing:
//! the workers know nothing of signals, files and pages; all of that lives on one background runtime.

mod certificates;
mod changes;
mod grammar;
mod memory;
mod reload;
mod signals;
mod snapshot;
mod status;
mod upstreams;
mod watch;

pub use self::signals::Signals;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc};

use self::reload::Reload;
use self::snapshot::Keeper;
use self::status::{Known, Status};
use crate::config::{Config, Sources, Store};
use crate::engine::{Engine, witness};
use crate::event::{Events, Listener};
use crate::net::guard::{Guard, NewConnections};
use crate::net::listener::{Address, BindError, Bound, Listening};
use crate::net::shutdown::{self, Shutdown, Stage, Trigger};
use crate::net::tls::{Memory, Unusable};
use crate::observe::access_log::AccessLog;
use crate::observe::admin::{Admin, Control, Socket};
use crate::observe::clients::Clients;
use crate::observe::messages::Messages;
use crate::observe::metrics::Metrics;
use crate::policy::Policy;
use crate::policy::key::KeyHasher;
use crate::proxy::ids::RequestIds;
use crate::proxy::respond::Said;
use crate::proxy::service::Gate;
use crate::proxy::settings::ClientRate;
use crate::proxy::site::{Follower, Site};
use crate::proxy::upstream::Health;
use crate::proxy::worker;
use crate::store::memory::TooLarge;
use crate::store::shared::{self, Shared};
use crate::time::{Clock, Span};

/// A gate that is bound and ready, but does not serve yet.
pub struct App {
    parts: Parts,
    sockets: Vec<Vec<Bound>>,
    admin_sockets: Vec<Bound>,
    reload: Reload,
    known: Known,
    store: String,
}

/// What the threads of a gate share.
struct Parts {
    engine: Arc<Engine>,
    site: Arc<ArcSwap<Site>>,
    guard: Arc<Guard>,
    clients: Clients,
    events: Events,
    metrics: Arc<Metrics>,
    access: Option<Arc<AccessLog>>,
    keeper: Option<Arc<Keeper>>,
    /// Of sessions of TLS; as old as the gate, whatever certificates come and go.
    sessions: Memory,
}

/// Why a gate cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened at.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The buckets do not fit.
    #[error("store.capacity: {0}")]
    Capacity(#[from] TooLarge),
    /// The store cannot be used, whether it is there or not.
    #[error(transparent)]
    Store(#[from] shared::StartError),
    /// The access log cannot be opened.
    #[error("log.access: {0}")]
    AccessLog(io::Error),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] Unusable),
    /// The machine gives no thread or runtime.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl App {
    /// Binds all addresses and prepares all parts. `sources` is where the configuration came from, and where the next
    /// one comes from.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left bound.
    pub fn build(config: Config, sources: Sources) -> Result<Self, StartError> {
        raise_descriptor_limit();
        let threads = match config.proxy.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let sockets = bind(&config.listen, threads)?;
        let admin_sockets = config.admin.iter().map(Address::bind_private).collect::<Result<Vec<_>, _>>()?;
        let (clock, store) = (Clock::system(), config.store.address.to_string());
        let known = Known::new(&sources, clock.now());
        let reload = Reload::new(sources, &config, known.clone());
        let parts = Parts::build(config, clock)?;
        Ok(Self { parts, sockets, admin_sockets, reload, known, store })
    }

    /// Where clients connect, with the ports that the kernel chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.sockets
            .first()
            .map(|sockets| sockets.iter().map(|s| s.address().clone()).collect())
            .unwrap_or_default()
    }

    /// Where operators connect.
    #[must_use]
    pub fn admin_addresses(&self) -> Vec<Address> {
        self.admin_sockets.iter().map(|socket| socket.address().clone()).collect()
    }

    /// Serves until a signal says otherwise or `until` ends, then drains. Meanwhile the configuration is read again
    /// whenever there is a reason to.
    ///
    /// # Errors
    /// [`StartError::Worker`].
    pub async fn run(self, mut signals: Signals, until: impl Future<Output = ()>) -> Result<(), StartError> {
        let addresses = [self.addresses(), self.admin_addresses()].concat();
        let (trigger, shutdown) = shutdown::channel();
        let draining = Arc::new(AtomicBool::new(false));
        let (drain, (reloads, orders)) = (Arc::new(Notify::new()), mpsc::channel(MOST_ORDERS));
        let status = self.status(&draining);
        let control = Control {
            reloads,
            drain: Arc::clone(&drain),
            status: Box::new(move || status.to_json()),
            events: self.parts.events.clone(),
        };
        let workers = self.parts.spawn_workers(self.sockets, &shutdown)?;
        let admin = Admin::new(Arc::clone(&self.parts.metrics), Arc::clone(&draining));
        let admin = admin.with_buckets(Arc::clone(&self.parts.engine), grammar::of_the_file());
        let admin = Arc::new(admin.with_control(control));
        let mut pages = Vec::new();
        for socket in self.admin_sockets {
            let socket = admin_socket(socket).map_err(StartError::Worker)?;
            let mut stop = shutdown.clone();
            let stopped = async move { stop.reached(Stage::Stopped).await };
            pages.push(tokio::spawn(Arc::clone(&admin).serve(socket, stopped)));
        }
        let watching = tokio::spawn(memory::watch(Arc::clone(&self.parts.guard)));
        let keeping = self.parts.keeper.clone().map(|keeper| tokio::spawn(keeper.serve()));
        let parts = &self.parts;
        tokio::select! {
            () = signals::stop() => {}
            () = until => {}
            () = drain.notified() => {}
            () = self.reload.serve(parts, &mut signals.hang_up, orders) => {}
            () = signals.reopen.each(|| parts.reopen_logs()) => {}
        }
        draining.store(true, Ordering::Relaxed);
        let drain = self.parts.site.load().settings.drain;
        tracing::info!("draining: requests in flight may take {drain:?} to finish");
        let finished = self.parts.finish(&trigger, workers).await;
        watching.abort();
        if let Some(keeping) = keeping {
            keeping.abort();
        }
        if let Some(keeper) = &self.parts.keeper {
            keeper.keep().await;
        }
        for page in pages {
            // It ends with the stage; a panic there has nothing left to harm.
            let _ = page.await;
        }
        addresses.iter().for_each(Address::clean_up);
        finished
    }
}

impl App {
    fn status(&self, draining: &Arc<AtomicBool>) -> Status {
        let parts = &self.parts;
        Status {
            listen: self.addresses(),
            admin: self.admin_addresses(),
            workers: self.sockets.len(),
            store: self.store.clone(),
            engine: Arc::clone(&parts.engine),
            site: Arc::clone(&parts.site),
            guard: Arc::clone(&parts.guard),
            draining: Arc::clone(draining),
            since: parts.engine.clock().now(),
            file: self.known.clone(),
        }
    }
}

impl Parts {
    fn build(config: Config, clock: Clock) -> Result<Self, StartError> {
        let clients = Clients::new(config.log.clients, config.client.prefixes);
        let metrics = Arc::new(Metrics::new());
        let access = match &config.log.access {
            None => None,
            Some(target) => Some(Arc::new(
                AccessLog::open(
                    target.clone(),
                    config.log.style,
                    clients.clone(),
                    metrics.lines_dropped(),
                    clock.clone(),
                )
                .map_err(StartError::AccessLog)?,
            )),
        };
        let mut listeners: Vec<Arc<dyn Listener>> =
            vec![Arc::clone(&metrics) as _, Arc::new(Messages::new(clients.clone(), clock.clone()))];
        listeners.extend(access.clone().map(|access| access as _));
        let events: Events = listeners.into_iter().collect();
        let engine = Arc::new(engine(config.policy, &config.store, &clock, &events)?);
        metrics.watch(&engine);
        let keeper = config
            .store
            .snapshot
            .clone()
            .filter(|_| !config.store.address.is_shared())
            .map(|path| Keeper::new(path, &engine));
        let settings = config.proxy;
        let rate = settings.client_rate.map(new_connections);
        let guard = Arc::new(Guard::new(settings.connections, settings.client_max, rate, &clock));
        let fresh = |address| Health::new(address, settings.upstream_max, clock.clone(), events.clone());
        let upstreams = upstreams::of(config.upstreams, &Vec::new(), fresh);
        upstreams.iter().flatten().for_each(|health| metrics.expect_upstream(health.name()));
        let sessions = Memory::new();
        let doorkeeper = certificates::doorkeeper(&config.tls, &sessions)?;
        metrics.show_certificates(&config.tls.certificates);
        let site = Arc::new(ArcSwap::from_pointee(Site {
            rules: Arc::clone(&engine.rules()),
            client: config.client,
            refuse: Arc::new(config.refuse),
            settings: Arc::new(settings),
            doorkeeper,
            redirect: config.redirect,
            upstreams,
        }));
        Ok(Self { engine, site, guard, clients, events, metrics, access, keeper, sessions })
    }

    fn spawn_workers(
        &self,
        sockets: Vec<Vec<Bound>>,
        shutdown: &Shutdown,
    ) -> Result<Vec<JoinHandle<io::Result<()>>>, StartError> {
        let spawn = |(number, sockets): (usize, Vec<Bound>)| {
            let (guard, shutdown, gate) = (Arc::clone(&self.guard), shutdown.clone(), self.gate_maker());
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            thread.spawn(move || worker::run(sockets, guard, shutdown, gate)).map_err(StartError::Worker)
        };
        sockets.into_iter().enumerate().map(spawn).collect()
    }

    /// Makes a worker's own part on its own thread: it is not to be shared.
    fn gate_maker(&self) -> impl FnOnce() -> Gate + Send + use<> {
        let (engine, site, events) = (Arc::clone(&self.engine), Arc::clone(&self.site), self.events.clone());
        move || Gate {
            engine,
            site: Follower::new(site),
            events,
            ids: RequestIds::default(),
            said: Said::default(),
        }
    }

    fn reopen_logs(&self) {
        if let Some(Err(error)) = self.access.as_ref().map(|access| access.reopen()) {
            tracing::error!("log.access cannot be opened again, the old file stays: {error}");
        }
    }

    async fn finish(
        &self,
        trigger: &Trigger,
        workers: Vec<JoinHandle<io::Result<()>>>,
    ) -> Result<(), StartError> {
        trigger.reach(Stage::Draining);
        let joined =
            tokio::task::spawn_blocking(|| workers.into_iter().map(JoinHandle::join).collect::<Vec<_>>());
        tokio::pin!(joined);
        let ended = tokio::select! {
            ended = &mut joined => ended,
            () = signals::stop() => {
                trigger.reach(Stage::Stopped);
                joined.await
            }
        };
        trigger.reach(Stage::Stopped);
        if let Some(store) = self.engine.store() {
            store.settled(LAST_REFUNDS).await;
        }
        if let Some(access) = &self.access {
            access.close();
        }
        for worker in ended.map_err(|error| StartError::Worker(io::Error::other(error)))? {
            worker
                .map_err(|_| StartError::Worker(io::Error::other("a worker panicked")))?
                .map_err(StartError::Worker)?;
        }
        Ok(())
    }
}

/// With its buckets where the file says.
fn engine(policy: Policy, store: &Store, clock: &Clock, events: &Events) -> Result<Engine, StartError> {
    let engine = Engine::new(policy, store.capacity, clock.clone(), events.clone())?;
    if !store.address.is_shared() {
        return Ok(match &store.snapshot {
            Some(path) => snapshot::restore(engine, path),
            None => engine,
        });
    }
    let witness = witness(events.clone());
    let shared = Shared::start(&store.address, &store.names, store.manner, clock.clone(), witness)?;
    let hasher = KeyHasher::of_installation(store.names.as_str(), store.secret.reveal());
    Ok(engine.with_store(shared, hasher)?)
}

/// For each thread its sockets: one for each address.
fn bind(addresses: &[Address], threads: usize) -> Result<Vec<Vec<Bound>>, BindError> {
    let mut sockets: Vec<Vec<Bound>> = (0..threads).map(|_| Vec::new()).collect();
    for address in addresses {
        for (thread, socket) in sockets.iter_mut().zip(address.bind(threads)?) {
            thread.push(socket);
        }
    }
    Ok(sockets)
}

fn admin_socket(socket: Bound) -> io::Result<Socket> {
    Ok(match socket.listen()?.socket {
        Listening::Tcp(listener) => Socket::Tcp(listener),
        Listening::Unix(listener) => Socket::Unix(listener),
    })
}

fn new_connections(rate: ClientRate) -> NewConnections {
    let replenish = Span::from_nanos(rate.period.as_nanos().div_ceil(u64::from(rate.count.max(1))).max(1));
    NewConnections { replenish, burst: rate.burst }
}

/// Operators who wait for the configuration to be read; further ones wait to be heard.
const MOST_ORDERS: usize = 16;
/// So long the end waits for tokens on their way back to a shared store.
const LAST_REFUNDS: Duration = Duration::from_secs(2);

/// Each connection takes a descriptor, and one to the upstream: as many as the machine allows. Where it cannot be
/// raised the gate still serves what it can, and waits with accepting when it runs out.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused only where the limit was lowered meanwhile.
    let _ = setrlimit(Resource::Nofile, limit);
}
