//! When a backend that has lost its server connects again.

use std::time::Duration;

use crate::RecordVersion;

/// The pause before the next attempt to connect: 100 to 150 ms. It is random, so that gates that lost a server together
/// do not come back together.
pub(super) fn reconnect_pause() -> Duration {
    RECONNECT_PAUSE + Duration::from_millis(RecordVersion::random().0 % 50)
}

/// The shortest pause.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
