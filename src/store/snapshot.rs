//! The snapshot file (`store.snapshot`): buckets over a restart.
//!
//! A line that says what it is, a checksum, then the buckets. It is written beside the old one and put in its place, so that
//! there is a whole one at any time; for its user alone, because the secret under which buckets are named stands in it. The
//! surprising thing: nothing in it is believed before all of it is known to be as it was written, and what cannot be read is
//! moved aside, not removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::memory::{BucketsSnapshot, EncodedSpec};

/// All buckets of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The secret under which they are named.
    pub secret: [u64; 2],
    /// Of each limit, and each facet of one.
    pub limits: Vec<LimitSnapshot>,
}

/// The buckets of one limit, or of one facet of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSnapshot {
    /// The limit.
    pub name: String,
    /// Which of its buckets.
    pub kind: String,
    /// The names of the classes of clients, and what was promised to each.
    pub classes: Vec<(String, EncodedSpec)>,
    /// They themselves.
    pub buckets: BucketsSnapshot,
}

/// Why there is nothing to go on from.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is of another version, or nobody's.
    #[error("it is not a snapshot of this version")]
    Foreign,
    /// It is not as it was written.
    #[error("it is damaged")]
    Damaged,
}

impl Snapshot {
    /// As bytes.
    ///
    /// # Errors
    /// None that can be thought of: what can be kept can be written.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let content = postcard::to_stdvec(self).map_err(io::Error::other)?;
        Ok([MAGIC, &Sha256::digest(&content)[..], &content].concat())
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`SnapshotError::Foreign`] and [`SnapshotError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::Foreign)?;
        let (checksum, content) = rest.split_at_checked(32).ok_or(SnapshotError::Damaged)?;
        if Sha256::digest(content)[..] != *checksum {
            return Err(SnapshotError::Damaged);
        }
        postcard::from_bytes(content).map_err(|_| SnapshotError::Damaged)
    }

    /// Puts it in the place of the file.
    ///
    /// # Errors
    /// What the system says; the old file is as it was.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let (bytes, beside) = (self.encode()?, with_suffix(path, ".new"));
        // One that was left by a crash may be somebody else's to read.
        if let Err(error) = fs::remove_file(&beside)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // Or the name could be the old one's again after the machine has failed.
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    }

    /// What stands in the file; `None` if there is none.
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

/// Moves a file aside that cannot be read, and says where to.
///
/// # Errors
/// What the system says.
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

/// The number goes up with each change of what follows it.
const MAGIC: &[u8] = b"tollgate buckets 1\n";

#[cfg(test)]
mod tests;
