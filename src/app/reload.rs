//! Reloads while the gate runs: on SIGHUP the whole file and those that it includes, at other times the files that they
//! name, or the policy of the store. With `reload = "watch"` a change of the file itself, or of an included one, counts
//! like the signal.
//!
//! Reloads run one after the other; a request during a reload leads to one more. If only a named list changes, the
//! texts are taken as last read: an edit of the file itself waits for SIGHUP.

mod audited;
mod follow;
mod overrides;
mod report;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tollgate_grammar::diagnostic::DiagnosticRecord;

use self::follow::Follower;
use self::report::SelfReport;
use super::certificates::newly_expired;
use super::config_diff::{ConfigView, diff};
use super::dns::look_up_within;
use super::file_watcher::{FileWatcher, SettledFiles};
use super::list_fetches::ListFetches;
use super::name_lookups::{LookupAnswer, NameLookups};
use super::signals::SignalStream;
use super::status::ConfigStatus;
use super::ticks::next_tick;
use super::{AppStartError, Parts, new_connections, service_manager, upstreams};
use crate::config::{
    Config, Diagnostic, OwnFiles, RestartOnly, Sources, further_places, grouped_alike, load_again,
};
use crate::engine::{Overrides, Rules};
use crate::event::Event;
use crate::net::tls;
use crate::observe::admin::{GateCommand, ReloadError, Reloaded};
use crate::observe::messages;
use crate::observe::settings::LogSettings;
use crate::proxy::runtime_config::RuntimeConfig;
use crate::proxy::upstream::Health;
use crate::time::Time;

/// The sources and the settings of the running configuration, and the requests for a reload.
pub(super) struct Reload {
    sources: Sources,
    restart_only: RestartOnly,
    config_status: ConfigStatus,
    commands: mpsc::Sender<GateCommand>,
    incoming: mpsc::Receiver<GateCommand>,
    log: LogSettings,
    tls: tls::TlsSettings,
    watcher: FileWatcher,
    own_files: SettledFiles,
    follower: Follower,
    names: NameLookups,
    lists: ListFetches,
    self_report: SelfReport,
    /// Replaced configurations that a worker may still hold. Dropping one may take a while, which no worker should
    /// spend.
    retired: Vec<Arc<RuntimeConfig>>,
}

/// How much a reload reads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadScope {
    File,
    ReferencedFiles,
    /// Addresses that DNS names. What operators changed until the next reload stays: DNS is no operator.
    Names,
}

impl ReloadScope {
    /// What stays of operators' changes.
    fn kept(self) -> fn(&Overrides) -> Overrides {
        match self {
            Self::File | Self::ReferencedFiles => Overrides::after_reload,
            Self::Names => Overrides::clone,
        }
    }
}

impl Reload {
    /// For a gate that starts now, with this configuration from these sources.
    pub(super) fn new(sources: Sources, config: &Config, config_status: ConfigStatus, now: Time) -> Self {
        let (commands, incoming) = mpsc::channel(MAX_REQUESTS);
        Self {
            follower: Follower::new(&sources, config),
            names: NameLookups::new(config.process.dns.clone(), &sources.addresses, now),
            lists: ListFetches::new(config.process.lists.clone()),
            self_report: SelfReport::new(now),
            commands,
            incoming,
            restart_only: RestartOnly::of(config),
            config_status,
            log: config.log.clone(),
            tls: config.front.tls.clone(),
            watcher: FileWatcher::new(config.process.files.clone()),
            own_files: SettledFiles::new(config.process.is_watched.then(|| sources.own_files())),
            retired: Vec::new(),
            sources,
        }
    }

    /// Takes commands for this gate.
    pub(super) fn sender(&self) -> mpsc::Sender<GateCommand> {
        self.commands.clone()
    }

