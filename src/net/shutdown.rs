//! Stages of shutdown and upgrade: stop accepting, drain, stop.
//!
//! One value that every worker watches; it only ever moves forwards, but for one step: back to serving, if whoever was to
//! take over did not.

use tokio::sync::watch;

/// How far stopping has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Serving.
    Running,
    /// Another process is about to take over: nobody is kept alive any more.
    Upgrading,
    /// The same, and nobody new: who comes waits for either of the two.
    AcceptPaused,
    /// Nobody new; requests in flight finish.
    Draining,
    /// Now.
    Stopped,
}

impl Stage {
    /// Whether it may still be gone back on.
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

/// A trigger and what watches it.
#[must_use]
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(Stage::Running);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Moves on to this stage, unless it is reached already.
    pub fn reach(&self, stage: Stage) {
        self.0.send_if_modified(|now| {
            let moves = *now < stage;
            *now = stage.max(*now);
            moves
        });
    }

    /// Goes on serving, unless it is too late.
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
    /// Waits until it is certain that the gate leaves, or stays. Says whether it stays.
    pub async fn upgrade_cancelled(&mut self) -> bool {
        // The error says that the trigger is gone, and with it the program.
        let stage = self.0.wait_for(|now| !now.is_upgrading()).await.map(|stage| *stage);
        stage.is_ok_and(|stage| stage == Stage::Running)
    }

    /// Waits until this stage is reached; at once if it is, or if nobody is left to move it.
    pub async fn reached(&mut self, stage: Stage) {
        // The error says that the trigger is gone, and with it the program.
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
    async fn only_whoever_is_about_to_leave_can_stay() {
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
