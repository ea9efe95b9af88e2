//! The queue of messages on their way to standard error.
//!
//! A message that finds the queue full is dropped silently: there is no reader to tell.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::time::Span;

/// Takes one message for each `write`; never blocks and never fails.
#[derive(Debug, Clone)]
pub(super) struct MessageQueue(SyncSender<QueuedMessage>);

enum QueuedMessage {
    Message(Vec<u8>),
    /// Dropped when everything before it has been written.
    Flush {
        _reached: SyncSender<()>,
    },
}

impl MessageQueue {
    /// Starts the writing thread, which calls `first` first. If no thread starts, messages are dropped.
    pub(super) fn start(sink: impl Write + Send + 'static, first: impl FnOnce() + Send + 'static) -> Self {
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("messages".to_owned());
        let write = move || {
            first();
            write_all(&waiting, sink);
        };
        drop(thread.spawn(write));
        Self(queue)
    }

    /// Waits until everything queued now is written, but at most `timeout`.
    pub(super) fn flush_within(&self, timeout: Span) {
        let (reached, wait) = sync_channel(0);
        if self.0.try_send(QueuedMessage::Flush { _reached: reached }).is_ok() {
            // The end of the wait is an error: the writer drops the other end.
            let _ = wait.recv_timeout(timeout.to_std());
        }
    }
}

impl Write for MessageQueue {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(QueuedMessage::Message(message.to_vec()));
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(waiting: &Receiver<QueuedMessage>, mut sink: impl Write) {
    for entry in waiting {
        if let QueuedMessage::Message(message) = entry {
            // A closed standard error is no reason to stop serving.
            let _ = sink.write_all(&message);
        }
    }
}

const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Probe {
        blocked: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Probe {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.blocked.recv();
            let _ = self.written.send(text.to_vec());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_reading_blocks_no_writer() {
        let (release, blocked) = channel::<()>();
        let (sender, written) = channel();
        let mut queue = MessageQueue::start(Probe { blocked, written: sender }, || ());
        (0..2 * MAX_WAITING).for_each(|_| assert_eq!(queue.write(b"message\n").unwrap(), 8));
        queue.flush_within(Span::ZERO);
        drop(release);
        drop(queue);
        let count = written.iter().count();
        assert!((MAX_WAITING..=MAX_WAITING + 1).contains(&count), "{count}");
    }

    #[test]
    fn what_waits_is_written_before_a_flush_returns() {
        let (release, blocked) = channel::<()>();
        drop(release);
        let (sender, written) = channel();
        let mut queue = MessageQueue::start(Probe { blocked, written: sender }, || ());
        queue.write_all(b"one\n").unwrap();
        queue.flush_within(Span::from_secs(20));
        assert_eq!(written.try_recv().unwrap(), b"one\n");
    }

    #[test]
    fn a_closed_standard_error_is_survived() {
        let mut queue =
            MessageQueue::start(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap(), || ());
        queue.write_all(b"one\n").unwrap();
        queue.write_all(b"two\n").unwrap();
        queue.flush_within(Span::from_secs(20));
    }
}
