//! Reading the file again while the gate runs: at SIGHUP all of it, at other times the files that it names.
//!
//! One after the other, each to its end; what asks for another one meanwhile leads to one more. The surprising thing:
//! where a list has changed, the file is taken as it was read last, because nobody has said yet that what stands in it
//! by now is meant.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

use super::certificates::{acceptor, newly_expired};
use super::config_diff::{ConfigView, diff};
use super::file_watcher::FileWatcher;
use super::signals::SignalStream;
use super::status::ConfigStatus;
use super::{AppStartError, Parts, new_connections, service_manager, upstreams};
use crate::config::{Config, Diagnostic, RestartOnly, Sources, load_again};
use crate::engine::Rules;
use crate::event::Event;
use crate::net::tls;
use crate::observe::admin::Reloaded;
use crate::observe::messages;
use crate::observe::settings::LogSettings;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::Health;

/// The file that runs, and how the next one is found.
pub(super) struct Reload {
    sources: Sources,
    restart_only: RestartOnly,
    config_status: ConfigStatus,
    requests: ReloadSender,
    incoming: mpsc::Receiver<ReloadRequest>,
    log: LogSettings,
    tls: tls::TlsSettings,
    watcher: FileWatcher,
    /// Sites that somebody may still hold. Letting go of one may take a while, which no worker should spend.
    retired: Vec<Arc<RuntimeConfig>>,
}

/// How much is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadScope {
    File,
    ReferencedFiles,
}

impl Reload {
    /// For a gate that runs with this configuration from these sources.
    pub(super) fn new(sources: Sources, config: &Config, known: ConfigStatus) -> Self {
        let (asks, asked) = mpsc::channel(MAX_REQUESTS);
        Self {
            sources,
            requests: asks,
            incoming: asked,
            restart_only: RestartOnly::of(config),
            config_status: known,
            log: config.log.clone(),
            tls: config.tls.clone(),
            watcher: FileWatcher::new(config.files.clone()),
            retired: Vec::new(),
        }
    }

    /// Where to ask for the configuration to be read again.
    pub(super) fn sender(&self) -> ReloadSender {
        self.requests.clone()
    }

    /// Reads again whenever there is a reason to; never ends. Who [asks](Self::asks) is told what came of it.
    pub(super) async fn serve(&mut self, parts: &Parts, hang_up: &mut SignalStream) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = hang_up.next() => drop(self.reload(ReloadScope::File, parts).await),
                Some(tell) = self.incoming.recv() => drop(tell.send(self.reload(ReloadScope::File, parts).await)),
                _ = ticks.tick() => self.tick(parts).await,
            }
        }
    }

    async fn tick(&mut self, parts: &Parts) {
        parts.engine.release();
        self.retired.retain(|site| Arc::strong_count(site) > 1);
        if self.watcher.poll() {
            drop(self.reload(ReloadScope::ReferencedFiles, parts).await);
        }
    }

    async fn reload(&mut self, scope: ReloadScope, parts: &Parts) -> Reloaded {
        self.watcher.poll();
        service_manager::reloading();
        let (sources, fixed) = (self.sources.clone(), self.restart_only.clone());
        // On a thread of its own: a file may be on a disk that has gone, and signals have to be heard meanwhile.
        let read = parts.sandbox.broker().run(move || read(sources, scope, &fixed)).await;
        let read = read.unwrap_or_else(|error| LoadAttempt::broken(format!("reading broke off: {error}")));
        let changes = read.config.and_then(|(sources, config)| self.apply(sources, config, parts));
        let changed = changes.as_deref().unwrap_or_default();
        parts.events.emit(&Event::Reloaded { taken: changes.is_ok(), changes: changed });
        service_manager::ready();
        Reloaded { changes, diagnostics: read.diagnostics }
    }

    fn apply(&mut self, sources: Sources, config: Config, parts: &Parts) -> Result<String, String> {
        let (files, log, tls) = (config.files.clone(), config.log.clone(), config.tls.clone());
        let former = parts.config.load_full();
        if let Some(expired) = newly_expired(&self.tls, &tls, parts.engine.clock().now()) {
            return Err(log_error(format!("the new certificate of {} has expired", expired.name())));
        }
        parts.apply_config(config).map_err(|error| log_error(error.to_string()))?;
        if log.level != self.log.level {
            messages::set_level(log.level);
        }
        let changes = diff(
            ConfigView { config: &former, log: &self.log, tls: &self.tls },
            ConfigView { config: &parts.config.load(), log: &log, tls: &tls },
        );
        self.watcher.set_paths(files);
        self.config_status.replace(&sources, parts.engine.clock().now());
        self.retired.push(former);
        (self.sources, self.log, self.tls) = (sources, log, tls);
        Ok(changes)
    }
}

