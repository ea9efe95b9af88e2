//! A filter in a file: checked as a whole when it is opened, and read where a hash could be.
//!
//! Only the directory is in memory, 40 bytes for a million hashes. A look-up reads three times two bytes, which are in
//! the kernel's page cache if memory allows; one that cannot be read finds nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{ENTRY, FormatError, HEAD, Head, Partition, checksum, place, unpack};
use crate::policy::ExposedPasswords;

/// A list of exposed passwords.
pub struct PasswordFilter {
    file: File,
    partitions: Vec<Partition>,
    hashes: u64,
}

/// Why a filter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is no filter, or damaged.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl PasswordFilter {
    /// Opens a filter, and reads all of it once: a damaged one is an error now.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn open(path: &Path) -> Result<Self, FilterError> {
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file").into());
        }
        let file = File::open(path)?;
        let found = file.metadata()?.len();
        if found < HEAD as u64 {
            return Err(FormatError::Magic.into());
        }
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, 0)?;
        let head = Head::parse(&head)?;
        let expected = head.file_length();
        if found != expected {
            return Err(FormatError::Length { found, expected }.into());
        }
        let partitions = directory(&file, head, found)?;
        for partition in &partitions {
            check(&file, partition)?;
        }
        Ok(Self { file, partitions, hashes: head.hashes })
    }

    /// The number of hashes in the list.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.hashes
    }

    /// Whether there are none, which no list of a file has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes == 0
    }

    fn find(&self, hash: u64) -> io::Result<bool> {
        let after = self.partitions.partition_point(|partition| partition.first <= hash);
        let Some(partition) = after.checked_sub(1).and_then(|at| self.partitions.get(at)) else {
            return Ok(false);
        };
        let (mut joined, slots) = partition.locate(hash);
        for slot in slots {
            let (byte, shift) = place(slot);
            let mut bytes = [0; 2];
            self.file.read_exact_at(&mut bytes, partition.start.saturating_add(byte))?;
            joined ^= unpack(bytes, shift);
        }
        Ok(joined == 0)
    }
}

impl ExposedPasswords for PasswordFilter {
    fn contains(&self, sha1: &[u8; 20]) -> bool {
        let hash = sha1.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
        self.find(hash).unwrap_or(false)
    }
}

impl std::fmt::Debug for PasswordFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PasswordFilter({} hashes)", self.hashes)
    }
}

/// The entries of the directory: in order, one behind the other.
fn directory(file: &File, head: Head, length: u64) -> Result<Vec<Partition>, FilterError> {
    let size = usize::try_from(length.saturating_sub(head.directory)).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, head.directory)?;
    if checksum(&bytes) != head.checksum {
        return Err(FormatError::Damaged.into());
    }
    let (entries, _) = bytes.as_chunks::<ENTRY>();
    let partitions: Vec<Partition> = entries.iter().map(Partition::parse).collect::<Result<_, _>>()?;
    let mut end = HEAD as u64;
    for partition in &partitions {
        if partition.start != end {
            return Err(FormatError::Damaged.into());
        }
        end = end.saturating_add(partition.length());
    }
    if end != head.directory || !partitions.is_sorted_by_key(|partition| partition.first) {
        return Err(FormatError::Damaged.into());
    }
    Ok(partitions)
}

/// Checks the fingerprints of a partition.
fn check(file: &File, partition: &Partition) -> Result<(), FilterError> {
    // A partition of a damaged directory may be large, but never larger than the file.
    let size = usize::try_from(partition.length()).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, partition.start)?;
    if checksum(&bytes) == partition.checksum { Ok(()) } else { Err(FormatError::Damaged.into()) }
}
