//! Stopping: first nobody new is let in, then whoever is in may finish, then it is over.
//!
//! One value that every worker watches; it only ever moves forwards.

use tokio::sync::watch;

/// How far stopping has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Serving.
    Running,
    /// Nobody new; requests in flight finish.
    Draining,
    /// Now.
    Stopped,
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
}

impl Shutdown {
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
        assert_eq!(shutdown.stage(), Stage::Stopped);
    }
}
