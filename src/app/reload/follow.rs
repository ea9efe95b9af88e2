//! Follows the store: takes over a new policy as a reload does. The changes of operators are left to `overrides`.
//!
//! A policy that this gate cannot take leaves the one in force; the log, a metric and the status say so, and a reload
//! tries it again. The last one that was taken is kept in a file, by which the gate starts while the store is away.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::{Interval, MissedTickBehavior, interval};
use tollgate_grammar::diagnostic::DiagnosticRecord;

use super::super::fleet::{FleetLink, PERIOD};
use super::super::{Parts, service_manager};
use super::{LoadAttempt, Reload, ReloadScope, check};
use crate::config::{Config, Sources, StoreSettings, StoredPolicy};
use crate::event::Event;
use crate::observe::admin::ReloadError;
use crate::store::snapshot::replace_file;
use crate::store::{FleetError, FleetHead, PolicyEntry, PolicyId, PolicyRefusal};

/// What this gate knows of the shared records.
pub(super) struct Follower {
    store: StoreSettings,
    ticks: Interval,
    link: Option<Arc<FleetLink>>,
    /// The last head that was there.
    pub(super) seen: FleetHead,
    /// How many times in a row there was none after that.
    lost: u32,
    /// Whether all is sealed with the newest secret.
    is_resealed: bool,
    policy: Option<FollowedPolicy>,
    /// Whether changes that last until a reload have ended here, but not in the store.
    pub(super) has_reloaded: bool,
    /// The last failure, which is logged once.
    failure: Option<FleetError>,
}

/// The policy of a gate that has it from the store.
struct FollowedPolicy {
    in_force: PolicyId,
    /// The newest that was tried.
    tried: PolicyId,
    /// That one, if this gate could not take it, and why.
    refused: Option<(StoredPolicy, String)>,
    copy: PathBuf,
    is_copied: bool,
}

impl Follower {
    pub(super) fn new(sources: &Sources, config: &Config) -> Self {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let followed = |copy: &PathBuf| {
            let in_force = id_of(&sources.policy.clone().unwrap_or_default());
            let tried = in_force.clone();
            FollowedPolicy { in_force, tried, refused: None, copy: copy.clone(), is_copied: false }
        };
        Self {
            store: config.store.clone(),
            ticks,
            link: None,
            seen: FleetHead::default(),
            lost: 0,
            is_resealed: false,
            policy: config.process.policy_copy.as_ref().map(followed),
            has_reloaded: false,
            failure: None,
        }
    }

    /// When it is time to ask; never where nothing is shared.
    pub(super) async fn tick(&mut self) {
        if !self.store.address.is_shared() {
            return std::future::pending().await;
        }
        self.ticks.tick().await;
    }

    /// The policy that a reload has to try: one that could not be taken before.
    pub(super) fn refused(&self) -> Option<StoredPolicy> {
        Some(self.policy.as_ref()?.refused.as_ref()?.0.clone())
    }

    /// A reload has succeeded.
    pub(super) fn has_reloaded(&mut self) {
        self.has_reloaded = self.link.is_some();
    }

    /// The policy in force if this gate follows the store, and the newest one if it could not be taken.
    pub(super) fn tried(&self) -> (Option<PolicyId>, Option<PolicyRefusal>) {
        let Some(FollowedPolicy { in_force, tried, refused, .. }) = &self.policy else { return (None, None) };
        let refused = refused.as_ref();
        let refused = refused.map(|(_, why)| PolicyRefusal { policy: tried.clone(), why: why.clone() });
        (Some(in_force.clone()), refused)
    }

    pub(super) fn store(&self) -> &StoreSettings {
        &self.store
    }

    pub(super) fn link(&mut self, parts: &Parts) -> Option<Arc<FleetLink>> {
        if self.link.is_none() {
            self.link = FleetLink::of(parts, &self.store).map(Arc::new);
        }
        self.link.clone()
    }

