//! Temporary changes of the rules, put in force as a reload puts new rules in force.
//!
//! They come one after the other with the reloads, so that neither undoes the other.

use std::sync::Arc;
use std::time::Duration;

use super::super::Parts;
use super::super::fleet::FleetLink;
use super::Reload;
use crate::engine::{OverrideChange, OverrideError, Overrides, Rules};
use crate::proxy::runtime_config::RuntimeConfig;
use crate::store::{FleetError, FleetHead};

impl Reload {
    /// Makes a change on all gates, or on this one if it is alone.
    pub(super) async fn override_rules(
        &mut self,
        change: OverrideChange,
        parts: &Parts,
    ) -> Result<(), OverrideError> {
        let Some(link) = self.follower.link(parts) else {
            let former = parts.override_rules(&change)?;
            self.retire(Some(former));
            return Ok(());
        };
        // Else the change would be the only one.
        self.restore_if_lost(&link, parts).await;
        let (head, overrides) = link.change(parts, change).await?;
        self.follower.seen = head;
        self.put_in_force(overrides, parts);
        Ok(())
    }

    /// Takes over what operators changed at other gates.
    pub(super) async fn take_changes(
        &mut self,
        link: &FleetLink,
        head: FleetHead,
        parts: &Parts,
    ) -> Result<(), FleetError> {
        if head.has_same_overrides(&self.follower.seen) {
            self.follower.seen = head;
            return Ok(());
        }
        let overrides = link.overrides(&head).await?;
        self.follower.seen = head;
        self.put_in_force(overrides, parts);
        Ok(())
    }

    /// Other gates need not hear of it: each ends these changes when it reloads, or finds them gone.
    pub(super) async fn end_with_reload(&mut self, link: &FleetLink, parts: &Parts) {
        if let Ok((head, overrides)) = link.end_with_reload().await {
            (self.follower.seen, self.follower.has_reloaded) = (head, false);
            self.put_in_force(overrides, parts);
        }
    }

    /// Ends what is over.
    pub(super) fn end_changes(&mut self, parts: &Parts) {
        self.retire(parts.end_overrides());
    }

    fn put_in_force(&mut self, overrides: Overrides, parts: &Parts) {
        match parts.set_overrides(overrides) {
            Ok(former) => self.retire(former),
            Err(error) => {
                tracing::error!("changes that operators made at other gates are not made here: {error}")
            }
        }
    }
}

impl FleetLink {
    /// The changes of operators.
    async fn overrides(&self, head: &FleetHead) -> Result<Overrides, FleetError> {
        let head = head.clone();
        let bytes = self.run(move |fleet| async move { fleet.overrides(&head).await }).await?;
        Overrides::decode(&bytes).ok_or(FleetError::Foreign("list of changes"))
    }

    /// Makes a change for all gates. Returns the head and all changes after it.
    async fn change(
        &self,
        parts: &Parts,
        change: OverrideChange,
    ) -> Result<(FleetHead, Overrides), OverrideError> {
        let engine = Arc::clone(&parts.engine);
        let changed = move |before: &Overrides| engine.changed_overrides(before, &change);
        self.rewrite(changed).await
    }

    /// Ends the changes that last until a reload.
    async fn end_with_reload(&self) -> Result<(FleetHead, Overrides), OverrideError> {
        self.rewrite(|before| Ok(before.after_reload())).await
    }

    async fn rewrite(
        &self,
        change: impl Fn(&Overrides) -> Result<Overrides, OverrideError> + Send + 'static,
    ) -> Result<(FleetHead, Overrides), OverrideError> {
        let on_bytes = move |bytes: &[u8]| {
            // A list that cannot be read yields to a new one.
            let before = Overrides::decode(bytes).unwrap_or_default();
            change(&before).map(|after| after.encode())
        };
        let rewritten = self.run(move |fleet| async move { fleet.change_overrides(on_bytes).await }).await;
        let (head, bytes) = rewritten.map_err(|error| OverrideError::Store(error.to_string()))??;
        Ok((head, Overrides::decode(&bytes).unwrap_or_default()))
    }
}

impl Parts {
    /// The changes in force, as the store keeps them.
    pub(super) fn changes(&self) -> Vec<u8> {
        self.engine.rules().overrides.encode()
    }

    /// Makes a change, and returns the configuration that it replaced.
    fn override_rules(&self, change: &OverrideChange) -> Result<Arc<RuntimeConfig>, OverrideError> {
        let former = self.config.load_full();
        self.engine.override_and(change, |rules| self.publish_rules(rules))?;
        Ok(former)
    }

    /// Puts the changes of all gates in force; returns the configuration that it replaced, if they are others.
    fn set_overrides(&self, overrides: Overrides) -> Result<Option<Arc<RuntimeConfig>>, OverrideError> {
        let former = self.config.load_full();
        let is_changed = self.engine.set_overrides_and(overrides, |rules| self.publish_rules(rules))?;
        Ok(is_changed.then_some(former))
    }

    /// Ends the changes that are over; returns the configuration that it replaced, if it did.
    fn end_overrides(&self) -> Option<Arc<RuntimeConfig>> {
        let former = self.config.load_full();
        match self.engine.end_overrides_and(|rules| self.publish_rules(rules)) {
            Ok(true) => {
                tracing::info!("a temporary exemption, ban or mode has ended");
                Some(former)
            }
            Ok(false) => None,
            Err(error) => {
                tracing::error!("a temporary exemption, ban or mode cannot end yet: {error}");
                None
            }
        }
    }

    /// The time until a change is over, at least a moment, so that one that cannot end is tried again later.
    pub(super) fn until_next_change_ends(&self) -> Duration {
        let end = self.engine.rules().overrides.next_end();
        let left = end.map(|end| end.since(self.engine.time()).to_std());
        left.map_or(NEVER, |left| left.clamp(MOMENT, NEVER))
    }

    fn publish_rules(&self, rules: &Arc<Rules>) {
        let former = self.config.load();
        self.config.store(Arc::new(former.with_rules(rules)));
    }
}

const MOMENT: Duration = Duration::from_millis(100);
const NEVER: Duration = Duration::from_secs(3600);
