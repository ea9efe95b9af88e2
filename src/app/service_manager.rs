//! Notifies systemd (`sd_notify(3)`): ready, reloading, stopping, main PID, watchdog.
//!
//! Without systemd nobody is told anything. The surprising thing: being told is not worth a failure, so what cannot be said is
//! logged once and forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) use sd_notify::NotifyState as State;

/// Says all of it at once.
pub(super) fn notify(states: &[State<'_>]) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    if let Err(error) = sd_notify::notify(states)
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

/// The file is read again; [`ready`] says that this is over.
pub(super) fn reloading() {
    match State::monotonic_usec_now() {
        Ok(now) => notify(&[State::Reloading, now]),
        // Without a time it would be taken for a failure.
        Err(error) => tracing::warn!("there is no monotonic clock: {error}"),
    }
}

/// It serves, by the newest file.
pub(super) fn ready() {
    notify(&[State::Ready]);
}

/// How often it wants to hear that the gate is alive, with a margin; `None` if it does not.
pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
