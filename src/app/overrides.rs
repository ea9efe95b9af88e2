//! Temporary changes of the rules, put in force as a reload puts new rules in force.
//!
//! They come one after the other with the reloads, so that neither undoes the other.

use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use crate::engine::{OverrideChange, OverrideError, Overrides, Rules};
use crate::proxy::runtime_config::RuntimeConfig;

impl Parts {
    /// Makes a change, and returns the configuration that it replaced.
    pub(super) fn override_rules(
        &self,
        change: &OverrideChange,
    ) -> Result<Arc<RuntimeConfig>, OverrideError> {
        let former = self.config.load_full();
        self.engine.override_and(change, |rules| self.publish_rules(rules))?;
        Ok(former)
    }

    /// Puts the changes of all gates in force; returns the configuration that it replaced, if they are others.
    pub(super) fn set_overrides(
        &self,
        overrides: Overrides,
    ) -> Result<Option<Arc<RuntimeConfig>>, OverrideError> {
        let former = self.config.load_full();
        let is_changed = self.engine.set_overrides_and(overrides, |rules| self.publish_rules(rules))?;
        Ok(is_changed.then_some(former))
    }

    /// Ends the changes that are over; returns the configuration that it replaced, if it did.
    pub(super) fn end_overrides(&self) -> Option<Arc<RuntimeConfig>> {
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
    pub(super) fn until_next_override_ends(&self) -> Duration {
        let end = self.engine.rules().overrides.next_end();
        let left = end.map(|end| end.since(self.engine.time()).to_std());
        left.map_or(NEVER, |left| left.clamp(MOMENT, NEVER))
    }

    fn publish_rules(&self, rules: &Arc<Rules>) {
        let former = self.config.load();
        self.config.store(Arc::new(RuntimeConfig {
            rules: Arc::clone(rules),
            client: former.client.clone(),
            refuse: Arc::clone(&former.refuse),
            endpoints: former.endpoints.clone(),
            settings: Arc::clone(&former.settings),
            tls_acceptor: former.tls_acceptor.clone(),
            redirect: former.redirect,
            validation_hosts: former.validation_hosts.clone(),
            upstreams: former.upstreams.clone(),
        }));
    }
}

const MOMENT: Duration = Duration::from_millis(100);
const NEVER: Duration = Duration::from_secs(3600);
