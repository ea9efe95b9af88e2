//! Notifies systemd (`sd_notify(3)`): ready, reloading, stopping, main PID, watchdog.
//!
//! Without systemd it does nothing. Notification errors are logged once and otherwise ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) use sd_notify::NotifyState as State;

/// From now on says nothing: this process belongs to a program that speaks for itself.
pub(super) fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Sends these states in one message.
pub(super) fn notify(states: &[State<'_>]) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    if SILENT.load(Ordering::Relaxed) {
        return;
    }
    if let Err(error) = sd_notify::notify(states)
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// A reload begins; [`ready`] ends it.
pub(super) fn reloading() {
    match State::monotonic_usec_now() {
        Ok(now) => notify(&[State::Reloading, now]),
        // Without a time systemd takes the message for a failure.
        Err(error) => tracing::warn!("there is no monotonic clock: {error}"),
    }
}

/// The gate serves, with its newest configuration.
pub(super) fn ready() {
    notify(&[State::Ready]);
}

static SILENT: AtomicBool = AtomicBool::new(false);

/// How often to send a keep-alive: half of systemd's time-out. `None` without a time-out.
pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
