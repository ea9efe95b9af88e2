//! The access log: one line for each response, written by a thread of its own.
//!
//! A request formats its line into memory and goes on: logging never blocks a request. The writer sweeps the buffers of
//! all threads several times a second, so an idle worker's lines are written, too. Lines that it cannot keep up with
//! are dropped and counted.

mod buffer;
mod escape;
mod line;
mod writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;

use self::buffer::{LineBatch, LineBuffer};
use self::writer::LogWriter;
use super::client_format::ClientFormatter;
use super::settings::{AccessLogStyle, AccessTarget};
use super::shards::Shards;
use crate::event::{Event, EventListener};
use crate::time::{Clock, Span};

/// Writes a line for each response.
#[derive(Debug)]
pub struct AccessLog {
    target: AccessTarget,
    style: AccessLogStyle,
    clients: ClientFormatter,
    shared: Arc<LogState>,
    batches: SyncSender<LineBatch>,
    /// Disconnected when the writer has ended.
    ended: Mutex<Receiver<()>>,
}

/// State that requests and the writer share.
#[derive(Debug)]
struct LogState {
    buffers: Shards<Mutex<LineBuffer>>,
    dropped: Counter,
    /// Opened by [`AccessLog::reopen`], picked up by the writer before the next line.
    replacement: Mutex<Option<File>>,
    stopping: AtomicBool,
}

impl AccessLog {
    /// Opens the target and starts the writer. `dropped` counts the lines that are lost, as
    /// [`Metrics::lines_dropped`](super::metrics::Metrics::lines_dropped) shows them.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or no thread can be started.
    pub fn open(
        target: AccessTarget,
        style: AccessLogStyle,
        clients: ClientFormatter,
        dropped: Counter,
        clock: Clock,
    ) -> io::Result<Self> {
        let sink = open(&target)?;
        Self::over(sink, target, style, clients, dropped, clock)
    }

    /// Reopens the file under its name, as after `logrotate` has renamed it; later lines go there. Standard output
    /// stays.
    ///
    /// # Errors
    /// If the file cannot be opened; then the old one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        if let AccessTarget::File(path) = &self.target {
            *lock(&self.shared.replacement) = Some(open_file(path)?);
            self.wake();
        }
        Ok(())
    }

    /// Writes the rest and ends the writer; waits at most two seconds. Later lines are lost.
    pub fn close(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.wake();
        // The end of the wait is an error: the writer drops its end of the channel.
        let _ = lock(&self.ended).recv_timeout(CLOSE_TIMEOUT.to_std());
    }

    fn over(
        sink: impl io::Write + From<File> + Send + 'static,
        target: AccessTarget,
        style: AccessLogStyle,
        clients: ClientFormatter,
        dropped: Counter,
        clock: Clock,
    ) -> io::Result<Self> {
        let (batches, waiting) = sync_channel(MAX_WAITING);
        let (alive, ended) = sync_channel(0);
        let shared = Arc::new(LogState {
            buffers: Shards::default(),
            dropped,
            replacement: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let writer = LogWriter::new(sink, Arc::clone(&shared), waiting, clock);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writer.run();
            drop(alive);
        })?;
        Ok(Self { target, style, clients, shared, batches, ended: Mutex::new(ended) })
    }

    /// Wakes the writer; a full channel needs no waking.
    fn wake(&self) {
        let _ = self.batches.try_send(LineBatch::default());
    }
}

impl EventListener for AccessLog {
    fn on_event(&self, event: &Event<'_>) {
        let Event::RequestCompleted(entry) = event else { return };
        let full = lock(self.shared.buffers.current()).write(self.style, &self.clients, entry);
        if let Some(batch) = full
            && let Err(refused) = self.batches.try_send(batch)
        {
            let (std::sync::mpsc::TrySendError::Full(batch)
            | std::sync::mpsc::TrySendError::Disconnected(batch)) = refused;
            self.shared.dropped.inc_by(batch.lines);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

fn open(target: &AccessTarget) -> io::Result<File> {
    match target {
        // Not `io::stdout()`, which keeps a failed write and repeats it in the middle of another line.
        AccessTarget::StandardOutput => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        AccessTarget::File(path) => open_file(path),
    }
}

/// Readable by the group but not by others: it holds addresses.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// Ignores poisoning: a panic elsewhere does not make a line unusable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// With buffers of 32 KiB this bounds the memory of waiting lines: 2 MiB, for lines of usual length.
const MAX_WAITING: usize = 64;

const CLOSE_TIMEOUT: Span = Span::from_secs(2);

#[cfg(test)]
mod tests;