    /// Reloads at each signal, command and change of a file, and changes the rules for a while; never ends. A
    /// [command](Self::sender) gets its outcome.
    pub(super) async fn serve(&mut self, parts: &Parts, hang_up: &mut SignalStream) {
        self.show_policy(parts);
        loop {
            self.lists.start(parts.sandbox.broker());
            tokio::select! {
                () = hang_up.next() => self.reload_for("SIGHUP", parts).await,
                Some(command) = self.incoming.recv() => self.obey(command, parts).await,
                () = sleep(parts.until_next_change_ends()) => self.end_changes(parts),
                answers = self.names.answers(parts.sandbox.broker()) => self.take_names(answers, parts).await,
                () = self.follower.tick() => self.follow(parts).await,
                () = next_tick(PERIOD) => self.tick(parts).await,
            }
        }
    }

    async fn obey(&mut self, command: GateCommand, parts: &Parts) {
        // A caller that has gone does not hear the outcome.
        match command {
            GateCommand::Reload(reply) => drop(reply.send(self.reload(ReloadScope::File, parts).await)),
            GateCommand::Override { change, reply } => {
                drop(reply.send(self.override_rules(change, parts).await));
            }
        }
    }

    fn retire(&mut self, former: Option<Arc<RuntimeConfig>>) {
        self.retired.extend(former);
    }

    /// Takes over names of DNS that have other addresses now.
    async fn take_names(&mut self, answers: Vec<LookupAnswer>, parts: &Parts) {
        if let Some(addresses) = self.names.note(answers, parts.engine.clock().now()) {
            let before = std::mem::replace(&mut self.sources.addresses, addresses.clone());
            let reloaded = self.reload(ReloadScope::Names, parts).await;
            parts.audit_names(&before, &addresses, reloaded.changes.err()).await;
        }
    }

    async fn tick(&mut self, parts: &Parts) {
        parts.engine.release();
        self.retired.retain(|config| Arc::strong_count(config) > 1);
        if self.own_files.have_changed(parts.sandbox.broker()).await {
            self.reload_for("watch", parts).await;
        } else if self.watcher.poll() {
            self.reload_referenced(parts).await;
        }
    }

    async fn reload(&mut self, scope: ReloadScope, parts: &Parts) -> Reloaded {
        self.watcher.poll();
        service_manager::reloading();
        let (mut sources, restart_only) = (self.sources.clone(), self.restart_only.clone());
        if let (ReloadScope::File, Some(refused)) = (scope, self.follower.refused()) {
            sources.policy = Some(refused);
        }
        // On the broker: a file may be on a disk that hangs, and this thread still has to handle signals.
        let read = parts.sandbox.broker().run(move || read(sources, scope, &restart_only)).await;
        let read = read
            .unwrap_or_else(|error| LoadAttempt::broken(format!("cannot read the configuration: {error}")));
        let read = self.with_new_names(read, parts).await;
        let changes = read.config.and_then(|(sources, config)| self.apply(sources, config, scope, parts));
        let changed = changes.as_deref().unwrap_or_default();
        parts.observers.events.emit(&Event::Reloaded { taken: changes.is_ok(), changes: changed });
        if let (true, Some(files)) = (changes.is_err(), read.own_files) {
            self.own_files.watch_instead(files);
        }
        service_manager::ready();
        if scope == ReloadScope::File && changes.is_ok() {
            self.show_policy(parts);
        }
        Reloaded { changes, diagnostics: read.diagnostics }
    }

    /// The same attempt once the names that it brings are looked up: a request must not find an upstream without a target.
    async fn with_new_names(&self, read: LoadAttempt, parts: &Parts) -> LoadAttempt {
        let Ok((sources, config)) = &read.config else { return read };
        let new = self.names.unknown(&config.process.dns);
        if new.names.is_empty() && new.services.is_empty() {
            return read;
        }
        let broker = parts.sandbox.broker();
        let found = look_up_within(&new, LOOKUP_TIMEOUT, broker).await;
        let mut sources = sources.clone();
        sources.addresses.networks.extend(found.networks);
        sources.addresses.services.extend(found.services);
        let restart_only = self.restart_only.clone();
        let again =
            broker.run(move || load_again(&sources, &restart_only).config.map(|config| (sources, config)));
        match again.await {
            Ok(Some(config)) => LoadAttempt { config: Ok(config), ..read },
            // What the text names may have changed since; the next reload reads it.
            Ok(None) | Err(_) => read,
        }
    }

