//! Signals: stop, reload, reopen the logs, upgrade.
//!
//! Without a handler SIGHUP, SIGUSR1 and SIGUSR2 end a process, so a gate listens before it reads its file. A signal
//! that comes earlier than the gate serves waits until then.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that must not end the gate; pending ones are kept from the moment at which this is made.
#[derive(Debug)]
pub struct Signals {
    pub(super) hang_up: SignalStream,
    pub(super) reopen: SignalStream,
    pub(super) upgrade: SignalStream,
}

/// One signal. Several that arrive before it is awaited count as one.
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
    /// One that never comes.
    pub(super) fn never() -> Self {
        Self(None)
    }

    fn listen(kind: SignalKind) -> Self {
        let stream = signal(kind);
        if let Err(error) = &stream {
            tracing::error!("cannot listen for signal {}: {error}", kind.as_raw_value());
        }
        Self(stream.ok())
    }

    /// Waits for the signal; a pending one ends the wait at once.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }

    /// Drops a pending signal.
    pub(super) async fn discard_pending(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = std::future::ready(()) => {}
        }
    }

    /// Calls `act` for each signal; never ends.
    pub(super) async fn for_each(&mut self, act: impl AsyncFn()) {
        loop {
            self.next().await;
            act().await;
        }
    }
}

/// Waits for SIGTERM or SIGINT, and returns its name; one that comes after the call and before the wait ends it at once.
pub(super) fn stop() -> impl Future<Output = &'static str> {
    let (mut terminate, mut interrupt) =
        (SignalStream::listen(SignalKind::terminate()), SignalStream::listen(SignalKind::interrupt()));
    async move {
        tokio::select! {
            () = terminate.next() => "SIGTERM",
            () = interrupt.next() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::stop;

    #[tokio::test]
    async fn a_signal_that_comes_before_the_wait_ends_it() {
        let stopped = stop();
        kill_process(getpid(), Signal::TERM).unwrap();
        let signal = tokio::time::timeout(Duration::from_secs(5), stopped).await.unwrap();
        assert_eq!(signal, "SIGTERM");
    }
}
