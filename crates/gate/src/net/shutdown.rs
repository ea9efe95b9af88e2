//! Stages of shutdown and upgrade: stop accepting, drain, stop.
//!
//! All workers watch one value. It only moves forwards, except back to serving if the new process of an upgrade fails
//! to take over. What a stage means for connections is left to the workers.

use tokio::sync::watch;

/// The stage of a shutdown or an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Serving.
    Running,
    /// A new process is about to take over: connections are no longer kept alive.
    Upgrading,
    /// The same, and no connection is accepted: new ones wait in the listen backlog for either process.
    AcceptPaused,
    /// No new connections; requests in flight finish.
    Draining,
    /// All connections end now.
    Stopped,
}

impl Stage {
    /// Whether the upgrade can still be cancelled.
    fn is_upgrading(self) -> bool {
        matches!(self, Self::Upgrading | Self::AcceptPaused)
    }
}

/// Moves the stage.
#[derive(Debug)]
pub struct Trigger(watch::Sender<Stage>);

/// Watches the stage.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<Stage>);

/// A trigger, and the shutdown that watches it.
#[must_use]
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(Stage::Running);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Moves on to this stage, unless it has been reached.
    pub fn reach(&self, stage: Stage) {
        self.0.send_if_modified(|now| {
            let moves = *now < stage;
            *now = stage.max(*now);
            moves
        });
    }

    /// Returns to serving, unless draining has begun.
    pub fn cancel_upgrade(&self) {
        self.0.send_if_modified(|now| {
            let leaves = now.is_upgrading();
            if leaves {
                *now = Stage::Running;
            }
            leaves
        });
    }
}

impl Shutdown {
    /// Waits until it is certain whether the new process takes over. Returns whether this process goes on serving.
    pub async fn upgrade_cancelled(&mut self) -> bool {
        // An error means that the trigger is gone, and with it the program.
        let stage = self.0.wait_for(|now| !now.is_upgrading()).await.map(|stage| *stage);
        stage.is_ok_and(|stage| stage == Stage::Running)
    }

    /// Waits until this stage is reached; returns at once if it is, or if the trigger is gone.
    pub async fn reached(&mut self, stage: Stage) {
        // An error means that the trigger is gone, and with it the program.
        let _ = self.0.wait_for(|now| *now >= stage).await;
    }

    /// The stage now.
    #[must_use]
    pub fn stage(&self) -> Stage {
        *self.0.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_stage_only_moves_forwards() {
        let (trigger, mut shutdown) = channel();
        trigger.reach(Stage::Stopped);
        trigger.reach(Stage::Draining);
        shutdown.reached(Stage::Draining).await;
        trigger.cancel_upgrade();
        assert_eq!(shutdown.stage(), Stage::Stopped);
    }

    #[tokio::test]
    async fn only_an_upgrade_can_be_cancelled() {
        let (trigger, mut shutdown) = channel();
        trigger.reach(Stage::Upgrading);
        shutdown.reached(Stage::Upgrading).await;
        trigger.cancel_upgrade();
        assert!(shutdown.upgrade_cancelled().await);
        trigger.reach(Stage::AcceptPaused);
        trigger.cancel_upgrade();
        assert_eq!(shutdown.stage(), Stage::Running);
        trigger.reach(Stage::AcceptPaused);
        trigger.reach(Stage::Draining);
        trigger.cancel_upgrade();
        assert!(!shutdown.upgrade_cancelled().await);
    }
}
