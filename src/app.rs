//! The one place that knows all parts: from a checked configuration to a running gate, and to its end.
//!
//! Binds everything before anything starts, so that a gate either runs whole or not at all. The surprising thing:
//! the workers know nothing of signals, files and pages; all of that lives on one background runtime.

mod background;
mod certificates;
mod config_diff;
mod file_watcher;
mod grammar;
mod memory;
mod reload;
mod sandbox;
mod service_manager;
mod signals;
mod snapshot;
mod sockets;
mod status;
mod supervisor;
mod upgrade;
mod upstreams;
mod watchdog;

pub use self::sandbox::confine_writer;
pub use self::signals::Signals;
pub use self::upgrade::Inherited;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::reload::Reload;
use self::sandbox::{Confinement, Sandbox};
use self::snapshot::Snapshotter;
use self::status::ConfigStatus;
use self::upgrade::OldProcess;
use crate::config::{Config, Sources};
use crate::engine::Engine;
use crate::event::{EventListener, Events};
use crate::net::connection_limit::{ConnectionLimit, ConnectionQuota};
use crate::net::listener::{BindError, BoundSocket, ListenAddress};
use crate::net::shutdown::{self, Shutdown, Stage, Trigger};
use crate::net::tls::{SessionCache, TlsConfigError};
use crate::net::worker_sockets::WorkerSockets;
use crate::observe::access_log::AccessLog;
use crate::observe::client_format::ClientFormatter;
use crate::observe::messages::Messages;
use crate::observe::metrics::Metrics;
use crate::observe::readiness::Readiness;
use crate::observe::settings::LogSettings;
use crate::proxy::body::BodyMemory;
use crate::proxy::downstream::heartbeat::Heartbeat;
use crate::proxy::downstream::worker;
use crate::proxy::headers::request_id::RequestIds;
use crate::proxy::respond::RefusalCache;
use crate::proxy::runtime_config::{ConfigHandle, RuntimeConfig};
use crate::proxy::settings::ClientRate;
use crate::proxy::transaction::server::Server;
use crate::proxy::upstream::Health;
use crate::store::memory::TooLarge;
use crate::store::shared;
use crate::time::{Clock, Span};

/// A gate that is bound and ready, but does not serve yet.
pub struct App {
    parts: Parts,
    sockets: WorkerSockets,
    admin_sockets: Vec<BoundSocket>,
    reload: Reload,
    config_status: ConfigStatus,
    store: String,
    old_process: Option<OldProcess>,
}

/// What the threads of a gate share.
struct Parts {
    engine: Arc<Engine>,
    config: Arc<ArcSwap<RuntimeConfig>>,
    connection_limit: Arc<ConnectionLimit>,
    body_memory: Arc<BodyMemory>,
    clients: ClientFormatter,
    events: Events,
    metrics: Arc<Metrics>,
    access: Option<Arc<AccessLog>>,
    snapshotter: Option<Arc<Snapshotter>>,
    draining: Arc<AtomicBool>,
    readiness: Arc<Readiness>,
    /// Of each worker.
    heartbeats: Vec<Arc<Heartbeat>>,
    /// Of sessions of TLS; as old as the gate, whatever certificates come and go.
    sessions: SessionCache,
    sandbox: Sandbox,
}

