//! Signals: stop, reload, reopen the logs, upgrade.
//!
//! The surprising thing: three of these end a process that does not listen for them, so a gate listens before it has
//! read its file. What comes too early then waits until it serves.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that a gate must not die of, heard from the moment at which this is made.
#[derive(Debug)]
pub struct Signals {
    pub(super) hang_up: SignalStream,
    pub(super) reopen: SignalStream,
    pub(super) upgrade: SignalStream,
}

/// One of them. However often it came since it was asked for last, it came once.
#[derive(Debug)]
pub(super) struct SignalStream(Option<Signal>);

impl Signals {
    /// Listens from now on. To be called within a tokio runtime.
    #[must_use]
    pub fn listen() -> Self {
        Self {
            hang_up: SignalStream::listen(SignalKind::hangup()),
            reopen: SignalStream::listen(SignalKind::user_defined1()),
            upgrade: SignalStream::listen(SignalKind::user_defined2()),
        }
    }
}

impl SignalStream {
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
    pub(super) async fn discard_pending(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = std::future::ready(()) => {}
        }
    }

    /// Does this each time.
    pub(super) async fn for_each(&mut self, act: impl AsyncFn()) {
        loop {
            self.next().await;
            act().await;
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub(super) async fn stop() {
    let (mut terminate, mut interrupt) =
        (SignalStream::listen(SignalKind::terminate()), SignalStream::listen(SignalKind::interrupt()));
    tokio::select! {
        () = terminate.next() => {}
        () = interrupt.next() => {}
    }
}
