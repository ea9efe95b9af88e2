//! A record by which gates notice that a server has lost its records: written once, changed and removed by no gate.
//!
//! A server that has been killed and is up at once, or was flushed, answers as before. A gate that finds the marker gone,
//! or another one, knows that all else is gone as well. Asking for it is left to
//! [`marker_check`](super::marker_check).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::RecordVersion;
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

/// A look is as good for this long.
const MOMENT: Duration = Duration::from_millis(50);
