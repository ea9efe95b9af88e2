//! The status of a running gate: `/api/v1/status`.
//!
//! It only reads. The hash of the configuration covers the file, those that it includes, and its overrides, so two gates with
//! the same hash got the same texts. Files that the configuration names by `@path` or `${...}` are not part of the hash.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::{App, limits_page};

use crate::config::Sources;
use crate::engine::{Engine, OpenAttempts};
use crate::net::connection_limit::ConnectionLimit;
use crate::net::listener::ListenAddress;
use crate::observe::admin::ControlApi;
use crate::observe::admin::pages::{
    AuditPart, EndpointPart, FilePart, ModePage, PolicyPart, RefusedPolicy, StatusPage, StorePart,
    UpstreamPart,
};
use crate::observe::audit::AuditLog;
use crate::observe::readiness::Readiness;
use crate::observe::timestamp::rfc3339;
use crate::policy::Mode;
use crate::proxy::endpoint::Endpoint;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::store::PolicyEntry;
use crate::time::Time;

/// Handles to all that the status shows.
struct Status {
    listen: Vec<ListenAddress>,
    endpoints: Vec<(Arc<str>, ListenAddress)>,
    open_attempts: Arc<[OpenAttempts]>,
    admin: Vec<ListenAddress>,
    workers: usize,
    store: String,
    sandbox: String,
    engine: Arc<Engine>,
    config: Arc<ArcSwap<RuntimeConfig>>,
    connection_limit: Arc<ConnectionLimit>,
    draining: Arc<AtomicBool>,
    readiness: Arc<Readiness>,
    since: Time,
    file: ConfigStatus,
    audit: Option<Arc<AuditLog>>,
}

/// The configuration in force; a reload replaces it.
#[derive(Clone)]
pub(super) struct ConfigStatus(Arc<Mutex<ConfigFile>>);

struct ConfigFile {
    name: String,
    hash: String,
    read: Time,
    /// The version and the hash of the policy of the store.
    policy: Option<(u64, String)>,
    /// One that this gate cannot take, and why.
    refused: Option<(u64, String)>,
}

impl ConfigStatus {
    /// For a configuration from these sources, read at this time.
    pub(super) fn new(sources: &Sources, now: Time) -> Self {
        Self(Arc::new(Mutex::new(ConfigFile::of(sources, now))))
    }

    /// A reload has put another configuration in force.
    pub(super) fn replace(&self, sources: &Sources, now: Time) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *file = ConfigFile { refused: file.refused.take(), ..ConfigFile::of(sources, now) };
    }

    /// A policy of the store cannot be taken, or there is none such.
    pub(super) fn refuse_policy(&self, refused: Option<(u64, String)>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).refused = refused;
    }

    /// The hash of the configuration in force.
    pub(super) fn hash(&self) -> String {
        self.file().hash
    }

    fn file(&self) -> FilePart {
        let ConfigFile { name, hash, read, .. } = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        FilePart { name: name.clone(), hash: hash.clone(), read: rfc3339(*read) }
    }

    /// `None` for a gate that has its policy from its file.
    fn policy(&self) -> Option<PolicyPart> {
        let ConfigFile { policy, refused, .. } = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, hash) = policy.clone()?;
        let refused = refused.clone().map(|(version, why)| RefusedPolicy { version, why });
        Some(PolicyPart { version, hash, refused })
    }
}

impl ConfigFile {
    fn of(sources: &Sources, now: Time) -> Self {
        let policy = sources.policy.as_ref();
        let policy = policy.map(|policy| (policy.version, PolicyEntry::hash_of(&policy.text)));
        Self { name: sources.name.clone(), hash: sources.hash(), read: now, policy, refused: None }
    }
}

