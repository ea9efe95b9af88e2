//! `tollgate check --probe`: checks that the store answers, accepts a write and is set up well.
//!
//! It changes nothing. The surprising thing: it asks for a write too, of a bucket that is not there instead of a version
//! that nothing has: that writes nothing, but whoever may not write is refused.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::bucket::Key;
use crate::cli::store::{OpenedStore, open};
use crate::config::StoreSettings;
use crate::store::{RecordVersion, StoreError, StoreRecord};
use crate::time::{Span, Time};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct ProbeReport {
    /// `memory`, `redis` and so on.
    pub(super) store: String,
    /// With one of them the gate would decide without the store.
    pub(super) errors: Vec<String>,
    /// What an operator should know.
    pub(super) warnings: Vec<String>,
}

/// Asks the store.
pub(super) fn probe(store: &StoreSettings) -> ProbeReport {
    let mut probed = ProbeReport { store: store.address.to_string(), ..ProbeReport::default() };
    match open(store) {
        Ok(None) => {}
        Ok(Some(opened)) => probed.run(&opened),
        // Its context is the store's name, which is said anyway.
        Err(error) => probed.errors.push(error.root_cause().to_string()),
    }
    probed
}

impl ProbeReport {
    /// Whether a gate can decide by it.
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
        // Whoever cannot be reached has nothing more to say; whoever refuses can say why.
        if self.errors.is_empty() {
            match opened.call(PROBE_TIMEOUT, |store| store.inspect()) {
                Ok(sentences) => self.warnings = sentences,
                Err(error) => self.warnings.push(format!("how it is set up cannot be seen: {error}")),
            }
        }
    }
}

/// All that a gate asks for, of a bucket that nobody has.
fn probe_all(opened: &OpenedStore) -> Result<(), StoreError> {
    let key = unused_key();
    opened.call(PROBE_TIMEOUT, |store| store.probe())?;
    opened.call(PROBE_TIMEOUT, |store| store.load(key))?;
    let record = StoreRecord {
        bytes: vec![0],
        ttl: Span::from_secs(1),
        limit: "tollgate check --probe".into(),
        full_at: Time::default(),
    };
    match opened.call(PROBE_TIMEOUT, |store| store.swap(key, Some(RecordVersion::random()), record)) {
        // Then nothing was written because of somebody else, who may write.
        Err(StoreError::WriteConflict) => Ok(()),
        asked => asked.map(drop),
    }
}

fn unused_key() -> Key {
    let half = || u128::from(RandomState::new().hash_one(0_u8));
    Key(half() << 64 | half())
}

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
