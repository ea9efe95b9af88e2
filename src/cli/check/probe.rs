//! `tollgate check --probe`: checks that the store answers, accepts a write and is set up well.
//!
//! It asks what attempts ask, about a bucket that no client has. What it writes is gone at once.

use std::time::Duration;

use crate::bucket::Key;
use crate::cli::store::{OpenedStore, open};
use crate::config::StoreSettings;
use crate::store::StoreError;
use crate::time::Clock;

/// The result of a probe.
#[derive(Debug, Default)]
pub(in crate::cli) struct ProbeReport {
    /// The name of the store: `memory`, `redis` and so on.
    pub(in crate::cli) store: String,
    /// Faults for which the gate would decide without the store.
    pub(in crate::cli) errors: Vec<String>,
    /// Settings that an operator should know about.
    pub(in crate::cli) warnings: Vec<String>,
}

/// Probes the store.
pub(in crate::cli) fn probe(store: &StoreSettings) -> ProbeReport {
    let mut probed = ProbeReport { store: store.address.to_string(), ..ProbeReport::default() };
    match open(store) {
        Ok(None) => {}
        Ok(Some(opened)) => probed.run(&opened),
        // The error's context is the store's name, which the caller prints anyway.
        Err(error) => probed.errors.push(error.root_cause().to_string()),
    }
    probed
}

impl ProbeReport {
    /// Whether a gate can use the store.
    pub(super) fn is_good(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "store": self.store,
            "ok": self.is_good(),
            "errors": self.errors,
            "warnings": self.warnings,
        })
    }

    fn run(&mut self, opened: &OpenedStore) {
        if let Err(error) = probe_all(opened) {
            self.errors.push(error.to_string());
        }
        // Settings only matter, and can only be read, if the store works.
        if self.errors.is_empty() {
            match opened.call(PROBE_TIMEOUT, |store| store.inspect()) {
                Ok(sentences) => self.warnings = sentences,
                Err(error) => self.warnings.push(format!("cannot read its settings: {error}")),
            }
        }
    }
}

/// Makes every call that a gate makes, on a bucket that no client has.
fn probe_all(opened: &OpenedStore) -> Result<(), StoreError> {
    // The first answer of a cluster tells which servers there are.
    opened.call(PROBE_TIMEOUT, |store| store.load(Key(0)))?;
    let now = Clock::system().now();
    opened.servers().into_iter().try_for_each(|server| opened.probe(PROBE_TIMEOUT, server, now))
}

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