/// Why a gate cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AppStartError {
    /// An address cannot be listened at.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The buckets do not fit.
    #[error("store.capacity: {0}")]
    Capacity(#[from] TooLarge),
    /// The store cannot be used, whether it is there or not.
    #[error(transparent)]
    Store(#[from] shared::StoreStartError),
    /// The access log cannot be opened.
    #[error("log.access: {0}")]
    AccessLog(io::Error),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// A socket cannot be shared among the workers.
    #[error("cannot share a socket: {0}")]
    Share(io::Error),
    /// The gate whose place this one takes does not let it.
    #[error("the gate that serves does not make room: {0}")]
    OldProcess(io::Error),
    /// Another gate is about to take over.
    #[error("another process is taking over: it has read the configuration")]
    Upgrading,
    /// The machine gives no thread or runtime.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl App {
    /// Binds all addresses and prepares all parts. `sources` is where the configuration came from, and where the next
    /// one comes from; `heritage` what is there already. Another gate whose place this one takes is at rest afterwards.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left bound.
    pub fn build(config: Config, sources: Sources, heritage: Inherited) -> Result<Self, AppStartError> {
        sockets::raise_descriptor_limit();
        let threads = match config.proxy.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let Inherited { sockets: mut inherited, old_process: mut predecessor } = heritage;
        let mut sockets = sockets::bind(&config.listen, threads, &mut inherited)?;
        let mut admin_sockets = Vec::new();
        for address in &config.admin {
            let bound = address.bind_private(&mut inherited)?;
            sockets.fds.add(&bound).map_err(AppStartError::Share)?;
            admin_sockets.push(bound);
        }
        let (clock, store) = (Clock::system(), config.store.address.to_string());
        let known = ConfigStatus::new(&sources, clock.now());
        let reload = Reload::new(sources, &config, known.clone());
        let sandbox = Sandbox::enter(&config).map_err(AppStartError::Worker)?;
        let parts = Parts::build(config, clock, sandbox, predecessor.as_mut())?;
        Ok(Self {
            parts,
            sockets,
            admin_sockets,
            reload,
            config_status: known,
            store,
            old_process: predecessor,
        })
    }

    /// Where clients connect, with the ports that the kernel chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<ListenAddress> {
        let first = self.sockets.workers.first();
        let mut addresses: Vec<_> = first.into_iter().flatten().map(|s| s.address().clone()).collect();
        addresses.dedup();
        addresses
    }

    /// Where operators connect.
    #[must_use]
    pub fn admin_addresses(&self) -> Vec<ListenAddress> {
        self.admin_sockets.iter().map(|socket| socket.address().clone()).collect()
    }

    /// Serves until a signal says otherwise or `until` ends, then drains. Meanwhile the configuration is read again
    /// whenever there is a reason to.
    ///
    /// # Errors
    /// [`StartError::Worker`].
    pub async fn run(
        mut self,
        signals: Signals,
        until: impl Future<Output = ()>,
    ) -> Result<(), AppStartError> {
        let addresses = [self.addresses(), self.admin_addresses()].concat();
        let (trigger, shutdown) = shutdown::channel();
        let drain = Arc::new(Notify::new());
        let control = self.control(&drain);
        let WorkerSockets { workers, fds: kept } = self.sockets;
        if let Some(requests) = self.parts.sandbox.take_requests() {
            tokio::spawn(requests.serve());
        }
        let workers = self.parts.spawn_workers(workers, &shutdown)?;
        if let Some(mut predecessor) = self.old_process.take() {
            predecessor.confirm_serving().map_err(AppStartError::OldProcess)?;
        }
        let pages = self.parts.serve_admin(self.admin_sockets, &shutdown, control)?;
        service_manager::ready();
        let until = async {
            tokio::select! {
                () = until => {}
                () = drain.notified() => {}
            }
        };
        let handed_over = self.parts.run_background(&mut self.reload, signals, &trigger, kept, until).await;
        self.parts.draining.store(true, Ordering::Relaxed);
        match handed_over {
            Some(process) => {
                // It answers there by now: whoever hears of it has to meet it, and nobody else.
                pages.iter().for_each(JoinHandle::abort);
                tracing::info!("process {process} has taken over");
                service_manager::notify(&[service_manager::State::MainPid(process)]);
            }
            None => service_manager::notify(&[service_manager::State::Stopping]),
        }
        let drain = self.parts.config.load().settings.drain;
        tracing::info!("draining: requests in flight may take {drain:?} to finish");
        let finished = self.parts.finish(&trigger, workers).await;
        if let Some(keeper) = self.parts.snapshotter.as_ref().filter(|_| handed_over.is_none()) {
            keeper.write().await;
        }
        for page in pages {
            // It ends with the stage; a panic there has nothing left to harm.
            let _ = page.await;
        }
        addresses.iter().for_each(ListenAddress::remove_socket_file);
        finished
    }
}

impl Parts {
    fn build(
        config: Config,
        clock: Clock,
        sandbox: Sandbox,
        predecessor: Option<&mut OldProcess>,
    ) -> Result<Self, AppStartError> {
        let clients = ClientFormatter::new(config.log.clients, config.client.prefixes);
        let metrics = Arc::new(Metrics::new());
        let access = open_access_log(&config.log, &clients, &metrics, &clock)?;
        let mut listeners: Vec<Arc<dyn EventListener>> =
            vec![Arc::clone(&metrics) as _, Arc::new(Messages::new(clients.clone(), clock.clone()))];
        listeners.extend(access.clone().map(|access| access as _));
        let events: Events = listeners.into_iter().collect();
        let sessions = SessionCache::new();
        let doorkeeper = certificates::acceptor(&config.tls, &sessions)?;
        // The last that can fail: another gate waits from then on.
        let engine =
            Arc::new(snapshot::build_engine(config.policy, &config.store, &clock, &events, predecessor)?);
        metrics.watch(&engine);
        let path = config.store.snapshot.clone().filter(|_| !config.store.address.is_shared());
        let keeper = path.map(|path| Snapshotter::new(path, &engine, sandbox.broker().clone()));
        let settings = config.proxy;
        let rate = settings.client_rate.map(new_connections);
        let guard = Arc::new(ConnectionLimit::new(settings.connections, settings.client_max, rate, &clock));
        let body_memory = BodyMemory::new(settings.body_memory);
        let most = settings.upstream_max;
        let connector = sandbox.connector();
        let fresh =
            |address| Health::with_connector(connector.clone(), address, most, clock.clone(), events.clone());
        let upstreams = upstreams::resolve(config.upstreams, &Vec::new(), fresh);
        upstreams.iter().flatten().for_each(|health| metrics.expect_upstream(health.name()));
        metrics.show_certificates(&config.tls.certificates);
        let site = Arc::new(ArcSwap::from_pointee(RuntimeConfig {
            rules: Arc::clone(&engine.rules()),
            client: config.client,
            refuse: Arc::new(config.refuse),
            settings: Arc::new(settings),
            tls_acceptor: doorkeeper,
            redirect: config.redirect,
            upstreams,
        }));
        let (draining, trouble, pulses) = Default::default();
        Ok(Self {
            engine,
            config: site,
            connection_limit: guard,
            body_memory,
            clients,
            events,
            metrics,
            access,
            snapshotter: keeper,
            draining,
            readiness: trouble,
            heartbeats: pulses,
            sessions,
            sandbox,
        })
    }

