//! The end of a gate whose place another process takes: SIGUSR2.
//!
//! A new process is started from what the command line names by now, gets the very sockets that this one listens at, and reads
//! its configuration. Only when it is ready does this one let nobody in any more, seals its buckets, and sends them over; the
//! new one has them before it accepts anybody. The surprising thing: until the new one says that it serves, all of this can be
//! undone, and is.

mod successor;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::successor::Successor;
pub(super) use self::wire::{Wire, Word};
use super::Parts;
use super::signals::Heard;
use crate::net::inherited::Kept;
use crate::net::shutdown::{Stage, Trigger};
use crate::proxy::pulse::{Pulse, Rest};

/// What it takes to hand a gate over.
pub(super) struct Handover<'a> {
    pub(super) parts: &'a Parts,
    pub(super) kept: &'a Arc<Kept>,
    pub(super) trigger: &'a Trigger,
    pub(super) pulses: &'a [Arc<Pulse>],
}

impl Handover<'_> {
    /// Tries each time it is asked for; ends when another process serves, and says which.
    pub(super) async fn serve(&self, asked: &mut Heard) -> u32 {
        loop {
            asked.next().await;
            match self.hand_over().await {
                Ok(process) => return process,
                Err(why) => tracing::error!("no other process has taken over, this one goes on: {why}"),
            }
            // Whoever asked meanwhile has got the same answer.
            asked.forget().await;
        }
    }

    async fn hand_over(&self) -> io::Result<u32> {
        let kept = Arc::clone(self.kept);
        let successor = self.parts.sandbox.broker().run(move || Successor::start(&kept)).await??;
        let taken = self.give_up_to(successor).await;
        if taken.is_err() {
            self.parts.engine.unseal();
            self.trigger.stay();
            self.parts.keeper.iter().for_each(|keeper| keeper.resume());
        }
        taken
    }

    /// From here on nothing is lost but by a crash: who waits at the door waits for either of the two.
    async fn give_up_to(&self, mut successor: Successor) -> io::Result<u32> {
        if let Some(keeper) = &self.parts.keeper {
            let ceased = tokio::time::timeout(PATIENCE, keeper.cease()).await;
            ceased.map_err(|_| io::Error::other("store.snapshot is being written, and takes too long"))?;
        }
        self.trigger.reach(Stage::Leaving);
        self.come_to(Rest::SeenOff).await;
        self.trigger.reach(Stage::Resting);
        self.come_to(Rest::Whole).await;
        let engine = Arc::clone(&self.parts.engine);
        engine.seal();
        let taken = on_a_thread(move || {
            let image = engine.store().is_none().then(|| engine.keep().encode()).transpose()?;
            successor.take_over(image.as_deref())?;
            Ok(successor)
        });
        Ok(taken.await?.leave())
    }

    /// Waits until all workers have come that far, but not for ever: what is still read then is answered 503.
    async fn come_to(&self, rest: Rest) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && !self.pulses.iter().all(|pulse| pulse.has_come_to(rest)) {
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// Signals have to be heard meanwhile.
async fn on_a_thread<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

const PATIENCE: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(2);
