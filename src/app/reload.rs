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

use super::certificates::{doorkeeper, newly_expired};
use super::changes::{Running, between};
use super::signals::Heard;
use super::status::Known;
use super::watch::Watch;
use super::{Parts, StartError, new_connections, service_manager, upstreams};
use crate::config::{Config, Diagnostic, Fixed, Sources, load_again};
use crate::engine::Rules;
use crate::event::Event;
use crate::net::tls;
use crate::observe::admin::Reloaded;
use crate::observe::messages;
use crate::observe::settings::LogSettings;
use crate::proxy::site::Site;
use crate::proxy::upstream::Health;

/// The file that runs, and how the next one is found.
pub(super) struct Reload {
    sources: Sources,
    fixed: Fixed,
    known: Known,
    asks: Asks,
    asked: mpsc::Receiver<Ask>,
    log: LogSettings,
    tls: tls::Settings,
    watch: Watch,
    /// Sites that somebody may still hold. Letting go of one may take a while, which no worker should spend.
    retired: Vec<Arc<Site>>,
}

/// How much is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    File,
    FilesThatItNames,
}

impl Reload {
    /// For a gate that runs with this configuration from these sources.
    pub(super) fn new(sources: Sources, config: &Config, known: Known) -> Self {
        let (asks, asked) = mpsc::channel(MOST_ASKS);
        Self {
            sources,
            asks,
            asked,
            fixed: Fixed::of(config),
            known,
            log: config.log.clone(),
            tls: config.tls.clone(),
            watch: Watch::over(config.files.clone()),
            retired: Vec::new(),
        }
    }

    /// Where to ask for the configuration to be read again.
    pub(super) fn asks(&self) -> Asks {
        self.asks.clone()
    }

    /// Reads again whenever there is a reason to; never ends. Who [asks](Self::asks) is told what came of it.
    pub(super) async fn serve(&mut self, parts: &Parts, hang_up: &mut Heard) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = hang_up.next() => drop(self.again(Scope::File, parts).await),
                Some(tell) = self.asked.recv() => drop(tell.send(self.again(Scope::File, parts).await)),
                _ = ticks.tick() => self.look_around(parts).await,
            }
        }
    }

    async fn look_around(&mut self, parts: &Parts) {
        parts.engine.release();
        self.retired.retain(|site| Arc::strong_count(site) > 1);
        if self.watch.look() {
            drop(self.again(Scope::FilesThatItNames, parts).await);
        }
    }

    async fn again(&mut self, scope: Scope, parts: &Parts) -> Reloaded {
        self.watch.look();
        service_manager::reloading();
        let (sources, fixed) = (self.sources.clone(), self.fixed.clone());
        // On a thread of its own: a file may be on a disk that has gone, and signals have to be heard meanwhile.
        let read = parts.sandbox.broker().run(move || read(sources, scope, &fixed)).await;
        let read = read.unwrap_or_else(|error| Read::broken(format!("reading broke off: {error}")));
        let changes = read.config.and_then(|(sources, config)| self.take_over(sources, config, parts));
        let changed = changes.as_deref().unwrap_or_default();
        parts.events.emit(&Event::Reloaded { taken: changes.is_ok(), changes: changed });
        service_manager::ready();
        Reloaded { changes, diagnostics: read.diagnostics }
    }

    fn take_over(&mut self, sources: Sources, config: Config, parts: &Parts) -> Result<String, String> {
        let (files, log, tls) = (config.files.clone(), config.log.clone(), config.tls.clone());
        let former = parts.site.load_full();
        if let Some(expired) = newly_expired(&self.tls, &tls, parts.engine.clock().now()) {
            return Err(said(format!("the new certificate of {} has expired", expired.name())));
        }
        parts.take_over(config).map_err(|error| said(error.to_string()))?;
        if log.level != self.log.level {
            messages::set_level(log.level);
        }
        let changes = between(
            Running { site: &former, log: &self.log, tls: &self.tls },
            Running { site: &parts.site.load(), log: &log, tls: &tls },
        );
        self.watch.turn_to(files);
        self.known.turn_to(&sources, parts.engine.clock().now());
        self.retired.push(former);
        (self.sources, self.log, self.tls) = (sources, log, tls);
        Ok(changes)
    }
}

