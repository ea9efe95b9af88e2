//! What the outside tells a gate: stop, reopen the logs.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or SIGINT.
pub(super) async fn stop() {
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    tokio::select! {
        () = next(&mut terminate) => {}
        () = next(&mut interrupt) => {}
    }
}

/// Does this at each SIGUSR1.
pub(super) async fn each_usr1(act: impl Fn()) {
    let mut signals = listen(SignalKind::user_defined1());
    loop {
        next(&mut signals).await;
        act();
    }
}

/// Says at each SIGHUP that reading the file again is not built, instead of dying of it.
pub(super) async fn each_hup() {
    let mut signals = listen(SignalKind::hangup());
    loop {
        next(&mut signals).await;
        tracing::warn!("reload by SIGHUP is not built yet: restart the gate to take over a changed file");
    }
}

fn listen(kind: SignalKind) -> Option<Signal> {
    match signal(kind) {
        Ok(signal) => Some(signal),
        Err(error) => {
            tracing::error!("signal {} cannot be heard: {error}", kind.as_raw_value());
            None
        }
    }
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
