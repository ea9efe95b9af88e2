//! Spans or log records on their way from requests to the thread that sends them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use prometheus_client::metrics::counter::Counter;

/// What waits for the next batch. What finds no room is not even made: a flood costs a counter.
#[derive(Debug)]
pub(super) struct ExportQueue<T> {
    sender: SyncSender<T>,
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
}

/// The end of the queue.
pub(super) struct QueuedExports<T> {
    receiver: Receiver<T>,
    waiting: Arc<AtomicUsize>,
}

impl<T> ExportQueue<T> {
    pub(super) fn new(dropped: Counter) -> (Self, QueuedExports<T>) {
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let waiting = Arc::new(AtomicUsize::new(0));
        (Self { sender, waiting: Arc::clone(&waiting), dropped }, QueuedExports { receiver, waiting })
    }

    pub(super) fn push(&self, make: impl FnOnce() -> T) {
        if self.waiting.fetch_add(1, Relaxed) >= MAX_QUEUED {
            self.waiting.fetch_sub(1, Relaxed);
            self.dropped.inc();
        } else if self.sender.try_send(make()).is_err() {
            // The thread has ended.
            self.dropped.inc();
        }
    }
}

impl<T> QueuedExports<T> {
    /// The oldest ones.
    pub(super) fn batch(&self) -> Vec<T> {
        let batch: Vec<T> = self.receiver.try_iter().take(MAX_BATCH).collect();
        self.waiting.fetch_sub(batch.len(), Relaxed);
        batch
    }
}

/// Spans, and log records, that wait.
const MAX_QUEUED: usize = 2_048;
/// Spans, or log records, of one batch.
const MAX_BATCH: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_not_made() {
        let dropped = Counter::default();
        let (queue, queued) = ExportQueue::new(dropped.clone());
        (0..MAX_QUEUED).for_each(|number| queue.push(|| number));
        queue.push(|| unreachable!("there is no room"));
        assert_eq!((queued.batch().len(), dropped.get()), (MAX_BATCH, 1));
        queue.push(|| 0);
        let rest = [queued.batch(), queued.batch(), queued.batch()].map(|batch| batch.len());
        assert_eq!((rest, dropped.get()), ([MAX_BATCH, 1, 0], 1));
    }
}