impl Parts {
    /// Puts a configuration in force: all of it, or nothing.
    fn take_over(&self, mut config: Config) -> Result<(), StartError> {
        if self.engine.is_sealed() {
            return Err(StartError::Leaving);
        }
        let old = self.site.load_full();
        let doorkeeper = doorkeeper(&config.tls, &self.sessions)?;
        if config.proxy.upstream_trust == old.settings.upstream_trust {
            // The very same, so that connections to upstreams are kept.
            config.proxy.upstream_trust.clone_from(&old.settings.upstream_trust);
        }
        let (most, clock) = (config.proxy.upstream_max, self.engine.clock());
        let fresh = |address| {
            Health::reached_by(
                self.sandbox.connector().clone(),
                address,
                most,
                clock.clone(),
                self.events.clone(),
            )
        };
        let upstreams = upstreams::of(config.upstreams, &old.upstreams, fresh);
        let expect = |health: &Health| self.metrics.expect_upstream(health.name());
        upstreams::beyond(&old.upstreams, &upstreams).for_each(expect);
        let (shown, prefixes) = (config.log.clients, config.client.prefixes);
        let settings = Arc::new(config.proxy);
        let (client, refuse, redirect) = (config.client, Arc::new(config.refuse), config.redirect);
        let publish = |rules: &Arc<Rules>| {
            let (rules, settings, upstreams) = (Arc::clone(rules), Arc::clone(&settings), upstreams.clone());
            let site = Site { rules, client, refuse, settings, doorkeeper, redirect, upstreams };
            self.site.store(Arc::new(site));
        };
        let replaced = self.engine.replace_and(config.policy, publish);
        let (stay, go) =
            if replaced.is_ok() { (&upstreams, &old.upstreams) } else { (&old.upstreams, &upstreams) };
        upstreams::beyond(stay, go).for_each(|health| self.metrics.forget_upstream(health.name()));
        replaced?;
        upstreams.iter().flatten().for_each(|health| health.resize(most));
        let rate = settings.client_rate.map(new_connections);
        self.body_memory.resize(settings.body_memory);
        self.guard.change(settings.connections, settings.client_max, rate);
        self.clients.change(shown, prefixes);
        self.metrics.show_certificates(&config.tls.certificates);
        Ok(())
    }
}

/// What was read.
struct Read {
    /// The next configuration and where it came from, or why there is none.
    config: Result<(Sources, Config), String>,
    diagnostics: Vec<Value>,
}

impl Read {
    fn broken(why: String) -> Self {
        Self { config: Err(said(why)), diagnostics: Vec::new() }
    }
}

/// The next configuration; what is wrong with it goes to the log, in the words that a start would have used.
fn read(sources: Sources, scope: Scope, fixed: &Fixed) -> Read {
    let read = match scope {
        Scope::File => sources.read_again(),
        Scope::FilesThatItNames => Ok(sources.clone()),
    };
    let sources = match read {
        Ok(sources) => sources,
        Err(error) => {
            return Read::broken(format!("cannot read the configuration {}: {error}", sources.name));
        }
    };
    let loaded = load_again(&sources, fixed);
    let diagnostics = loaded.diagnostics.iter().map(report).collect();
    let mistakes = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let why = || format!("{} has {mistakes} mistake{}", sources.name, if mistakes == 1 { "" } else { "s" });
    let config = loaded.config.ok_or_else(why).map(|config| (sources.clone(), config));
    Read { config, diagnostics }
}

/// To the log, for what no diagnostic says.
fn said(why: String) -> String {
    tracing::error!("{why}");
    why
}

/// To the log as people read it, and as JSON for whoever asked.
fn report(diagnostic: &Diagnostic) -> Value {
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
type Ask = oneshot::Sender<Reloaded>;
type Asks = mpsc::Sender<Ask>;

/// Who waits for the configuration to be read; further ones wait to be heard.
const MOST_ASKS: usize = 16;
const PERIOD: Duration = Duration::from_secs(2);