impl Parts {
    /// Puts a configuration in force: all of it, or nothing.
    fn apply_config(&self, mut config: Config) -> Result<(), AppStartError> {
        if self.engine.is_frozen() {
            return Err(AppStartError::Upgrading);
        }
        let old = self.config.load_full();
        let doorkeeper = acceptor(&config.tls, &self.sessions)?;
        if config.proxy.upstream_trust == old.settings.upstream_trust {
            // The very same, so that connections to upstreams are kept.
            config.proxy.upstream_trust.clone_from(&old.settings.upstream_trust);
        }
        let (most, clock) = (config.proxy.upstream_max, self.engine.clock());
        let fresh = |address| {
            Health::with_connector(
                self.sandbox.connector().clone(),
                address,
                most,
                clock.clone(),
                self.events.clone(),
            )
        };
        let upstreams = upstreams::resolve(config.upstreams, &old.upstreams, fresh);
        let expect = |health: &Health| self.metrics.expect_upstream(health.name());
        upstreams::added(&old.upstreams, &upstreams).for_each(expect);
        let (shown, prefixes) = (config.log.clients, config.client.prefixes);
        let settings = Arc::new(config.proxy);
        let (client, refuse, redirect) = (config.client, Arc::new(config.refuse), config.redirect);
        let publish = |rules: &Arc<Rules>| {
            let (rules, settings, upstreams) = (Arc::clone(rules), Arc::clone(&settings), upstreams.clone());
            let site = RuntimeConfig {
                rules,
                client,
                refuse,
                settings,
                tls_acceptor: doorkeeper,
                redirect,
                upstreams,
            };
            self.config.store(Arc::new(site));
        };
        let replaced = self.engine.replace_and(config.policy, publish);
        let (stay, go) =
            if replaced.is_ok() { (&upstreams, &old.upstreams) } else { (&old.upstreams, &upstreams) };
        upstreams::added(stay, go).for_each(|health| self.metrics.forget_upstream(health.name()));
        replaced?;
        upstreams.iter().flatten().for_each(|health| health.resize(most));
        let rate = settings.client_rate.map(new_connections);
        self.body_memory.resize(settings.body_memory);
        self.connection_limit.reconfigure(settings.connections, settings.client_max, rate);
        self.clients.change(shown, prefixes);
        self.metrics.show_certificates(&config.tls.certificates);
        Ok(())
    }
}

/// What was read.
struct LoadAttempt {
    /// The next configuration and where it came from, or why there is none.
    config: Result<(Sources, Config), String>,
    diagnostics: Vec<Value>,
}

impl LoadAttempt {
    fn broken(why: String) -> Self {
        Self { config: Err(log_error(why)), diagnostics: Vec::new() }
    }
}

/// The next configuration; what is wrong with it goes to the log, in the words that a start would have used.
fn read(sources: Sources, scope: ReloadScope, fixed: &RestartOnly) -> LoadAttempt {
    let read = match scope {
        ReloadScope::File => sources.read_again(),
        ReloadScope::ReferencedFiles => Ok(sources.clone()),
    };
    let sources = match read {
        Ok(sources) => sources,
        Err(error) => {
            return LoadAttempt::broken(format!("cannot read the configuration {}: {error}", sources.name));
        }
    };
    let loaded = load_again(&sources, fixed);
    let diagnostics = loaded.diagnostics.iter().map(log_diagnostic).collect();
    let mistakes = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let why = || format!("{} has {mistakes} mistake{}", sources.name, if mistakes == 1 { "" } else { "s" });
    let config = loaded.config.ok_or_else(why).map(|config| (sources.clone(), config));
    LoadAttempt { config, diagnostics }
}

/// To the log, for what no diagnostic says.
fn log_error(why: String) -> String {
    tracing::error!("{why}");
    why
}

/// To the log as people read it, and as JSON for whoever asked.
fn log_diagnostic(diagnostic: &Diagnostic) -> Value {
    let text = diagnostic.render(false);
    match diagnostic.is_error() {
        true => tracing::error!("{}", text.trim_end()),
        false => tracing::warn!("{}", text.trim_end()),
    }
    let mut value = diagnostic.to_json();
    value["text"] = text.trim_end().into();
    value
}

/// From somebody who wants to know what came of it.
type ReloadRequest = oneshot::Sender<Reloaded>;
type ReloadSender = mpsc::Sender<ReloadRequest>;

/// Who waits for the configuration to be read; further ones wait to be heard.
const MAX_REQUESTS: usize = 16;
const PERIOD: Duration = Duration::from_secs(2);
