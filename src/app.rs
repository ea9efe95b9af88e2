//! Builds a running gate from a checked configuration, runs it, and ends it.
//!
//! It binds everything before anything starts, so a gate either runs whole or not at all. The workers leave signals,
//! files and the admin pages to one background runtime.

#[cfg(feature = "acme")]
mod acme;
mod alarms;
mod allocator;
mod audited_life;
mod background;
pub mod cases;
mod certificate_expiry;
mod certificates;
mod config_diff;
pub mod dns;
mod dry_run;
pub mod explain;
mod file_watcher;
mod fleet;
mod forget;
mod grammar;
mod health_checks;
mod in_process;
mod kernel;
mod limits_page;
mod list_fetches;
mod logs;
mod lookup_schedule;
mod memory;
mod name_lookups;
mod observers;
mod otel;
mod reload;
mod sandbox;
mod service_manager;
mod shared_audit;
mod signals;
mod snapshot;
mod sockets;
mod startup_check;
mod status;
mod supervisor;
mod ticks;
mod upgrade;
mod upstream_names;
mod upstreams;
mod watchdog;

pub use self::in_process::InProcessGate;
pub use self::sandbox::confine_writer;
pub use self::signals::Signals;
pub use self::sockets::descriptor_limit;
pub use self::upgrade::Inherited;

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::certificates::TlsState;
use self::kernel::{DropQueue, KernelOffload, KernelSources};
use self::observers::Observers;
use self::reload::Reload;
use self::sandbox::{Confinement, Sandbox};
use self::snapshot::Snapshotter;
use self::status::ConfigStatus;
use self::upgrade::OldProcess;
use crate::config::{Config, Sources, StoreSettings};
use crate::engine::{Engine, OpenAttempts};
use crate::event::Events;
use crate::net::connection_limit::{ConnectionLimit, ConnectionQuota};
use crate::net::listener::{BindError, BoundSocket, Callers, ListenAddress};
use crate::net::nftables::NftError;
use crate::net::shutdown::{self, Shutdown, Stage, Trigger};
use crate::net::tls::TlsConfigError;
use crate::net::worker_sockets::WorkerSockets;
use crate::observe::admin::AdminSettings;
use crate::observe::audit::AuditError;
use crate::observe::client_format::ClientFormatter;
use crate::observe::metrics::Metrics;
use crate::observe::readiness::Readiness;
use crate::observe::settings::LogTarget;
use crate::proxy::body::{BodyMemories, BodySearches};
use crate::proxy::downstream::heartbeat::Heartbeat;
use crate::proxy::downstream::worker;
use crate::proxy::endpoint::Endpoint;
use crate::proxy::headers::request_id::RequestIds;
use crate::proxy::respond::RefusalCache;
use crate::proxy::runtime_config::{ConfigHandle, RuntimeConfig};
use crate::proxy::settings::{ClientRate, ProxySettings};
use crate::proxy::transaction::refusal_rate::RefusalRate;
use crate::proxy::transaction::refused_heads::RefusedHeads;
use crate::proxy::transaction::server::Server;
use crate::proxy::upstream::{Health, UpstreamTarget};
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
    store: StoreSettings,
    old_process: Option<OldProcess>,
}

/// What the threads of a gate share.
struct Parts {
    engine: Arc<Engine>,
    config: Arc<ArcSwap<RuntimeConfig>>,
    serving: SharedByWorkers,
    observers: Observers,
    /// What the kernel drops in the place of the workers, if it does.
    drops: Option<Arc<DropQueue>>,
    snapshotter: Option<Arc<Snapshotter>>,
    draining: Arc<AtomicBool>,
    readiness: Arc<Readiness>,
    sandbox: Sandbox,
    admin_settings: Arc<ArcSwap<AdminSettings>>,
    /// The store that takes the audit of all gates, if one does.
    audit_store: Option<StoreSettings>,
}

/// What all workers share.
struct SharedByWorkers {
    connection_limit: Arc<ConnectionLimit>,
    body_memory: BodyMemories,
    body_searches: BodySearches,
    /// Those of each decision endpoint.
    open_attempts: Arc<[OpenAttempts]>,
    tls: TlsState,
    /// One for each worker.
    heartbeats: Vec<Arc<Heartbeat>>,
}