    fn spawn_workers(
        &mut self,
        sockets: Vec<Vec<BoundSocket>>,
        shutdown: &Shutdown,
    ) -> Result<Vec<thread::JoinHandle<io::Result<()>>>, AppStartError> {
        self.heartbeats = sockets.iter().map(|_| Arc::default()).collect();
        let spawn = |(number, (sockets, pulse)): (usize, (Vec<BoundSocket>, &Arc<Heartbeat>))| {
            let (guard, shutdown, gate) =
                (Arc::clone(&self.connection_limit), shutdown.clone(), self.server_factory());
            let (thread, pulse) =
                (thread::Builder::new().name(format!("worker-{number}")), Arc::clone(pulse));
            let confined = self.sandbox.worker();
            let run = move || {
                confined.iter().for_each(Confinement::confine);
                worker::run(sockets, guard, shutdown, pulse, gate)
            };
            thread.spawn(run).map_err(AppStartError::Worker)
        };
        sockets.into_iter().zip(&self.heartbeats).enumerate().map(spawn).collect()
    }

    /// Makes a worker's own part on its own thread: it is not to be shared.
    fn server_factory(&self) -> impl FnOnce() -> Server + Send + use<> {
        let (engine, site, events) =
            (Arc::clone(&self.engine), Arc::clone(&self.config), self.events.clone());
        let body_memory = Arc::clone(&self.body_memory);
        move || Server {
            engine,
            config: ConfigHandle::new(site),
            events,
            ids: RequestIds::default(),
            refusal_cache: RefusalCache::default(),
            unread_bodies: Cell::default(),
            body_memory,
        }
    }

    async fn reopen_logs(&self) {
        let Some(access) = self.access.clone() else { return };
        let reopened = self.sandbox.broker().run(move || access.reopen()).await;
        if let Err(error) = reopened.and_then(|reopened| reopened) {
            tracing::error!("log.access cannot be opened again, the old file stays: {error}");
        }
    }

    async fn finish(
        &self,
        trigger: &Trigger,
        workers: Vec<thread::JoinHandle<io::Result<()>>>,
    ) -> Result<(), AppStartError> {
        trigger.reach(Stage::Draining);
        let joined = tokio::task::spawn_blocking(|| {
            workers.into_iter().map(thread::JoinHandle::join).collect::<Vec<_>>()
        });
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
            store.flush(REFUND_TIMEOUT).await;
        }
        if let Some(access) = &self.access {
            access.close();
        }
        for worker in ended.map_err(|error| AppStartError::Worker(io::Error::other(error)))? {
            worker
                .map_err(|_| AppStartError::Worker(io::Error::other("a worker panicked")))?
                .map_err(AppStartError::Worker)?;
        }
        Ok(())
    }
}

fn open_access_log(
    log: &LogSettings,
    clients: &ClientFormatter,
    metrics: &Metrics,
    clock: &Clock,
) -> Result<Option<Arc<AccessLog>>, AppStartError> {
    let Some(target) = &log.access else { return Ok(None) };
    let (dropped, clients) = (metrics.lines_dropped(), clients.clone());
    let access = AccessLog::open(target.clone(), log.style, clients, dropped, clock.clone());
    access.map(|access| Some(Arc::new(access))).map_err(AppStartError::AccessLog)
}

fn new_connections(rate: ClientRate) -> ConnectionQuota {
    let replenish = Span::from_nanos(rate.period.as_nanos().div_ceil(u64::from(rate.count.max(1))).max(1));
    ConnectionQuota { replenish, burst: rate.burst }
}

/// So long the end waits for tokens on their way back to a shared store.
const REFUND_TIMEOUT: Duration = Duration::from_secs(2);
