//! What the outside tells a gate: stop, read the file again, reopen the logs, make room for another process.
//!
//! The surprising thing: three of these end a process that does not listen for them, so a gate listens before it has
//! read its file. What comes too early then waits until it serves.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that a gate must not die of, heard from the moment at which this is made.
#[derive(Debug)]
pub struct Signals {
    pub(super) hang_up: Heard,
    pub(super) reopen: Heard,
    pub(super) hand_over: Heard,
}

/// One of them. However often it came since it was asked for last, it came once.
#[derive(Debug)]
pub(super) struct Heard(Option<Signal>);

impl Signals {
    /// Listens from now on. To be called within a tokio runtime.
    #[must_use]
    pub fn listen() -> Self {
        Self {
            hang_up: Heard::listen(SignalKind::hangup()),
            reopen: Heard::listen(SignalKind::user_defined1()),
            hand_over: Heard::listen(SignalKind::user_defined2()),
        }
    }
}

impl Heard {
    fn listen(kind: SignalKind) -> Self {
        let heard = signal(kind);
        if let Err(error) = &heard {
            tracing::error!("signal {} cannot be heard: {error}", kind.as_raw_value());
        }
        Self(heard.ok())
    }

    /// Waits until it comes, if it has not come already.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }

    /// As if it had not come.
    pub(super) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = std::future::ready(()) => {}
        }
    }

    /// Does this each time.
    pub(super) async fn each(&mut self, act: impl AsyncFn()) {
        loop {
            self.next().await;
            act().await;
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub(super) async fn stop() {
    let (mut terminate, mut interrupt) =
        (Heard::listen(SignalKind::terminate()), Heard::listen(SignalKind::interrupt()));
    tokio::select! {
        () = terminate.next() => {}
        () = interrupt.next() => {}
    }
}