/// Why a gate cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AppStartError {
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The buckets do not fit into the address space.
    #[error("store.capacity")]
    Capacity(#[from] TooLarge),
    /// The store cannot be used. A store that is only unreachable is not an error.
    #[error(transparent)]
    Store(#[from] shared::StoreStartError),
    /// The access log cannot be opened.
    #[error("log.access: {0}: {1}")]
    AccessLog(LogTarget, io::Error),
    /// The decision log cannot be opened.
    #[error("log.decisions: {0}: {1}")]
    DecisionLog(LogTarget, io::Error),
    /// The audit log cannot be opened.
    #[error("admin.audit")]
    Audit(#[from] AuditError),
    /// The certificates, keys or roots cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// The kernel does not drop clients for this gate.
    #[error("kernel.nftables")]
    Kernel(#[from] NftError),
    /// A socket cannot be shared among the workers.
    #[error("cannot share a socket: {0}")]
    Share(io::Error),
    /// The old process does not let this one take over.
    #[error("the old process does not let this one take over: {0}")]
    OldProcess(io::Error),
    /// An upgrade is under way.
    #[error("another process is taking over: it has read the configuration")]
    Upgrading,
    /// The kernel gives no thread or runtime.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

impl App {
    /// Binds all addresses and prepares all parts. `sources` is where the configuration came from, and where a reload
    /// reads it again; `inherited` holds what systemd or the old process passed on. An old process has frozen its
    /// buckets when this returns.
    ///
    /// # Errors
    /// See [`AppStartError`]; nothing is left bound.
    pub fn build(config: Config, sources: Sources, inherited: Inherited) -> Result<Self, AppStartError> {
        sockets::raise_descriptor_limit();
        let threads = worker_threads(&config.proxy);
        let Inherited { sockets: mut inherited_sockets, mut old_process } = inherited;
        let mut sockets = sockets::bind(&config, threads, &mut inherited_sockets)?;
        let mut admin_sockets = Vec::new();
        for address in &config.operators.admin {
            let bound = address.bind_private(&mut inherited_sockets)?;
            sockets.fds.add(&bound).map_err(AppStartError::Share)?;
            admin_sockets.push(bound);
        }
        let (clock, store) = (Clock::system(), config.store.clone());
        let now = clock.now();
        let config_status = ConfigStatus::new(&sources, now);
        let reload = Reload::new(sources, &config, config_status.clone(), now);
        let kernel = KernelOffload::prepare(&config, &mut sockets, &mut inherited_sockets)?;
        let drops = kernel.as_ref().map(KernelOffload::queue);
        let sandbox = Sandbox::enter(&config, kernel).map_err(AppStartError::Worker)?;
        allocator::return_memory();
        let parts = Parts::build(config, clock, sandbox, drops, old_process.as_mut())?;
        Ok(Self { parts, sockets, admin_sockets, reload, config_status, store, old_process })
    }

    /// The addresses where clients connect, with the ports that the kernel chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.addresses_of(Callers::Clients)
    }

    /// The addresses where proxies ask, likewise, with the name of each endpoint.
    #[must_use]
    pub fn endpoint_addresses(&self) -> Vec<(Arc<str>, ListenAddress)> {
        let config = self.parts.config.load();
        let of = |(number, endpoint): (usize, &Endpoint)| {
            let addresses = self.addresses_of(Callers::Askers(number)).into_iter();
            addresses.map(|address| (Arc::clone(&endpoint.name), address)).collect::<Vec<_>>()
        };
        config.endpoints.iter().enumerate().flat_map(of).collect()
    }

    fn addresses_of(&self, callers: Callers) -> Vec<ListenAddress> {
        let sockets = self.sockets.workers.first().into_iter().flatten();
        let sockets = sockets.filter(|socket| socket.callers == callers);
        let mut addresses: Vec<_> = sockets.map(|socket| socket.address().clone()).collect();
        addresses.dedup();
        addresses
    }

    /// The addresses where operators connect.
    #[must_use]
    pub fn admin_addresses(&self) -> Vec<ListenAddress> {
        self.admin_sockets.iter().map(|socket| socket.address().clone()).collect()
    }

    /// Serves until a signal ends it or `until` resolves, then drains. Meanwhile it reloads the configuration on
    /// SIGHUP, on request, and when a file that the configuration names changes.
    ///
    /// # Errors
    /// [`AppStartError::Worker`], and [`AppStartError::OldProcess`] if the old process is gone.
    pub async fn run(
        mut self,
        signals: Signals,
        until: impl Future<Output = ()>,
    ) -> Result<(), AppStartError> {
        let asked = self.endpoint_addresses().into_iter().map(|(_, address)| address).collect();
        let addresses = [self.addresses(), self.admin_addresses(), asked].concat();
        // Before anybody hears that this process serves: it would end at once, without draining.
        let (stop, stopped_by) = (signals::stop(), OnceLock::new());
        let (trigger, shutdown) = shutdown::channel();
        let drain = Arc::new(Notify::new());
        let control = self.control(&drain);
        let WorkerSockets { workers, fds } = self.sockets;
        if let Some(requests) = self.parts.sandbox.take_requests() {
            tokio::spawn(requests.serve());
        }
        tokio::spawn(startup_check::tell_of_store(self.store));
        let workers = self.parts.spawn_workers(workers, &shutdown)?;
        if let Some(mut old_process) = self.old_process.take() {
            old_process.confirm_serving().map_err(AppStartError::OldProcess)?;
        }
        let admin_tasks = self.parts.serve_admin(self.admin_sockets, &shutdown, control)?;
        service_manager::ready();
        let until = async {
            tokio::select! {
                signal = stop => { let _ = stopped_by.set(signal); }
                () = until => {}
                () = drain.notified() => {}
            }
        };
        self.parts.audit_begin(&self.config_status.hash()).await;
        self.parts.tell_of_sandbox();
        self.parts.tell_of_upstreams();
        let new_process = self.parts.run_background(&mut self.reload, signals, &trigger, fds, until).await;
        self.parts.draining.store(true, Ordering::Relaxed);
        match new_process {
            Some(process) => {
                // The new process already serves the admin sockets; callers must reach it alone.
                admin_tasks.iter().for_each(JoinHandle::abort);
                tracing::info!("process {process} has taken over");
                service_manager::notify(&[service_manager::State::MainPid(process)]);
            }
            None => service_manager::notify(&[service_manager::State::Stopping]),
        }
        let drain = self.parts.config.load().settings.drain;
        tracing::info!("draining: requests in flight may take {drain:?} to finish");
        let finish = self.parts.finish(&trigger, workers);
        let stop = self.parts.audit_stop(stopped_by.get().copied());
        let (finished, (), ()) = tokio::join!(finish, self.reload.sign_off(&self.parts), stop);
        if let Some(snapshotter) = self.parts.snapshotter.as_ref().filter(|_| new_process.is_none()) {
            snapshotter.write().await;
        }
        self.parts.audit_end().await;
        for task in admin_tasks {
            // The task ends with the stage; at this point a panic in it has no effect.
            let _ = task.await;
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
        drops: Option<Arc<DropQueue>>,
        old_process: Option<&mut OldProcess>,
    ) -> Result<Self, AppStartError> {
        let clients = ClientFormatter::new(config.log.clients, config.client.prefixes);
        let (metrics, audit_store) = (Arc::new(Metrics::new()), shared_audit::audit_store(&config));
        let observers = Observers::start(&config, &metrics, clients, &clock, drops.clone())?;
        let events = observers.events.clone();
        let tls = TlsState::new(&config.front.tls);
        let (tls_acceptor, admin_settings) = tls.acceptors(&config)?;
        let body_searches = start_searches(&config.proxy, &sandbox)?;
        // The last step that can fail: an old process is frozen from then on.
        let engine = snapshot::build_engine(config.policy, &config.store, &clock, &events, old_process)?;
        let (engine, settings) = (Arc::new(engine), Arc::new(config.proxy));
        metrics.watch(&engine);
        let fresh = |target| new_upstream(target, &settings, &sandbox, &clock, &events);
        let upstreams = upstreams::resolve(config.upstreams, &Vec::new(), fresh);
        upstreams::set_probes(&upstreams, &config.probes);
        upstreams.iter().flatten().for_each(|health| metrics.expect_upstream(health.name()));
        metrics.show_certificates(&config.front.tls.certificates);
        let runtime_config = Arc::new(ArcSwap::from_pointee(RuntimeConfig {
            rules: Arc::clone(&engine.rules()),
            client: config.client,
            refuse: Arc::new(config.refuse),
            endpoints: config.endpoints.clone(),
            settings: Arc::clone(&settings),
            tls_acceptor,
            redirect: config.front.redirect,
            validation_hosts: tls.validation_hosts(&config.front.tls),
            upstreams,
            probes: Arc::new(config.probes),
        }));
        if let Some(drops) = &drops {
            let (engine, config) = (Arc::downgrade(&engine), Arc::clone(&runtime_config));
            drops.connect(KernelSources { engine, config, events: events.clone() });
        }
        Ok(Self {
            drops,
            snapshotter: Snapshotter::of(&config.store, &engine, &sandbox),
            engine,
            config: runtime_config,
            serving: SharedByWorkers {
                connection_limit: Arc::new(connection_limit(&settings, &clock)),
                body_memory: BodyMemories::new(settings.body_memory),
                body_searches,
                open_attempts: config.endpoints.iter().map(|_| OpenAttempts::default()).collect(),
                tls,
                heartbeats: Vec::new(),
            },
            observers,
            draining: Arc::default(),
            readiness: Arc::default(),
            sandbox,
            admin_settings: Arc::new(ArcSwap::from_pointee(admin_settings)),
            audit_store,
        })
    }

    fn spawn_workers(
        &mut self,
        sockets: Vec<Vec<BoundSocket>>,
        shutdown: &Shutdown,
    ) -> Result<Vec<thread::JoinHandle<io::Result<()>>>, AppStartError> {
        self.serving.heartbeats = sockets.iter().map(|_| Arc::default()).collect();
        let spawn = |(number, (sockets, heartbeat)): (usize, (Vec<BoundSocket>, &Arc<Heartbeat>))| {
            let (connection_limit, shutdown, server) =
                (Arc::clone(&self.serving.connection_limit), shutdown.clone(), self.server_factory());
            let (thread, heartbeat) =
                (thread::Builder::new().name(format!("worker-{number}")), Arc::clone(heartbeat));
            let confinement = self.sandbox.worker();
            let run = move || {
                confinement.iter().for_each(Confinement::confine);
                worker::run(sockets, connection_limit, shutdown, heartbeat, server)
            };
            thread.spawn(run).map_err(AppStartError::Worker)
        };
        sockets.into_iter().zip(&self.serving.heartbeats).enumerate().map(spawn).collect()
    }

    /// Makes a worker's server, on the worker's own thread: workers do not share one.
    fn server_factory(&self) -> impl FnOnce() -> Server + Send + use<> {
        let (engine, config, events) =
            (Arc::clone(&self.engine), Arc::clone(&self.config), self.observers.events.clone());
        let (body_memory, body_searches) =
            (self.serving.body_memory.clone(), self.serving.body_searches.clone());
        let tracer = self.observers.otel.tracer;
        let open_attempts = Arc::clone(&self.serving.open_attempts);
        move || Server {
            engine,
            config: ConfigHandle::new(config),
            events,
            open_attempts,
            ids: RequestIds::default(),
            tracer,
            refusal_cache: RefusalCache::default(),
            refused_heads: RefusedHeads::default(),
            refusal_rate: RefusalRate::default(),
            unread_bodies: Cell::default(),
            body_memory,
            body_searches,
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
            signal = signals::stop() => {
                trigger.reach(Stage::Stopped);
                tokio::join!(&mut joined, self.audit_stop(Some(signal))).0
            }
        };
        trigger.reach(Stage::Stopped);
        self.engine.store().flush(REFUND_TIMEOUT).await;
        self.observers.logs.close();
        self.observers.otel.close();
        for worker in ended.map_err(|error| AppStartError::Worker(io::Error::other(error)))? {
            worker
                .map_err(|_| AppStartError::Worker(io::Error::other("a worker panicked")))?
                .map_err(AppStartError::Worker)?;
        }
        Ok(())
    }
}

/// The number of workers, and of threads for the searches that they leave to others.
fn worker_threads(settings: &ProxySettings) -> usize {
    match settings.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// Searches read what clients send, as workers do, and have their rights.
fn start_searches(settings: &ProxySettings, sandbox: &Sandbox) -> Result<BodySearches, AppStartError> {
    let confinement = sandbox.worker();
    let prepare = move || {
        // Without it searches compete with workers, and are bounded all the same.
        let _ = rustix::process::nice(LOWER_PRIORITY);
        confinement.iter().for_each(Confinement::confine);
    };
    BodySearches::start(worker_threads(settings), prepare).map_err(AppStartError::Worker)
}

fn new_upstream(
    target: UpstreamTarget,
    settings: &ProxySettings,
    sandbox: &Sandbox,
    clock: &Clock,
    events: &Events,
) -> Arc<Health> {
    let (connector, clock, events) = (sandbox.connector().clone(), clock.clone(), events.clone());
    Health::with_connector(connector, target, settings.upstream_max, clock, events)
}

fn connection_limit(settings: &ProxySettings, clock: &Clock) -> ConnectionLimit {
    let rate = settings.client_rate.map(new_connections);
    ConnectionLimit::new(settings.connections, settings.client_max, rate, clock)
}

fn new_connections(rate: ClientRate) -> ConnectionQuota {
    let replenish = Span::from_nanos(rate.period.as_nanos().div_ceil(u64::from(rate.count.max(1))).max(1));
    ConnectionQuota { replenish, burst: rate.burst }
}

/// Steps of priority of searches below workers: a tenth of their share of a processor that both need.
const LOWER_PRIORITY: i32 = 10;
/// How long a stopping gate waits until a shared store has taken the refunds.
const REFUND_TIMEOUT: Duration = Duration::from_secs(2);
