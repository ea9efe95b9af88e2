//! A record by which gates notice that a server has lost its records: written once, changed and removed by no gate.
//!
//! A server that has been killed and is up at once, or was flushed, answers as before. A gate that finds the marker gone,
//! or another one, knows that all else is gone as well. What is done then is left to [`write_back`](super::write_back).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::SharedStore;
use super::server::StoreServer;
use crate::attempt_probe::key_at;
use crate::{CompareAndSwap, RecordVersion, ServerId};
use tollgate_bucket::{Key, Time};

/// What is known of a server's marker.
#[derive(Debug, Default)]
pub(super) struct Marker {
    known: Mutex<KnownMarker>,
    /// When the server was last found to have lost its records, by its own time.
    emptied_at: AtomicU64,
}

#[derive(Debug, Default)]
struct KnownMarker {
    /// Where it is: if keys move between servers, it is another record.
    marker: Option<(Key, RecordVersion)>,
    looked_at: Option<Instant>,
}

impl Marker {
    /// When the server was last found to have lost its records.
    pub(super) fn emptied_at(&self) -> Time {
        Time::from_nanos(self.emptied_at.load(Ordering::Relaxed))
    }

    /// Records what was found. Returns whether that was another marker before.
    pub(super) fn record(&self, key: Key, version: RecordVersion) -> bool {
        let mut known = self.lock();
        known.looked_at = Some(Instant::now());
        let before = known.marker.replace((key, version));
        before.is_some_and(|(known, before)| known == key && before != version)
    }

    pub(super) fn was_looked_at(&self) -> bool {
        self.lock().looked_at.is_some_and(|at| at.elapsed() < MOMENT)
    }

    /// The server was found to have lost its records at this time.
    pub(super) fn set_emptied_at(&self, now: Time) {
        self.emptied_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, KnownMarker> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedStore {
    /// Whether the server has lost its records since then. Asks it, unless it was asked a moment ago; if it has, tells the
    /// operator, and begins to write back what is known here.
    pub(super) async fn has_lost_records(self: &Arc<Self>, server: &StoreServer, since: Time) -> bool {
        if !server.marker.was_looked_at() {
            self.look_for_marker(server).await;
        }
        since < server.marker.emptied_at()
    }

    /// Looks for the marker, and writes it where there is none.
    pub(super) async fn look_for_marker(self: &Arc<Self>, server: &StoreServer) {
        let Some(key) = marker_key(&*self.backend, server.id) else { return };
        let asked = tokio::time::timeout(self.options.timeout.to_std(), self.backend.marker(key)).await;
        // Without an answer nothing is known; what is in the way is told by the next call.
        let Ok(Ok(found)) = asked else { return };
        if server.marker.record(key, found.value) {
            server.marker.set_emptied_at(self.now_at(server));
            self.runtime.spawn(Arc::clone(self).write_back(server.id, Arc::clone(&server.name)));
        }
    }
}

/// The key of a server's marker; `None` if the server holds no keys, as far as is known.
fn marker_key(backend: &dyn CompareAndSwap, server: ServerId) -> Option<Key> {
    let key = |number: u32| {
        let hash =
            Sha256::new().chain_update(b"tollgate marker").chain_update(number.to_be_bytes()).finalize();
        Key(hash.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    };
    key_at(backend, server, (0..).map(key))
}

/// A look is as good for this long.
const MOMENT: Duration = Duration::from_millis(50);
