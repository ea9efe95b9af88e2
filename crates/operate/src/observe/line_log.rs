//! A log of lines about responses, written by its own thread: the access log, and the log of every decision.
//!
//! A request formats its lines into memory and goes on: logging never blocks a request. The writer sweeps the buffers
//! of all threads several times a second, so an idle worker's lines are written, too; while there are none, it sleeps
//! until one comes. Lines that it cannot keep up with are dropped and counted. What a line says is left to a
//! [`LineFormat`].

mod buffer;
mod hour_counts;
pub mod rewrite;
pub mod rotated;
mod syslog;
mod writer;
pub mod zstd;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use prometheus_client::metrics::counter::Counter;

use self::buffer::{LineBatch, LineBuffer};
pub use self::hour_counts::hour_of;
use self::syslog::SyslogSocket;
use self::writer::LogWriter;
use super::settings::LogTarget;
use super::shards::Shards;
use crate::event::{AccessLogEntry, Event, EventListener};
use crate::time::{Clock, Span};

/// What the lines of a log say.
pub trait LineFormat: std::fmt::Debug + Send + Sync {
    /// How the second of a request's arrival is written, as `strftime` says it.
    fn second(&self) -> &'static str;

    /// Appends the lines about a response, each with its line feed, and returns their number. `second` is the second of
    /// the request's arrival.
    fn write(&self, text: &mut Vec<u8>, second: &str, entry: &AccessLogEntry) -> u64;
}

/// Writes lines for each response.
#[derive(Debug)]
pub struct LineLog {
    /// As in "the access log".
    name: &'static str,
    target: LogTarget,
    format: Box<dyn LineFormat>,
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
    /// Written lines by hour, where they are counted, since they were last told.
    counts: OnceLock<Mutex<BTreeMap<u64, u64>>>,
    /// Opened by [`LineLog::reopen`], picked up by the writer before the next line.
    replacement: Mutex<Option<File>>,
    /// Held while lines are written.
    writing: Mutex<()>,
    /// How often the writer has collected all lines.
    sweeps: AtomicU64,
    stopping: AtomicBool,
    /// The writer waits without sweeping: the thread with the next line wakes it.
    resting: AtomicBool,
}

impl LineLog {
    /// Opens the target and starts the writer. `name` is in messages, as in "access log"; `dropped` counts the lines
    /// that are lost.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or no thread can be started.
    pub fn open(
        name: &'static str,
        target: LogTarget,
        format: impl LineFormat + 'static,
        dropped: Counter,
        clock: Clock,
    ) -> io::Result<Self> {
        match &target {
            // Not `io::stdout()`, which keeps a failed write and repeats it in the middle of another line.
            LogTarget::StandardOutput => {
                let sink = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Self::over(sink, name, target, format, dropped, clock)
            }
            LogTarget::File(path) => {
                let sink = open_file(path)?;
                Self::over(sink, name, target, format, dropped, clock)
            }
            LogTarget::Syslog(address) => {
                let sink = SyslogSocket::new(address.clone());
                Self::over(sink, name, target, format, dropped, clock)
            }
        }
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.target {
            LogTarget::File(path) => Some(path),
            LogTarget::StandardOutput | LogTarget::Syslog(_) => None,
        }
    }

    /// Counts the lines that are written from now on, by the hour in which their requests arrived.
    pub fn count_lines(&self) {
        self.shared.counts.get_or_init(Mutex::default);
    }

    /// The lines that were written since this was last asked, by [hour](hour_of), and all that were lost.
    pub fn take_counts(&self) -> (BTreeMap<u64, u64>, u64) {
        let counts = self.shared.counts.get().map(|counts| std::mem::take(&mut *lock(counts)));
        (counts.unwrap_or_default(), self.shared.dropped.get())
    }

    /// Takes counts back that nobody could be told.
    pub fn give_back(&self, taken: BTreeMap<u64, u64>) {
        let Some(counts) = self.shared.counts.get() else { return };
        let mut counts = lock(counts);
        taken.into_iter().for_each(|(hour, lines)| *counts.entry(hour).or_default() += lines);
    }

