//! The old side of an upgrade (SIGUSR2): starts the new process and passes it sockets and buckets.
//!
//! A new process is started from what the command line names by now, gets the very sockets that this one listens at, and reads
//! its configuration. Only when it is ready does this one let nobody in any more, seals its buckets, and sends them over; the
//! new one has them before it accepts anybody. The surprising thing: until the new one says that it serves, all of this can be
//! undone, and is.

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

/// What it takes to hand a gate over.
pub(in crate::app) struct BinaryUpgrade<'a> {
    pub(in crate::app) parts: &'a Parts,
    pub(in crate::app) fds: &'a Arc<ListenFds>,
    pub(in crate::app) trigger: &'a Trigger,
    pub(in crate::app) heartbeats: &'a [Arc<Heartbeat>],
}

impl BinaryUpgrade<'_> {
    /// Tries each time it is asked for; ends when another process serves, and says which.
    pub(in crate::app) async fn serve(&self, asked: &mut SignalStream) -> u32 {
        loop {
            asked.next().await;
            match self.upgrade().await {
                Ok(process) => return process,
                Err(why) => tracing::error!("no other process has taken over, this one goes on: {why}"),
            }
            // Whoever asked meanwhile has got the same answer.
            asked.discard_pending().await;
        }
    }

    async fn upgrade(&self) -> io::Result<u32> {
        let kept = Arc::clone(self.fds);
        let successor = self.parts.sandbox.broker().run(move || NewProcess::start(&kept)).await??;
        let taken = self.transfer_to(successor).await;
        if taken.is_err() {
            self.parts.engine.thaw();
            self.trigger.cancel_upgrade();
            self.parts.snapshotter.iter().for_each(|keeper| keeper.resume());
        }
        taken
    }

    /// From here on nothing is lost but by a crash: who waits at the door waits for either of the two.
    async fn transfer_to(&self, mut successor: NewProcess) -> io::Result<u32> {
        if let Some(keeper) = &self.parts.snapshotter {
            let ceased = tokio::time::timeout(QUIESCE_TIMEOUT, keeper.pause()).await;
            ceased.map_err(|_| io::Error::other("store.snapshot is being written, and takes too long"))?;
        }
        self.trigger.reach(Stage::Upgrading);
        self.await_workers(DrainProgress::KeepAliveClosed).await;
        self.trigger.reach(Stage::AcceptPaused);
        self.await_workers(DrainProgress::Quiet).await;
        let engine = Arc::clone(&self.parts.engine);
        engine.freeze();
        let taken = run_blocking(move || {
            let image = engine.store().is_none().then(|| engine.snapshot().encode()).transpose()?;
            successor.send_snapshot(image.as_deref())?;
            Ok(successor)
        });
        Ok(taken.await?.detach())
    }

    /// Waits until all workers have come that far, but not for ever: what is still read then is answered 503.
    async fn await_workers(&self, rest: DrainProgress) {
        let end = Instant::now() + QUIESCE_TIMEOUT;
        while Instant::now() < end && !self.heartbeats.iter().all(|pulse| pulse.has_reached(rest)) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Signals have to be heard meanwhile.
async fn run_blocking<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

const QUIESCE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
