//! The audit log: a line of JSON for each change by an operator, each with the SHA-256 of the line before it.
//!
//! A line that was removed, changed, inserted or moved breaks the chain, which [`verify`] finds. The chain has no key: who
//! may write the file may also write all of its end again, and may cut it off. Both show where a hash of the head is
//! known from elsewhere: the running gate knows its own last line, `/api/v1/status` shows its hash, and a store that gates
//! share has it.
//!
//! Several processes may have the file open while one replaces the other, so each line is written under a lock of the
//! file, after what the file ends with then. A line is on the disk when [`AuditLog::append`] returns.

mod chain;
mod file;
pub mod gate_lines;
mod read_line;
mod shared_line;
mod store_changes;
mod tail;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

pub use self::chain::LineHash;
pub use self::read_line::{AuditLineError, ReadAuditLine};
pub use self::shared_line::{SharedLineForm, without_person};
pub use self::store_changes::StoreChanges;
pub use self::tail::{AuditTail, hashes_found, lines_after, newest_lines};
pub use self::verify::{AuditBreak, AuditSummary, verify};

use self::chain::ROTATED;
use self::file::{AuditFile, WriteAuditError};
use super::timestamp::rfc3339;
use crate::time::Time;

/// Writes the lines.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    /// The name of the machine.
    gate: String,
    /// Next to the file, which may be busy for a while.
    head: Mutex<LineHash>,
    file: Mutex<AuditFile>,
    /// Lines that this process has appended.
    appended: AtomicU64,
    /// Those of them that the shared store has; `None` before it has had all of them once.
    shared: Mutex<Option<u64>>,
}

/// A change, or what became of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditEntry {
    /// The name of the token, or `uid` with the number of the user.
    pub who: String,
    /// The process at the Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The address of a caller over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As in `bucket.reset`.
    pub what: &'static str,
    /// What it is about, as lists and logs write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The reason; may be empty.
    pub why: String,
    /// What is in force before it.
    pub before: Value,
    /// What it puts in force.
    pub after: Value,
    /// Why it was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The hash of the line that announced it, if this one tells what became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<LineHash>,
}

/// A line as it is written.
#[derive(Serialize)]
struct AuditLine<'e> {
    time: &'e str,
    gate: &'e str,
    #[serde(flatten)]
    entry: &'e AuditEntry,
    /// Whether the line before this one has no end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    torn: bool,
    previous: LineHash,
}

/// Why a change cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct AuditError {
    path: PathBuf,
    why: WriteAuditError,
}

impl AuditError {
    /// The thread that wrote has ended.
    pub(super) fn interrupted() -> Self {
        Self { path: PathBuf::new(), why: WriteAuditError::Io(io::ErrorKind::Interrupted.into()) }
    }
}

impl AuditLog {
    /// Opens the file, or makes it, readable and writable for its owner only. `gate` is the name of this machine.
    ///
    /// # Errors
    /// If it cannot be opened, is no regular file, or does not end with a line.
    pub fn open(path: PathBuf, gate: String) -> Result<Self, AuditError> {
        match AuditFile::open(&path) {
            Ok(file) => Ok(Self {
                path,
                gate,
                head: Mutex::new(file.head()),
                file: Mutex::new(file),
                appended: AtomicU64::default(),
                shared: Mutex::default(),
            }),
            Err(why) => Err(AuditError { path, why }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the machine, as its lines have it.
    #[must_use]
    pub fn gate(&self) -> &str {
        &self.gate
    }

    /// The number of lines that this process has appended. All of them are in the file.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.appended.load(Relaxed)
    }

    /// Notes how many of them the shared store has.
    pub fn note_shared(&self, lines: u64) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines);
    }

    /// How many of them the shared store has not yet; `None` if it never had all of them, or no store takes them.
    #[must_use]
    pub fn waiting(&self) -> Option<u64> {
        let shared = *self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.map(|shared| self.appended().saturating_sub(shared))
    }

    /// The hash of the last line that this process wrote or found.
    #[must_use]
    pub fn head(&self) -> LineHash {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line, and returns its hash. Waits for the disk, and up to two seconds for another process.
    ///
    /// # Errors
    /// If the line is not on the disk; what was written of it is removed.
    pub fn append(&self, entry: &AuditEntry, at: Time) -> Result<LineHash, AuditError> {
        let rotation = rotation();
        let mut file = self.lock();
        let written = file.append(&self.path, self.line(entry, at), self.line(&rotation, at));
        self.appended.fetch_add(u64::from(written.is_ok()), Relaxed);
        self.note(&file);
        written.map_err(|why| AuditError { path: self.path.clone(), why })
    }

    /// Opens the file again under its name, as after `logrotate` has renamed it. The first line of the new file goes on
    /// with the chain of the old one.
    ///
    /// # Errors
    /// If that line cannot be written; then the old file stays in use.
    pub fn reopen(&self, at: Time) -> Result<(), AuditError> {
        let rotation = rotation();
        let mut file = self.lock();
        let reopened = file.reopen(&self.path, self.line(&rotation, at));
        self.note(&file);
        reopened.map_err(|why| AuditError { path: self.path.clone(), why })
    }

    fn line(
        &self,
        entry: &AuditEntry,
        at: Time,
    ) -> impl Fn(LineHash, bool) -> Result<Vec<u8>, WriteAuditError> {
        let time = rfc3339(at);
        move |previous, torn| {
            let line = AuditLine { time: &time, gate: &self.gate, entry, torn, previous };
            serde_json::to_vec(&line).map_err(|error| WriteAuditError::Io(io::Error::from(error)))
        }
    }

    fn note(&self, file: &AuditFile) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = file.head();
    }

    fn lock(&self) -> MutexGuard<'_, AuditFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first line of a file that goes on with the chain of another one.
fn rotation() -> AuditEntry {
    AuditEntry { who: "gate".to_owned(), what: ROTATED, ..AuditEntry::default() }
}

#[cfg(test)]
mod tests;