impl App {
    /// The control API of this gate. `drain` is notified when an operator asks for a drain.
    pub(super) fn control(&self, drain: &Arc<Notify>) -> ControlApi {
        let parts = &self.parts;
        let status = Status {
            listen: self.addresses(),
            endpoints: self.endpoint_addresses(),
            open_attempts: Arc::clone(&parts.serving.open_attempts),
            admin: self.admin_addresses(),
            workers: self.sockets.workers.len(),
            store: self.store.address.to_string(),
            sandbox: parts.sandbox.summary().to_owned(),
            engine: Arc::clone(&parts.engine),
            config: Arc::clone(&parts.config),
            connection_limit: Arc::clone(&parts.serving.connection_limit),
            draining: Arc::clone(&parts.draining),
            readiness: Arc::clone(&parts.readiness),
            since: parts.engine.clock().now(),
            file: self.config_status.clone(),
            audit: parts.observers.audit.clone(),
        };
        ControlApi {
            commands: self.reload.sender(),
            drain: Arc::clone(drain),
            status: Box::new(move || status.page()),
            limits: Box::new(limits_page::of(&parts.engine, &parts.observers.metrics)),
            events: parts.observers.events.clone(),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

impl Status {
    /// "observe" if no limit in force refuses anything.
    fn mode(&self) -> &'static str {
        let rules = self.engine.rules();
        let mut live = rules.policy.limits.iter().filter(|limit| limit.mode != Mode::Off);
        let refuses = live.clone().any(|limit| limit.mode == Mode::Enforce);
        if live.next().is_some() && !refuses { "observe" } else { "enforce" }
    }

    /// Each decision endpoint with its addresses and the number of attempts without a report.
    fn endpoints(&self) -> Vec<EndpointPart> {
        let config = self.config.load();
        let of = |(endpoint, open): (&Endpoint, &OpenAttempts)| {
            let listen = self.endpoints.iter().filter(|(name, _)| *name == endpoint.name);
            EndpointPart {
                name: endpoint.name.to_string(),
                kind: endpoint.kind.name().to_owned(),
                listen: listen.map(|(_, address)| address.to_string()).collect(),
                open: open.len() as u64,
            }
        };
        config.endpoints.iter().zip(&*self.open_attempts).map(of).collect()
    }

    fn page(&self) -> StatusPage {
        let names =
            |addresses: &[ListenAddress]| addresses.iter().map(ListenAddress::to_string).collect::<Vec<_>>();
        let (now, config) = (self.engine.clock().now(), self.config.load());
        let mut upstreams: Vec<_> = config.upstreams.iter().flatten().collect();
        upstreams.sort_unstable_by_key(|health| health.name());
        upstreams.dedup_by_key(|health| health.name());
        let upstreams = upstreams.iter().map(|health| UpstreamPart {
            upstream: health.name().to_owned(),
            up: !health.is_down(),
            requests: health.busy() as u64,
            check_failure: health.check_failure(),
        });
        let is_draining = self.draining.load(Ordering::Relaxed);
        StatusPage {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            mode: self.mode().to_owned(),
            modes: self.engine.rules().temporary_modes().iter().map(ModePage::from).collect(),
            state: if is_draining { "draining" } else { "running" }.to_owned(),
            since: rfc3339(self.since),
            uptime: now.since(self.since).to_std().as_secs(),
            listen: names(&self.listen),
            endpoints: self.endpoints(),
            admin: names(&self.admin),
            workers: self.workers as u64,
            connections: self.connection_limit.active() as u64,
            sandbox: self.sandbox.clone(),
            store: StorePart { url: self.store.clone(), up: self.engine.store().is_up() },
            upstreams: upstreams.collect(),
            warnings: self.readiness.warnings().into_iter().map(|warning| warning.text.to_string()).collect(),
            attacks: self.engine.rules().alarmed().map(str::to_owned).collect(),
            config: self.file.file(),
            policy: self.file.policy(),
            audit: self.audit.as_ref().map(|audit| AuditPart {
                file: audit.path().display().to_string(),
                head: audit.head().to_string(),
                waiting: audit.waiting(),
            }),
        }
    }
}