    /// Reopens the file under its name, as after `logrotate` has renamed it; later lines go there. Other targets stay.
    ///
    /// # Errors
    /// If the file cannot be opened; then the old one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        if let LogTarget::File(path) = &self.target {
            // Held meanwhile: the name may be given to another file.
            let mut replacement = lock(&self.shared.replacement);
            *replacement = Some(open_file(path)?);
            drop(replacement);
            self.wake();
        }
        Ok(())
    }

    /// Has all lines written that were formatted before, and returns the number of sweeps after which they are: see
    /// [`has_swept`](Self::has_swept).
    #[must_use]
    pub fn flush(&self) -> u64 {
        let sweeps = self.shared.sweeps.load(Ordering::Acquire);
        self.wake();
        // One may be under way that has passed some buffers.
        sweeps + 2
    }

    /// Whether the writer has swept so often.
    #[must_use]
    pub fn has_swept(&self, sweeps: u64) -> bool {
        let has = self.shared.sweeps.load(Ordering::Acquire) >= sweeps;
        if !has {
            self.wake();
        }
        has
    }

    /// Keeps the writer from its file until the result is dropped.
    fn hold(&self) -> HeldWriter<'_> {
        HeldWriter { _writing: lock(&self.shared.writing), replacement: lock(&self.shared.replacement) }
    }

    /// Writes the rest and ends the writer; waits at most two seconds. Later lines are lost.
    pub fn close(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.wake();
        // The end of the wait is an error: the writer drops its end of the channel.
        let _ = lock(&self.ended).recv_timeout(CLOSE_TIMEOUT.to_std());
    }

    fn over(
        sink: impl LineSink + Send + 'static,
        name: &'static str,
        target: LogTarget,
        format: impl LineFormat + 'static,
        dropped: Counter,
        clock: Clock,
    ) -> io::Result<Self> {
        let (batches, waiting) = sync_channel(MAX_WAITING);
        let (alive, ended) = sync_channel(0);
        let shared = Arc::new(LogState {
            buffers: Shards::default(),
            dropped,
            counts: OnceLock::new(),
            replacement: Mutex::default(),
            writing: Mutex::default(),
            sweeps: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            resting: AtomicBool::new(false),
        });
        let writer = LogWriter::new(sink, name, Arc::clone(&shared), waiting, clock);
        std::thread::Builder::new().name(name.replace(' ', "-")).spawn(move || {
            writer.run();
            drop(alive);
        })?;
        Ok(Self { name, target, format: Box::new(format), shared, batches, ended: Mutex::new(ended) })
    }

    /// Wakes the writer; a full channel needs no waking.
    fn wake(&self) {
        let _ = self.batches.try_send(LineBatch::default());
    }
}

impl EventListener for LineLog {
    fn on_event(&self, event: &Event<'_>) {
        let Event::RequestCompleted(entry) = event else { return };
        let is_counted = self.shared.counts.get().is_some();
        // A full buffer is sent under its lock: the writer takes no later line before it.
        let mut buffer = lock(self.shared.buffers.current());
        if let Some(batch) = buffer.write(&*self.format, entry, is_counted)
            && let Err(refused) = self.batches.try_send(batch)
        {
            let (std::sync::mpsc::TrySendError::Full(batch)
            | std::sync::mpsc::TrySendError::Disconnected(batch)) = refused;
            self.shared.dropped.inc_by(batch.lines);
        }
        drop(buffer);
        if self.shared.resting.load(Ordering::Relaxed) && self.shared.resting.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// A writer that waits.
struct HeldWriter<'l> {
    _writing: MutexGuard<'l, ()>,
    replacement: MutexGuard<'l, Option<File>>,
}

impl HeldWriter<'_> {
    /// The writer goes on in this file.
    fn go_on_in(mut self, file: File) {
        *self.replacement = Some(file);
    }
}

/// Where a writer puts lines.
trait LineSink: io::Write {
    /// Writes to this file from now on, if the sink is a file.
    fn replace(&mut self, file: File);
}

impl LineSink for File {
    fn replace(&mut self, file: File) {
        *self = file;
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

/// With buffers of 128 KiB this bounds the memory of lines of usual length: 2 MiB that wait, and as much that is written.
const MAX_WAITING: usize = 16;

const CLOSE_TIMEOUT: Span = Span::from_secs(2);

#[cfg(test)]
mod tests;
