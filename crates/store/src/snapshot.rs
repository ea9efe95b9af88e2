//! The snapshot file (`store.snapshot`): buckets over a restart.
//!
//! The file is a magic line, a checksum and the buckets. It is written next to the old one and renamed over it, so a
//! whole file exists at any time. Only its owner may read it, because it holds the secret of the bucket keys. Nothing
//! is restored before the checksum is verified, and an unreadable file is moved aside, not removed. Taking and
//! restoring snapshots is left to the engine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::memory::{BucketsSnapshot, EncodedSpec};

/// All buckets of a gate, and what operators changed for a while.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The secret that bucket keys are derived with.
    pub secret: [u64; 2],
    /// One entry for each kind of each limit.
    pub limits: Vec<LimitSnapshot>,
    /// The changes of operators, as the engine encodes them.
    pub overrides: Vec<u8>,
}

/// The buckets of one kind of one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSnapshot {
    /// The name of the limit.
    pub name: String,
    /// The name of the limit kind.
    pub kind: String,
    /// The names of the client classes, and the spec of each.
    pub classes: Vec<(String, EncodedSpec)>,
    /// The states of the buckets.
    pub buckets: BucketsSnapshot,
}

/// Why a snapshot file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file has another version, or is not a snapshot.
    #[error("it is not a snapshot of this version")]
    Foreign,
    /// The file changed after it was written, or was cut short.
    #[error("it is damaged")]
    Damaged,
}

impl Snapshot {
    /// Encodes the snapshot.
    ///
    /// # Errors
    /// None in practice: every snapshot can be encoded.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let content = postcard::to_stdvec(&(&self.secret, &self.limits)).map_err(io::Error::other)?;
        // Behind the buckets, where earlier versions look at nothing.
        let content = postcard::to_extend(&self.overrides, content).map_err(io::Error::other)?;
        Ok([MAGIC, &Sha256::digest(&content)[..], &content].concat())
    }

    /// Decodes a snapshot.
    ///
    /// # Errors
    /// [`SnapshotError::Foreign`] and [`SnapshotError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::Foreign)?;
        let (checksum, content) = rest.split_at_checked(32).ok_or(SnapshotError::Damaged)?;
        if Sha256::digest(content)[..] != *checksum {
            return Err(SnapshotError::Damaged);
        }
        let ((secret, limits), rest) =
            postcard::take_from_bytes(content).map_err(|_| SnapshotError::Damaged)?;
        // Earlier versions wrote only buckets.
        let overrides = if rest.is_empty() { Ok(Vec::new()) } else { postcard::from_bytes(rest) };
        Ok(Self { secret, limits, overrides: overrides.map_err(|_| SnapshotError::Damaged)? })
    }

    /// Replaces the file at `path`.
    ///
    /// # Errors
    /// What the system reports; the old file stays intact.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &self.encode()?)
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn read(path: &Path) -> Result<Option<Self>, SnapshotError> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.read_to_end(&mut bytes)?,
        };
        Self::decode(&bytes).map(Some)
    }
}

/// Replaces a file, which only its owner may read. Whatever happens meanwhile, the old one or the new one is there.
///
/// # Errors
/// What the system reports; the old file stays intact.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = with_suffix(path, ".new");
    // A file left by a crash may be readable by other users.
    if let Err(error) = fs::remove_file(&beside)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    // Without this, a crash of the machine may undo the rename.
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Moves an unreadable file aside and returns its new path.
///
/// # Errors
/// What the system reports.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = with_suffix(path, ".damaged");
    fs::rename(path, &aside)?;
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The number rises with each change of the format.
const MAGIC: &[u8] = b"tollgate buckets 1\n";

#[cfg(test)]
mod tests;