    /// Whether the store has lost what was there.
    fn misses(&self, head: &FleetHead) -> bool {
        head.is_empty() && !self.seen.is_empty()
    }

    /// The newest policy, if this gate follows policies and has not tried this one yet.
    fn untried<'h>(&self, head: &'h FleetHead) -> Option<&'h PolicyEntry> {
        let policy = self.policy.as_ref()?;
        head.newest().filter(|entry| entry.id() != policy.tried)
    }

    fn tell(&mut self, error: FleetError) {
        // The store itself says that it is away.
        let is_told = matches!(error, FleetError::Store(_)) || self.failure.as_ref() == Some(&error);
        if !is_told {
            tracing::error!("the store ({}) {error}: this gate goes on as it is", self.store.address);
        }
        self.failure = Some(error);
    }
}

impl Reload {
    /// Asks the store what is new, takes it over, and reports what came of it.
    pub(super) async fn follow(&mut self, parts: &Parts) {
        if parts.engine.is_frozen() {
            return;
        }
        self.keep_copy(parts).await;
        let Some(link) = self.follower.link(parts) else { return };
        let asked = match self.ask(&link, parts).await {
            Err(error @ FleetError::Store(_)) => Err(error),
            asked => asked.and(self.report(&link, parts).await),
        };
        match asked {
            Ok(()) => self.follower.failure = None,
            Err(error) => self.follower.tell(error),
        }
    }

    async fn ask(&mut self, link: &FleetLink, parts: &Parts) -> Result<(), FleetError> {
        let head = link.head().await?;
        if self.follower.misses(&head) {
            return self.restore(link, parts).await;
        }
        self.follower.lost = 0;
        if !self.follower.is_resealed {
            link.reseal().await?;
            self.follower.is_resealed = true;
        }
        if let Some(entry) = self.follower.untried(&head) {
            let text = link.policy(entry.clone()).await?;
            self.take_policy(entry, text, parts).await;
        }
        if self.follower.has_reloaded {
            self.end_with_reload(link, parts).await;
        } else {
            self.take_changes(link, head, parts).await?;
        }
        Ok(())
    }

    /// No gate removes the head: the store has lost it. What is in force here stays, and is written back. Gates that have the
    /// text of the policy come first.
    async fn restore(&mut self, link: &FleetLink, parts: &Parts) -> Result<(), FleetError> {
        if self.follower.lost == 0 {
            tracing::warn!(
                "the store ({}) has lost the policy and the temporary changes of operators: this gate goes on as it is, \
                 and writes back what it knows",
                self.follower.store.address
            );
        }
        let seen = &self.follower.seen;
        let newest = seen.newest().cloned().zip(self.sources.policy.clone());
        let policy = newest.filter(|(entry, stored)| entry.hash == PolicyEntry::hash_of(&stored.text));
        let has_all = policy.is_some() || seen.newest().is_none();
        self.follower.lost += 1;
        if !has_all && self.follower.lost <= TURNS {
            return Ok(());
        }
        let policy = policy.map(|(entry, stored)| (entry, stored.text));
        link.restore(seen.clone(), policy, parts.changes()).await
    }

    /// Writes back what the store has lost, if it has. Whether that succeeds, the next request tells.
    pub(super) async fn restore_if_lost(&mut self, link: &FleetLink, parts: &Parts) {
        if link.head().await.is_ok_and(|head| self.follower.misses(&head)) {
            let _ = self.restore(link, parts).await;
        }
    }

