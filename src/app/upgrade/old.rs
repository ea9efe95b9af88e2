//! The old side of an upgrade (SIGUSR2): starts the new process and passes it sockets and buckets.
//!
//! The new process is started from the command line of this one. It gets the sockets that this one listens at, and
//! reads its configuration itself. Once it is ready, this process stops accepting, freezes its buckets and sends them;
//! the new process restores them before it accepts. New connections wait in the listen backlog meanwhile. Until the new
//! process reports that it serves, every step can be undone, and is undone on an error.

mod new_process;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::new_process::NewProcess;
use super::super::Parts;
use super::super::signals::SignalStream;
use crate::net::shutdown::{Stage, Trigger};
use crate::net::worker_sockets::ListenFds;
use crate::proxy::downstream::heartbeat::{DrainProgress, Heartbeat};

/// What an upgrade works on.
pub(in crate::app) struct BinaryUpgrade<'a> {
    pub(in crate::app) parts: &'a Parts,
    pub(in crate::app) fds: &'a Arc<ListenFds>,
    pub(in crate::app) trigger: &'a Trigger,
    pub(in crate::app) heartbeats: &'a [Arc<Heartbeat>],
}

impl BinaryUpgrade<'_> {
    /// Tries an upgrade at each signal; ends with the id of the new process once that serves.
    pub(in crate::app) async fn serve(&self, requests: &mut SignalStream) -> u32 {
        loop {
            requests.next().await;
            match self.upgrade().await {
                Ok(process) => return process,
                Err(why) => tracing::error!("no other process has taken over, this one goes on: {why}"),
            }
            // A signal sent during the attempt was for this attempt.
            requests.discard_pending().await;
        }
    }

    async fn upgrade(&self) -> io::Result<u32> {
        let fds = Arc::clone(self.fds);
        let new_process = self.parts.sandbox.broker().run(move || NewProcess::start(&fds)).await??;
        let upgraded = self.transfer_to(new_process).await;
        if upgraded.is_err() {
            self.parts.engine.thaw();
            self.parts.drops.iter().for_each(|drops| drops.resume());
            self.trigger.cancel_upgrade();
            self.parts.snapshotter.iter().for_each(|snapshotter| snapshotter.resume());
        }
        upgraded
    }

    /// From here on only a crash loses anything: new connections wait in the listen backlog for either process.
    async fn transfer_to(&self, mut new_process: NewProcess) -> io::Result<u32> {
        if let Some(snapshotter) = &self.parts.snapshotter {
            let paused = tokio::time::timeout(QUIESCE_TIMEOUT, snapshotter.pause()).await;
            paused.map_err(|_| io::Error::other("store.snapshot is being written, and takes too long"))?;
        }
        self.trigger.reach(Stage::Upgrading);
        self.await_workers(DrainProgress::KeepAliveClosed).await;
        self.trigger.reach(Stage::AcceptPaused);
        self.await_workers(DrainProgress::Quiet).await;
        let (engine, drops) = (Arc::clone(&self.parts.engine), self.parts.drops.clone());
        engine.freeze();
        let sent = run_blocking(move || {
            drops.iter().for_each(|drops| drops.pause());
            let snapshot =
                engine.store().ends_with_process().then(|| engine.snapshot().encode()).transpose()?;
            new_process.send_snapshot(snapshot.as_deref())?;
            Ok(new_process)
        });
        Ok(sent.await?.detach())
    }

    /// Waits until all workers have reached `progress`, for [`QUIESCE_TIMEOUT`] at most. A request whose body is still
    /// unread then gets a 503.
    async fn await_workers(&self, progress: DrainProgress) {
        let end = Instant::now() + QUIESCE_TIMEOUT;
        while Instant::now() < end && !self.heartbeats.iter().all(|heartbeat| heartbeat.has_reached(progress))
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Blocks another thread: this one still has to handle signals.
async fn run_blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

const QUIESCE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
