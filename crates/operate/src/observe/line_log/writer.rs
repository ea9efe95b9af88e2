//! The thread that writes a log.
//!
//! It alone touches the file, so a full disk or a stuck pipe stops no other thread. A line that was half written when
//! the disk filled up is ended before the next one begins, so one event stays one line.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use super::buffer::LineBatch;
use super::{LineSink, LogState, MAX_WAITING, lock};
use crate::observe::log_throttle::LogThrottle;
use crate::time::{Clock, Span, Time};

/// Writes batches of lines.
#[derive(Debug)]
pub(super) struct LogWriter<W> {
    sink: W,
    name: &'static str,
    shared: Arc<LogState>,
    waiting: Receiver<LineBatch>,
    clock: Clock,
    swept: Time,
    /// Whether the last line was written in part.
    torn: bool,
    last_error: Option<io::Error>,
    reports: LogThrottle,
    /// Lost lines that have been reported.
    reported: u64,
}

impl<W: LineSink> LogWriter<W> {
    pub(super) fn new(
        sink: W,
        name: &'static str,
        shared: Arc<LogState>,
        waiting: Receiver<LineBatch>,
        clock: Clock,
    ) -> Self {
        Self {
            sink,
            name,
            waiting,
            swept: clock.now(),
            clock,
            torn: false,
            last_error: None,
            reports: LogThrottle::every(BETWEEN_REPORTS),
            reported: shared.dropped.get(),
            shared,
        }
    }

    /// Writes until the log is closed.
    pub(super) fn run(mut self) {
        let mut rests = false;
        loop {
            let received = self.receive(rests);
            let ending = self.shared.stopping.load(Ordering::Acquire)
                || matches!(received, Err(RecvTimeoutError::Disconnected));
            let now = self.clock.now();
            let idle = received.is_err();
            if let Ok(batch) = received {
                self.write(&batch);
            }
            let mut found = !idle;
            if idle || ending || now.since(self.swept) >= BETWEEN_SWEEPS {
                found |= self.sweep(now);
            }
            if ending {
                return;
            }
            rests = !found && self.can_rest(now);
        }
    }

    /// Waits for the next batch: until the next sweep is due, or as long as it takes.
    fn receive(&self, rests: bool) -> Result<LineBatch, RecvTimeoutError> {
        if !rests {
            return self.waiting.recv_timeout(BETWEEN_SWEEPS.to_std());
        }
        let received = self.waiting.recv().map_err(|_| RecvTimeoutError::Disconnected);
        self.shared.resting.store(false, Ordering::Relaxed);
        received
    }

    /// Whether no line is left, so that the thread with the next one has to wake the writer.
    fn can_rest(&mut self, now: Time) -> bool {
        self.shared.resting.store(true, Ordering::Relaxed);
        // A line that came before this store was seen is found here: both sides hold the lock of its buffer.
        let rests = !self.sweep(now) && self.shared.dropped.get() == self.reported;
        self.shared.resting.store(rests, Ordering::Relaxed);
        rests
    }

    /// Writes the queue and the buffers of the threads, so that a thread's lines stay in order. Returns whether there was
    /// anything.
    fn sweep(&mut self, now: Time) -> bool {
        self.swept = now;
        let mut found = false;
        let shared = Arc::clone(&self.shared);
        for buffer in shared.buffers.iter() {
            let (sent, rest) = {
                let mut buffer = lock(buffer);
                // Nobody adds to the buffer or sends a batch of it meanwhile: what was sent is older than what is left.
                (self.waiting.try_iter().take(MAX_WAITING).collect::<Vec<_>>(), buffer.take())
            };
            found |= !sent.is_empty() || rest.lines > 0;
            sent.iter().chain([&rest]).for_each(|batch| self.write(batch));
        }
        self.shared.sweeps.fetch_add(1, Ordering::Release);
        self.report(now);
        found
    }

    fn write(&mut self, batch: &LineBatch) {
        let shared = Arc::clone(&self.shared);
        let _writing = lock(&shared.writing);
        if let Some(file) = lock(&self.shared.replacement).take() {
            // One that `forget` wrote ends with the same half of a line.
            self.torn &= file.metadata().is_ok_and(|about| about.len() > 0);
            self.sink.replace(file);
        }
        if batch.text.is_empty() {
            return;
        }
        if self.torn && self.put(b"\n").is_err() {
            self.shared.dropped.inc_by(batch.lines);
            return;
        }
        let mut lost = 0;
        if let Err(rest) = self.put(&batch.text) {
            let feeds = rest.iter().filter(|&&byte| byte == b'\n').count();
            lost = u64::try_from(feeds).unwrap_or(u64::MAX);
            self.shared.dropped.inc_by(lost);
        }
        if let Some(counts) = self.shared.counts.get() {
            batch.hours.add_to(&mut lock(counts), lost);
        }
    }

    /// Returns the part that could not be written.
    fn put<'t>(&mut self, mut text: &'t [u8]) -> Result<(), &'t [u8]> {
        while !text.is_empty() {
            match self.sink.write(text) {
                Ok(written) if written > 0 => {
                    let (done, rest) = text.split_at(written);
                    self.torn = done.last() != Some(&b'\n');
                    text = rest;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                failed => {
                    self.last_error = Some(failed.err().unwrap_or_else(|| ErrorKind::WriteZero.into()));
                    return Err(text);
                }
            }
        }
        Ok(())
    }

    fn report(&mut self, now: Time) {
        let lost = self.shared.dropped.get();
        if lost == self.reported || self.reports.allow(now).is_none() {
            return;
        }
        let (name, lines) = (self.name, lost - self.reported);
        self.reported = lost;
        match self.last_error.take() {
            Some(error) => tracing::error!(lines, %error, "the {name} cannot be written"),
            None => tracing::warn!(lines, "the {name} cannot keep up, lines were dropped"),
        }
    }
}

/// The longest time that an idle worker's line stays in memory.
const BETWEEN_SWEEPS: Span = Span::from_millis(150);
const BETWEEN_REPORTS: Span = Span::from_secs(10);
