//! Reading the file again while the gate runs: at SIGHUP all of it, at other times the files that it names.
//!
//! One after the other, each to its end; what asks for another one meanwhile leads to one more. The surprising thing:
//! where a list has changed, the file is taken as it was read last, because nobody has said yet that what stands in it
//! by now is meant.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::changes::{Running, between};
use super::signals::Heard;
use super::watch::Watch;
use super::{Parts, new_connections, upstreams};
use crate::config::{Config, Diagnostic, Fixed, Sources, load_again};
use crate::engine::Rules;
use crate::event::Event;
use crate::observe::messages;
use crate::observe::settings::LogSettings;
use crate::proxy::site::Site;
use crate::proxy::upstream::Health;
use crate::store::memory::TooLarge;

/// The file that runs, and how the next one is found.
pub(super) struct Reload {
    sources: Sources,
    fixed: Fixed,
    log: LogSettings,
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
    pub(super) fn new(sources: Sources, config: &Config) -> Self {
        Self {
            sources,
            fixed: Fixed::of(config),
            log: config.log.clone(),
            watch: Watch::over(config.files.clone()),
            retired: Vec::new(),
        }
    }

    /// Reads again whenever there is a reason to; never ends.
    pub(super) async fn serve(mut self, parts: &Parts, hang_up: &mut Heard) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = hang_up.next() => self.again(Scope::File, parts).await,
                _ = ticks.tick() => self.look_around(parts).await,
            }
        }
    }

    async fn look_around(&mut self, parts: &Parts) {
        parts.engine.release();
        self.retired.retain(|site| Arc::strong_count(site) > 1);
        if self.watch.look() {
            self.again(Scope::FilesThatItNames, parts).await;
        }
    }

    async fn again(&mut self, scope: Scope, parts: &Parts) {
        self.watch.look();
        let (sources, fixed) = (self.sources.clone(), self.fixed.clone());
        // On a thread of its own: a file may be on a disk that has gone, and signals have to be heard meanwhile.
        let read = tokio::task::spawn_blocking(move || read(sources, scope, &fixed)).await;
        let read = read.inspect_err(|error| tracing::error!("reading the configuration broke off: {error}"));
        let changes =
            read.ok().flatten().and_then(|(sources, config)| self.take_over(sources, config, parts));
        let (taken, changes) = (changes.is_some(), changes.unwrap_or_default());
        parts.events.emit(&Event::Reloaded { taken, changes: &changes });
    }

    fn take_over(&mut self, sources: Sources, config: Config, parts: &Parts) -> Option<String> {
        let (files, log) = (config.files.clone(), config.log.clone());
        let former = parts.site.load_full();
        if let Err(error) = parts.take_over(config) {
            tracing::error!("store.capacity: {error}");
            return None;
        }
        if log.level != self.log.level {
            messages::set_level(log.level);
        }
        let changes = between(
            Running { site: &former, log: &self.log },
            Running { site: &parts.site.load(), log: &log },
        );
        self.watch.turn_to(files);
        self.retired.push(former);
        (self.sources, self.log) = (sources, log);
        Some(changes)
    }
}

impl Parts {
    /// Puts a configuration in force: all of it, or nothing.
    fn take_over(&self, config: Config) -> Result<(), TooLarge> {
        let old = self.site.load_full();
        let (most, clock) = (config.proxy.upstream_max, self.engine.clock());
        let fresh = |address| Health::new(address, most, clock.clone(), self.events.clone());
        let upstreams = upstreams::of(config.upstreams, &old.upstreams, fresh);
        let expect = |health: &Health| self.metrics.expect_upstream(health.name());
        upstreams::beyond(&old.upstreams, &upstreams).for_each(expect);
        let (shown, prefixes) = (config.log.clients, config.client.prefixes);
        let settings = Arc::new(config.proxy);
        let (client, refuse) = (config.client, Arc::new(config.refuse));
        let publish = |rules: &Arc<Rules>| {
            let (rules, settings, upstreams) = (Arc::clone(rules), Arc::clone(&settings), upstreams.clone());
            self.site.store(Arc::new(Site { rules, client, refuse, settings, upstreams }));
        };
        let replaced = self.engine.replace_and(config.policy, publish);
        let (stay, go) =
            if replaced.is_ok() { (&upstreams, &old.upstreams) } else { (&old.upstreams, &upstreams) };
        upstreams::beyond(stay, go).for_each(|health| self.metrics.forget_upstream(health.name()));
        replaced?;
        upstreams.iter().flatten().for_each(|health| health.resize(most));
        let rate = settings.client_rate.map(new_connections);
        self.guard.change(settings.connections, settings.client_max, rate);
        self.clients.change(shown, prefixes);
        Ok(())
    }
}

/// The next configuration; what is wrong with it goes to the log, in the words that a start would have used.
fn read(sources: Sources, scope: Scope, fixed: &Fixed) -> Option<(Sources, Config)> {
    let read = match scope {
        Scope::File => sources.read_again(),
        Scope::FilesThatItNames => io::Result::Ok(sources.clone()),
    };
    let sources = read
        .map_err(|error| tracing::error!("cannot read the configuration {}: {error}", sources.name))
        .ok()?;
    let loaded = load_again(&sources, fixed);
    loaded.diagnostics.iter().for_each(report);
    Some((sources, loaded.config?))
}

fn report(diagnostic: &Diagnostic) {
    let text = diagnostic.render(false);
    match diagnostic.is_error() {
        true => tracing::error!("{}", text.trim_end()),
        false => tracing::warn!("{}", text.trim_end()),
    }
}

const PERIOD: Duration = Duration::from_secs(2);