    async fn take_policy(&mut self, entry: &PolicyEntry, text: String, parts: &Parts) {
        let before = self.sources.policy.as_ref().map(|policy| policy.version);
        let stored = StoredPolicy { version: entry.version, text };
        let sources = Sources { policy: Some(stored.clone()), ..self.sources.clone() };
        service_manager::reloading();
        let restart_only = self.restart_only.clone();
        let read = parts.sandbox.broker().run(move || check(sources, &restart_only)).await;
        let read =
            read.unwrap_or_else(|error| LoadAttempt::broken(format!("cannot read the policy: {error}")));
        let read = self.with_new_names(read, parts).await;
        let changes =
            read.config.and_then(|(sources, config)| self.apply(sources, config, ReloadScope::File, parts));
        let changed = changes.as_deref().unwrap_or_default();
        parts.observers.events.emit(&Event::Reloaded { taken: changes.is_ok(), changes: changed });
        service_manager::ready();
        if let Some(policy) = &mut self.follower.policy {
            policy.tried = entry.id();
            let why =
                |error| first_mistake(&read.diagnostics).unwrap_or_else(|| ReloadError::to_string(error));
            policy.refused = changes.as_ref().err().map(|error| (stored, why(error)));
        }
        parts.audit_policy(entry, before, changes.as_ref().err()).await;
        match &changes {
            Ok(_) => tracing::info!("policy {} of {} is in force", entry.version, entry.by),
            Err(why) => tracing::error!(
                "policy {} of {} is refused, the old one stays: {why}",
                entry.version,
                entry.by
            ),
        }
        self.show_policy(parts);
        self.keep_copy(parts).await;
    }

    /// Tells the metrics and the status which policy is in force, and which one is refused.
    pub(super) fn show_policy(&mut self, parts: &Parts) {
        let refused = self.follower.policy.as_ref().and_then(|policy| policy.refused.as_ref());
        let refused = refused.map(|(policy, why)| (policy.version, why.clone()));
        let version = self.sources.policy.as_ref().map_or(0, |policy| policy.version);
        parts.observers.metrics.show_policy(version, refused.is_some());
        self.config_status.refuse_policy(refused);
    }

    /// A policy is in force, from the store or from a reload.
    pub(super) fn has_taken_policy(&mut self) {
        if let (Some(policy), Some(taken)) = (&mut self.follower.policy, &self.sources.policy) {
            policy.refused.take_if(|(refused, _)| refused == taken);
            policy.in_force = id_of(taken);
            policy.is_copied = false;
        }
    }

    /// Writes the policy in force to its file, once.
    async fn keep_copy(&mut self, parts: &Parts) {
        let Some(policy) = self.follower.policy.as_mut().filter(|policy| !policy.is_copied) else { return };
        policy.is_copied = true;
        let Some(stored) = &self.sources.policy else { return };
        let (path, text) = (policy.copy.clone(), stored.to_copy());
        let shown = path.display().to_string();
        let written = parts.sandbox.broker().run(move || replace_file(&path, text.as_bytes())).await;
        if let Err(error) = written.and_then(|written| written) {
            tracing::warn!(
                "the policy cannot be kept in {shown}: {error}: without the store this gate cannot start"
            );
        }
    }
}

fn id_of(policy: &StoredPolicy) -> PolicyId {
    PolicyId { version: policy.version, hash: PolicyEntry::hash_of(&policy.text) }
}

/// As in `policy 2:7:12: cannot read list.txt: no such file (and 2 more mistakes)`.
fn first_mistake(diagnostics: &[DiagnosticRecord]) -> Option<String> {
    let mut mistakes = diagnostics.iter().filter(|diagnostic| diagnostic.severity == "error");
    let DiagnosticRecord { file, line, column, message, .. } = mistakes.next()?;
    let place = line.zip(*column).map(|(line, column)| format!("{line}:{column}:")).unwrap_or_default();
    let more = match mistakes.count() {
        0 => String::new(),
        1 => " (and 1 more mistake)".to_owned(),
        count => format!(" (and {count} more mistakes)"),
    };
    Some(format!("{file}:{place} {message}{more}"))
}

/// So many times a gate without the text of the policy lets other gates write back what was lost: two seconds.
const TURNS: u32 = 4;
