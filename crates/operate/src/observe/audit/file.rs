//! The file of the audit log: locked, read at its end, written and flushed for each line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::chain::{LineHash, LineLink};

/// The open file, and what this process knows of its end.
#[derive(Debug)]
pub(super) struct AuditFile {
    file: File,
    known: KnownLine,
}

/// The last line that this process wrote or found.
#[derive(Debug, Clone, Copy, Default)]
struct KnownLine {
    start: u64,
    /// Without the line feed.
    end: u64,
    hash: LineHash,
}

/// Why a line cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteAuditError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("its last line is longer than {} KiB: this is no audit log", MAX_LINE / 1024)]
    Foreign,
    #[error("another process locks it")]
    Locked,
    #[error("the line would be longer than {} KiB", MAX_LINE / 1024)]
    TooLong,
}

impl AuditFile {
    pub(super) fn open(path: &Path) -> Result<Self, WriteAuditError> {
        let file = open(path)?;
        let _held = HeldLock::of(&file)?;
        let (known, is_torn) = end_of(&file)?;
        if is_torn {
            tracing::warn!(
                "the last line of the audit log {} has no end: a gate ended while it wrote",
                path.display()
            );
        }
        Ok(Self { file: file.try_clone()?, known })
    }

    pub(super) fn head(&self) -> LineHash {
        self.known.hash
    }

    /// Writes the line that `line` makes of the hash of the one before, and of whether that one has no end.
    pub(super) fn append(
        &mut self,
        path: &Path,
        line: impl Fn(LineHash, bool) -> Result<Vec<u8>, WriteAuditError>,
        rotation: impl Fn(LineHash, bool) -> Result<Vec<u8>, WriteAuditError>,
    ) -> Result<LineHash, WriteAuditError> {
        for _ in 0..SWITCH_TRIES {
            if self.is_replaced(path) {
                self.reopen(path, &rotation)?;
            }
            let held = HeldLock::of(&self.file)?;
            // Another process may have been first, while this one waited for the lock.
            if self.is_replaced(path) {
                continue;
            }
            let (previous, is_torn) = self.previous()?;
            let written = write(&self.file, line(previous, is_torn)?, is_torn)?;
            drop(held);
            self.known = written;
            return Ok(self.known.hash);
        }
        Err(WriteAuditError::Locked)
    }

    /// Goes on in the file that has the name now, after a first line if it is empty.
    pub(super) fn reopen(
        &mut self,
        path: &Path,
        line: impl Fn(LineHash, bool) -> Result<Vec<u8>, WriteAuditError>,
    ) -> Result<(), WriteAuditError> {
        let new = open(path)?;
        let (old_about, new_about) = (self.file.metadata()?, new.metadata()?);
        if (old_about.dev(), old_about.ino()) == (new_about.dev(), new_about.ino()) {
            return Ok(());
        }
        let old = HeldLock::of(&self.file)?;
        let _new = HeldLock::of(&new)?;
        let (head, is_torn) = self.previous()?;
        self.known = match new.metadata()?.len() {
            0 => write(&new, line(head, is_torn)?, false)?,
            // Another process was first. Otherwise the next line shows that the file is not the next one.
            _ if first_link(&new)? == Some(head) => end_of(&new)?.0,
            _ => {
                tracing::error!("the audit log {} was replaced by another file", path.display());
                KnownLine { start: 0, end: 0, hash: head }
            }
        };
        drop(old);
        self.file = new.try_clone()?;
        Ok(())
    }

    /// Whether another process goes on in another file of this name, or the file has no name any more. A file that was
    /// only renamed is in use until the gate hears of it.
    fn is_replaced(&self, path: &Path) -> bool {
        let Ok(own) = self.file.metadata() else { return false };
        match std::fs::metadata(path) {
            Ok(named) => (named.dev(), named.ino()) != (own.dev(), own.ino()) && named.len() > 0,
            Err(_) => own.nlink() == 0,
        }
    }

    /// What the next line follows, and whether that has no end. If this process' last line is not where it was, the next
    /// line still names it: the chain is broken for all to see.
    fn previous(&self) -> Result<(LineHash, bool), WriteAuditError> {
        let KnownLine { start, end, hash } = self.known;
        let is_there = match usize::try_from(end - start) {
            Ok(0) if hash.is_of_nothing() => true,
            Ok(length) if length > 0 && length <= MAX_LINE => {
                let mut line = vec![0; length];
                self.file.read_exact_at(&mut line, start).is_ok() && LineHash::of(&line) == hash
            }
            _ => false,
        };
        let (last, is_torn) = end_of(&self.file)?;
        if is_there {
            return Ok((last.hash, is_torn));
        }
        tracing::error!(
            "the audit log was changed by others: the last line of this gate, {hash}, is not in its place"
        );
        Ok((hash, is_torn))
    }
}

/// A lock of a file, until it is dropped. Processes that share an open file share its lock.
struct HeldLock<'f>(&'f File);

impl<'f> HeldLock<'f> {
    fn of(file: &'f File) -> Result<Self, WriteAuditError> {
        for _ in 0..LOCK_TIMEOUT.as_millis() / LOCK_PAUSE.as_millis() {
            match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(LOCK_PAUSE),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Err(WriteAuditError::Locked)
    }
}

impl Drop for HeldLock<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

fn open(path: &Path) -> Result<File, WriteAuditError> {
    // A pipe would wait for its other end.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(WriteAuditError::NotRegular),
    }
}

/// Appends a line and waits for the disk; a line that fails is removed again.
fn write(mut file: &File, mut line: Vec<u8>, is_torn: bool) -> Result<KnownLine, WriteAuditError> {
    if line.len() > MAX_LINE {
        return Err(WriteAuditError::TooLong);
    }
    let hash = LineHash::of(&line);
    let length = line.len() as u64;
    let before = file.metadata()?.len();
    if is_torn {
        line.insert(0, b'\n');
    }
    line.push(b'\n');
    if let Err(error) = file.write_all(&line).and_then(|()| file.sync_data()) {
        let _ = file.set_len(before);
        return Err(error.into());
    }
    let start = before + u64::from(is_torn);
    Ok(KnownLine { start, end: start + length, hash })
}

/// The last line, and whether it has no end.
fn end_of(file: &File) -> Result<(KnownLine, bool), WriteAuditError> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok((KnownLine::default(), false));
    }
    let start = length.saturating_sub(MAX_LINE as u64 + 2);
    let mut bytes = vec![0; usize::try_from(length - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    let is_torn = bytes.last() != Some(&b'\n');
    let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let at = match lines.iter().rposition(|byte| *byte == b'\n') {
        Some(feed) => feed + 1,
        None if start == 0 => 0,
        None => return Err(WriteAuditError::Foreign),
    };
    let line = lines.get(at..).unwrap_or_default();
    let (from, hash) = (start + at as u64, LineHash::of(line));
    Ok((KnownLine { start: from, end: from + line.len() as u64, hash }, is_torn))
}

/// What the first line follows.
fn first_link(file: &File) -> Result<Option<LineHash>, WriteAuditError> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(MAX_LINE).min(MAX_LINE + 1);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<LineLink>(line).ok().map(|link| link.previous))
}

/// Bytes of a line.
pub(super) const MAX_LINE: usize = 64 * 1024;
const SWITCH_TRIES: u32 = 3;
/// How long a line waits for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);
