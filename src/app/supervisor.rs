//! Restarts background tasks that panic; meanwhile the gate is not ready.
//!
//! A task is not spawned, so it may borrow what it works on. Tasks of connections are not supervised: a panic there
//! ends one connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::event::{Event, Events};
use crate::observe::readiness::Readiness;

/// Runs a task until it ends without a panic.
pub(super) async fn supervise(
    name: &str,
    events: &Events,
    readiness: &Readiness,
    mut task: impl AsyncFnMut(),
) {
    let down = format!("{name} is down");
    while !ends_well(task()).await {
        events.emit(&Event::Panicked);
        readiness.set_reason(&down, true);
        tracing::error!("{down}, and restarts in {PAUSE:?}: please report this");
        tokio::time::sleep(PAUSE).await;
        readiness.set_reason(&down, false);
    }
}

/// Whether the task ends without a panic. Unwinding leaves shared state as it is between two statements, as under a
/// poisoned lock.
async fn ends_well(task: impl Future<Output = ()>) -> bool {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(true),
        Err(_) => Poll::Ready(false),
    })
    .await
}

const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// H15: a background task that panics.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_begins_anew_after_a_pause_in_which_the_gate_is_not_ready() {
        let (events, readiness, begun) = (Events::default(), Readiness::default(), Cell::new(0));
        let task = async || {
            begun.set(begun.get() + 1);
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert!(begun.get() > 2, "twice on purpose");
        };
        let observer = async {
            for (at, begun_by_then, down) in [(10_500, 1, true), (11_500, 2, false), (21_500, 2, true)] {
                tokio::time::sleep_until(start() + Duration::from_millis(at)).await;
                assert_eq!((begun.get(), readiness.reasons().is_some()), (begun_by_then, down), "{at}");
            }
        };
        tokio::join!(supervise("snapshot", &events, &readiness, task), observer);
        assert_eq!((begun.get(), readiness.reasons()), (3, None));
    }

    fn start() -> tokio::time::Instant {
        thread_local!(static START: tokio::time::Instant = tokio::time::Instant::now());
        START.with(|start| *start)
    }
}
