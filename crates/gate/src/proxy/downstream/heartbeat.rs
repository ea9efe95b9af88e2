//! The heartbeat of a worker for the watchdog, whether it rests, and how far it has drained before an upgrade.
//!
//! The worker writes and the main thread reads, both without waiting. The worker counts beats and reads no clock, so a
//! changed clock makes no worker look dead. A worker without work rests: it beats only when it is called, and the tasks
//! of the main thread that look after workers [wait](until_any_works) until one works. The watchdog itself is `app`'s.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::timeout;

/// The heartbeat of one worker.
#[derive(Debug, Default)]
pub struct Heartbeat {
    beats: AtomicU64,
    progress: AtomicU8,
    /// How often a task of the worker has been polled that works for clients.
    polls: AtomicU64,
    rests: AtomicBool,
    /// A call that the worker has not answered.
    is_called: AtomicBool,
    /// Tells the worker that it is called, or works again.
    roused: Notify,
    /// Tells others that the worker works again.
    works: Notify,
}

/// How far a worker has drained before another process takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainProgress {
    /// The worker serves.
    Serving,
    /// All connections that were kept alive are closed.
    KeepAliveClosed,
    /// No connection is accepted any more, and every request that began is decided.
    Quiet,
}

impl Heartbeat {
    /// Records a beat: at least one a second, from the worker's own runtime, unless it rests.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Relaxed);
    }

    /// The number of beats. It changes at least once a second, and at rest after each call of the watchdog.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Relaxed)
    }

    /// Such a task is polled now, on the worker's own thread.
    fn works(&self) {
        self.polls.store(self.polls().wrapping_add(1), Relaxed);
        if self.rests.load(Relaxed) {
            self.rests.store(false, Relaxed);
            self.roused.notify_one();
            self.works.notify_waiters();
        }
    }

    /// How often tasks of the worker that work for clients have been polled.
    pub(super) fn polls(&self) -> u64 {
        self.polls.load(Relaxed)
    }

    /// Rests until the worker works again, or is called: then it returns `true`, and the worker has to answer by a
    /// [beat](Self::beat).
    pub async fn rest(&self) -> bool {
        self.rests.store(true, Relaxed);
        self.roused.notified().await;
        self.is_called.store(false, Relaxed);
        self.rests.load(Relaxed)
    }

    /// Calls a worker at rest, which then beats. Returns whether it is called now and was not before.
    pub fn call(&self) -> bool {
        let calls = self.rests() && !self.is_called.swap(true, Relaxed);
        if calls {
            self.roused.notify_one();
        }
        calls
    }

    /// Whether the worker rests, so that no beat can be expected unless it [is called](Self::is_called).
    #[must_use]
    pub fn rests(&self) -> bool {
        self.rests.load(Relaxed)
    }

    /// Whether a call is not answered yet.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.is_called.load(Relaxed)
    }

    pub(super) fn set_progress(&self, progress: DrainProgress) {
        self.progress.store(progress as u8, Relaxed);
    }

    /// Whether the worker has reached this progress.
    #[must_use]
    pub fn has_reached(&self, progress: DrainProgress) -> bool {
        self.progress.load(Relaxed) >= progress as u8
    }
}

/// A task that works for clients: each poll of it is work.
pub(super) struct WorkingTask<F> {
    // Boxed: a task is not moved once it was polled.
    task: Pin<Box<F>>,
    heartbeat: Arc<Heartbeat>,
}

impl<F: Future> WorkingTask<F> {
    pub(super) fn new(task: F, heartbeat: &Arc<Heartbeat>) -> Self {
        Self { task: Box::pin(task), heartbeat: Arc::clone(heartbeat) }
    }
}

impl<F: Future> Future for WorkingTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.heartbeat.works();
        this.task.as_mut().poll(cx)
    }
}

/// Waits until a worker works, at most a minute; returns at once if one does.
pub async fn until_any_works(heartbeats: &[Arc<Heartbeat>]) {
    let mut works: Vec<_> = heartbeats.iter().map(|heartbeat| Box::pin(heartbeat.works.notified())).collect();
    // Enabled before the check, so no change is missed between check and wait.
    works.iter_mut().for_each(|works| _ = works.as_mut().enable());
    if heartbeats.iter().all(|heartbeat| heartbeat.rests()) {
        // A time-out is as good: what was missed is seen then.
        let _ = timeout(MAX_REST, poll_fn(|cx| poll_any(&mut works, cx))).await;
    }
}

fn poll_any(works: &mut [Pin<Box<Notified<'_>>>], cx: &mut Context<'_>) -> Poll<()> {
    match works.iter_mut().any(|works| works.as_mut().poll(cx).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }
}

const MAX_REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeats() -> [Arc<Heartbeat>; 2] {
        Default::default()
    }

    async fn is_any_working(heartbeats: &[Arc<Heartbeat>]) -> bool {
        timeout(Duration::from_secs(1), until_any_works(heartbeats)).await.is_ok()
    }

    /// Lets each of them rest, in their own tasks.
    async fn rest(heartbeats: &[Arc<Heartbeat>]) {
        for heartbeat in heartbeats {
            let heartbeat = Arc::clone(heartbeat);
            tokio::spawn(async move {
                while heartbeat.rest().await {
                    heartbeat.beat();
                }
            });
        }
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_after_workers_waits_while_all_of_them_rest() {
        let heartbeats = heartbeats();
        assert!(is_any_working(&heartbeats).await);
        rest(&heartbeats[..1]).await;
        assert!(is_any_working(&heartbeats).await, "the other one works");
        rest(&heartbeats[1..]).await;
        assert!(!is_any_working(&heartbeats).await);
        let (_, works) = tokio::join!(async { heartbeats[1].works() }, is_any_working(&heartbeats));
        assert!(works && is_any_working(&heartbeats).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_answered_and_is_no_work() {
        let heartbeats = heartbeats();
        assert!(!heartbeats[0].call(), "who works beats without a call");
        rest(&heartbeats).await;
        assert!(heartbeats[0].rests() && heartbeats[0].call());
        assert!(heartbeats[0].is_called() && !heartbeats[0].call(), "it is called already");
        assert!(!is_any_working(&heartbeats).await);
        assert_eq!(heartbeats[0].beats(), 1);
        assert!(heartbeats[0].rests() && !heartbeats[0].is_called());
        WorkingTask::new(async {}, &heartbeats[0]).await;
        assert!(is_any_working(&heartbeats).await && !heartbeats[0].rests());
    }
}
