//! What a program has of a gate that decides on its own requests: the same engine, reloads and exchange with other gates,
//! without sockets, signals, sandbox and logs.
//!
//! It has its own threads, which end when nobody can ask any more. The process belongs to the program: nothing here
//! changes it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tokio::sync::mpsc as async_mpsc;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::reload::{Reload, log_all};
use super::sandbox::Sandbox;
use super::signals::SignalStream;
use super::status::ConfigStatus;
use super::{AppStartError, Parts, REFUND_TIMEOUT, alarms, service_manager, startup_check};
use crate::config::{Config, Diagnostic, Sources};
use crate::proxy::transaction::in_process::{self, InProcessAsker, InProcessQuestions};
use crate::time::Clock;

/// A gate within a program. When it is dropped, its threads end.
pub struct InProcessGate {
    asker: InProcessAsker,
    /// Asks the background to keep what buckets have. When it is dropped, the background ends.
    saves: async_mpsc::Sender<SaveRequest>,
}

/// Is told when it is done.
type SaveRequest = oneshot::Sender<()>;

impl InProcessGate {
    /// Starts the threads. `sources` are those of the configuration, by which a reload reads it again, and `warnings` what was
    /// found in it, which is logged. A store that is only unreachable is no error.
    ///
    /// # Errors
    /// See [`AppStartError`].
    pub fn start(config: Config, sources: Sources, warnings: &[Diagnostic]) -> Result<Self, AppStartError> {
        service_manager::silence();
        log_all(warnings);
        let (saves, save_requests) = async_mpsc::channel(1);
        let (started, start) = mpsc::sync_channel(1);
        let (asker, questions) = InProcessAsker::new(config.proxy.threads);
        let run = move || background(config, sources, questions, save_requests, &started);
        thread::Builder::new().name("tollgate".to_owned()).spawn(run).map_err(AppStartError::Worker)?;
        let gone = || AppStartError::Worker(io::Error::other("a thread ended at its start"));
        start.recv().map_err(|_| gone())??;
        Ok(Self { asker, saves })
    }

    /// Asks the threads that decide.
    #[must_use]
    pub fn asker(&self) -> &InProcessAsker {
        &self.asker
    }

    /// Waits until a shared store has the refunds of all attempts that are settled, or the snapshot all buckets, at most two
    /// seconds.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.saves.send(done).await.is_ok() {
            // Without an answer the background is gone, and did it at its end.
            let _ = is_done.await;
        }
    }
}

/// Builds the gate, tells the outcome, and runs what is not about requests until the program has no use for it.
fn background(
    config: Config,
    sources: Sources,
    questions: Vec<InProcessQuestions>,
    mut save_requests: async_mpsc::Receiver<SaveRequest>,
    started: &mpsc::SyncSender<Result<(), AppStartError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(AppStartError::Worker(error)))),
    };
    runtime.block_on(async {
        let (parts, mut reload) = match build(config, sources, questions) {
            Ok(built) => built,
            // The thread that called `start` gets it.
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(())));
        let mut hang_up = SignalStream::never();
        tokio::select! {
            () = serve_saves(&parts, &mut save_requests) => {}
            () = parts.supervised("reload", async || reload.serve(&parts, &mut hang_up).await) => {}
            () = parts.supervised("attack mode", async || alarms::watch(&parts).await) => {}
            () = parts.supervised("wiring", async || parts.watch_wiring().await) => {}
            () = parts.expire_open_attempts() => {}
            () = parts.write_snapshots() => {}
        }
        reload.sign_off(&parts).await;
        save(&parts).await;
    });
}

/// Ends when nobody can ask any more.
async fn serve_saves(parts: &Parts, requests: &mut async_mpsc::Receiver<SaveRequest>) {
    while let Some(done) = requests.recv().await {
        save(parts).await;
        // The asker may have gone.
        let _ = done.send(());
    }
}

async fn save(parts: &Parts) {
    if let Some(snapshotter) = &parts.snapshotter {
        // A write that takes longer goes on.
        let _ = timeout(REFUND_TIMEOUT, snapshotter.write()).await;
    }
    parts.engine.store().flush(REFUND_TIMEOUT).await;
}

/// Builds all parts, and starts the threads that decide.
fn build(
    config: Config,
    sources: Sources,
    questions: Vec<InProcessQuestions>,
) -> Result<(Parts, Reload), AppStartError> {
    let clock = Clock::system();
    let now = clock.now();
    let config_status = ConfigStatus::new(&sources, now);
    let reload = Reload::new(sources, &config, config_status, now);
    let sandbox = Sandbox::enter(&config, None).map_err(AppStartError::Worker)?;
    let store = config.store.clone();
    let mut parts = Parts::build(config, clock, sandbox, None, None)?;
    tokio::spawn(startup_check::tell_of_store(store));
    // One that never rests, so that the tasks of the background do not wait for workers.
    parts.serving.heartbeats = vec![Arc::default()];
    for (number, questions) in questions.into_iter().enumerate() {
        let (connection_limit, server) =
            (Arc::clone(&parts.serving.connection_limit), parts.server_factory());
        let (began, begin) = mpsc::sync_channel(1);
        let run = move || {
            in_process::run(questions, connection_limit, server, |begun| drop(began.send(begun)));
        };
        let named = thread::Builder::new().name(format!("tollgate-{number}"));
        named.spawn(run).map_err(AppStartError::Worker)?;
        let gone = |_| Err(io::Error::other("a thread ended at its start"));
        begin.recv().unwrap_or_else(gone).map_err(AppStartError::Worker)?;
    }
    Ok((parts, reload))
}