    fn apply(
        &mut self,
        sources: Sources,
        config: Config,
        scope: ReloadScope,
        parts: &Parts,
    ) -> Result<String, ReloadError> {
        let (files, log, tls) = (config.process.files.clone(), config.log.clone(), config.front.tls.clone());
        let (dns, lists) = (config.process.dns.clone(), config.process.lists.clone());
        let watched = config.process.is_watched.then(|| sources.own_files());
        let former = parts.config.load_full();
        if let Some(expired) = newly_expired(&self.tls, &tls, parts.engine.clock().now()) {
            return Err(log_error(format!("the new certificate of {} has expired", expired.name())));
        }
        parts.apply_config(config, scope).map_err(|error| log_error(error.to_string()))?;
        if log.level != self.log.level {
            messages::set_level(log.level);
        }
        let changes = diff(
            ConfigView {
                config: &former,
                log: &self.log,
                tls: &self.tls,
                is_watched: self.own_files.are_watched(),
            },
            ConfigView { config: &parts.config.load(), log: &log, tls: &tls, is_watched: watched.is_some() },
        );
        self.watcher.set_paths(files);
        self.names.set(dns, &sources.addresses, parts.engine.clock().now());
        self.lists.set(lists);
        self.own_files.set(watched);
        self.config_status.replace(&sources, parts.engine.clock().now());
        self.retire(Some(former));
        (self.sources, self.log, self.tls) = (sources, log, tls);
        self.has_taken_policy();
        if scope != ReloadScope::Names {
            self.follower.has_reloaded();
        }
        Ok(changes)
    }
}

impl Parts {
    /// Puts a configuration in force: all of it, or nothing.
    fn apply_config(&self, mut config: Config, scope: ReloadScope) -> Result<(), AppStartError> {
        if self.engine.is_frozen() {
            return Err(AppStartError::Upgrading);
        }
        let old = self.config.load_full();
        let (tls_acceptor, admin) = self.serving.tls.acceptors(&config)?;
        if config.proxy.upstream_trust == old.settings.upstream_trust {
            // The same allocation, by which idle connections to upstreams are recognised and kept.
            config.proxy.upstream_trust.clone_from(&old.settings.upstream_trust);
        }
        let (upstream_max, clock) = (config.proxy.upstream_max, self.engine.clock());
        let fresh = |address| {
            Health::with_connector(
                self.sandbox.connector().clone(),
                address,
                upstream_max,
                clock.clone(),
                self.observers.events.clone(),
            )
        };
        let upstreams = upstreams::resolve(config.upstreams, &old.upstreams, fresh);
        let expect = |health: &Health| self.observers.metrics.expect_upstream(health.name());
        upstreams::added(&old.upstreams, &upstreams).for_each(expect);
        let (shown, prefixes) = (config.log.clients, config.client.prefixes);
        let settings = Arc::new(config.proxy);
        let (client, refuse, redirect) = (config.client, Arc::new(config.refuse), config.front.redirect);
        let hosts = self.serving.tls.validation_hosts(&config.front.tls);
        let probes = Arc::new(config.probes);
        let publish = |rules: &Arc<Rules>| {
            let runtime_config = RuntimeConfig {
                rules: Arc::clone(rules),
                client,
                refuse,
                endpoints: config.endpoints,
                settings: Arc::clone(&settings),
                tls_acceptor,
                redirect,
                validation_hosts: hosts,
                upstreams: upstreams.clone(),
                probes: Arc::clone(&probes),
            };
            self.config.store(Arc::new(runtime_config));
        };
        let replaced = self.engine.replace_and(config.policy, scope.kept(), publish);
        let (stay, go) =
            if replaced.is_ok() { (&upstreams, &old.upstreams) } else { (&old.upstreams, &upstreams) };
        upstreams::added(stay, go).for_each(|health| self.observers.metrics.forget_upstream(health.name()));
        replaced?;
        upstreams.iter().flatten().for_each(|health| health.resize(upstream_max));
        upstreams::set_probes(&upstreams, &probes);
        let rate = settings.client_rate.map(new_connections);
        self.serving.body_memory.resize(settings.body_memory);
        self.serving.connection_limit.reconfigure(settings.connections, settings.client_max, rate);
        self.observers.clients.change(shown, prefixes);
        self.observers.metrics.show_certificates(&config.front.tls.certificates);
        self.serving.tls.set(config.front.tls);
        self.admin_settings.store(Arc::new(admin));
        Ok(())
    }
}

