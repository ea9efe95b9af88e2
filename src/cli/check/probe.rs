//! `tollgate check --probe`: whether the store of a good file answers, as somebody who wants it to be good would ask.
//!
//! It changes nothing. The surprising thing: it asks for a write too, of a bucket that is not there instead of a version
//! that nothing has: that writes nothing, but whoever may not write is refused.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::bucket::Key;
use crate::cli::store::{Opened, open};
use crate::config::Store;
use crate::store::{Record, StoreError, Version};
use crate::time::{Span, Time};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Probed {
    /// `memory`, `redis` and so on.
    pub(super) store: String,
    /// With one of them the gate would decide without the store.
    pub(super) errors: Vec<String>,
    /// What an operator should know.
    pub(super) warnings: Vec<String>,
}

/// Asks the store.
pub(super) fn probe(store: &Store) -> Probed {
    let mut probed = Probed { store: store.address.to_string(), ..Probed::default() };
    match open(store) {
        Ok(None) => {}
        Ok(Some(opened)) => probed.ask(&opened),
        // Its context is the store's name, which is said anyway.
        Err(error) => probed.errors.push(error.root_cause().to_string()),
    }
    probed
}

impl Probed {
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

    fn ask(&mut self, opened: &Opened) {
        if let Err(error) = questions(opened) {
            self.errors.push(error.to_string());
        }
        // Whoever cannot be reached has nothing more to say; whoever refuses can say why.
        if self.errors.is_empty() {
            match opened.ask(PATIENCE, |store| store.inspect()) {
                Ok(sentences) => self.warnings = sentences,
                Err(error) => self.warnings.push(format!("how it is set up cannot be seen: {error}")),
            }
        }
    }
}

/// All that a gate asks for, of a bucket that nobody has.
fn questions(opened: &Opened) -> Result<(), StoreError> {
    let key = nobodys();
    opened.ask(PATIENCE, |store| store.probe())?;
    opened.ask(PATIENCE, |store| store.load(key))?;
    let record = Record {
        bytes: vec![0],
        ttl: Span::from_secs(1),
        limit: "tollgate check --probe".into(),
        full_at: Time::default(),
    };
    match opened.ask(PATIENCE, |store| store.swap(key, Some(Version::random()), record)) {
        // Then nothing was written because of somebody else, who may write.
        Err(StoreError::Contended) => Ok(()),
        asked => asked.map(drop),
    }
}

fn nobodys() -> Key {
    let half = || u128::from(RandomState::new().hash_one(0_u8));
    Key(half() << 64 | half())
}

const PATIENCE: Duration = Duration::from_secs(5);