/// The outcome of reading the configuration.
struct LoadAttempt {
    /// The next configuration and its sources, or why there is none.
    config: Result<(Sources, Config), ReloadError>,
    /// What was read for it; `None` if nothing could be.
    own_files: Option<OwnFiles>,
    diagnostics: Vec<DiagnosticRecord>,
}

impl LoadAttempt {
    fn broken(why: String) -> Self {
        Self { config: Err(log_error(why)), own_files: None, diagnostics: Vec::new() }
    }
}

/// Reads the next configuration. Its mistakes go to the log, in the words that a start would use.
fn read(sources: Sources, scope: ReloadScope, restart_only: &RestartOnly) -> LoadAttempt {
    let read = match scope {
        ReloadScope::File => sources.read_again(),
        ReloadScope::ReferencedFiles | ReloadScope::Names => Ok(sources.clone()),
    };
    let sources = match read {
        Ok(sources) => sources,
        Err(error) => {
            return LoadAttempt::broken(format!("cannot read the configuration {}: {error}", sources.name));
        }
    };
    check(sources.with_included(), restart_only)
}

/// Checks the next configuration. Its mistakes go to the log as well.
fn check(sources: Sources, restart_only: &RestartOnly) -> LoadAttempt {
    let loaded = load_again(&sources, restart_only);
    log_all(&loaded.diagnostics);
    let diagnostics = loaded.diagnostics.iter().map(Diagnostic::record_with_text).collect();
    let mistakes = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let why = || format!("{} has {mistakes} mistake{}", sources.name, if mistakes == 1 { "" } else { "s" });
    let (own_files, config) = (sources.own_files(), loaded.config.ok_or_else(|| ReloadError(why())));
    LoadAttempt { config: config.map(|config| (sources, config)), own_files: Some(own_files), diagnostics }
}

/// Logs an error that no diagnostic covers.
fn log_error(why: String) -> ReloadError {
    tracing::error!("{why}");
    ReloadError(why)
}

/// Logs them as people read them, those that are alike once.
pub(super) fn log_all(diagnostics: &[Diagnostic]) {
    grouped_alike(diagnostics).iter().for_each(|alike| log_alike(alike));
}

/// Logs the first of these diagnostics as people read it, and where the others are.
fn log_alike(alike: &[&Diagnostic]) {
    let Some(first) = alike.first() else { return };
    let mut text = first.render(false).trim_end().to_owned();
    text.extend(further_places(alike).iter().flat_map(|others| ["\n\n", others]));
    match first.is_error() {
        true => tracing::error!("{text}"),
        false => tracing::warn!("{text}"),
    }
}

/// For the names that a reload brings.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Further requests wait to be queued.
const MAX_REQUESTS: usize = 16;
const PERIOD: Duration = Duration::from_secs(2);
