//! A filter in a file: checked as a whole when it is opened, and read where a hash could be.
//!
//! A filter of up to 64 MiB is kept in memory. If it is larger, only its directory is, 40 bytes for a million hashes: a
//! look-up reads three times two bytes of the file, which are in the kernel's page cache if memory allows. If the file
//! cannot be read, the look-up finds nothing.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{ENTRY, FormatError, HEAD, Head, Partition, checksum, place, unpack};

/// A list of passwords, by their SHA-1.
pub(super) struct PasswordFilter {
    bytes: FilterBytes,
    partitions: Vec<Partition>,
    hashes: u64,
}

/// Where the bytes of a filter are.
enum FilterBytes {
    Memory(Vec<u8>),
    File(File),
}

/// Why a filter cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not a filter, or damaged.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl PasswordFilter {
    /// Opens a filter, and reads all of it once: a damaged one is an error now.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub(super) fn open(path: &Path) -> Result<Self, FilterError> {
        Self::open_within(path, IN_MEMORY)
    }

    /// As [`open`](Self::open), in memory up to this size.
    pub(super) fn open_within(path: &Path, in_memory: u64) -> Result<Self, FilterError> {
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file").into());
        }
        let file = File::open(path)?;
        let found = file.metadata()?.len();
        let file = match found <= in_memory {
            true => FilterBytes::Memory(FilterBytes::File(file).read(0, found)?),
            false => FilterBytes::File(file),
        };
        if found < HEAD as u64 {
            return Err(FormatError::Magic.into());
        }
        let mut head = [0; HEAD];
        file.read_exact(&mut head, 0)?;
        let head = Head::parse(&head)?;
        let expected = head.file_length();
        if found != expected {
            return Err(FormatError::Length { found, expected }.into());
        }
        let partitions = directory(&file, head, found)?;
        for partition in &partitions {
            check(&file, partition)?;
        }
        Ok(Self { bytes: file, partitions, hashes: head.hashes })
    }

    /// The number of hashes in the list.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.hashes
    }

    /// Whether the list has a password with this hash. A listed one is always found, and one in 1,024 others. What cannot be
    /// read is not on the list.
    pub(super) fn contains(&self, sha1: &[u8; 20]) -> bool {
        let hash = sha1.first_chunk().map_or(0, |start| u64::from_be_bytes(*start));
        self.find(hash).unwrap_or(false)
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
            self.bytes.read_exact(&mut bytes, partition.start.saturating_add(byte))?;
            joined ^= unpack(bytes, shift);
        }
        Ok(joined == 0)
    }
}

impl FilterBytes {
    fn read(&self, start: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.read_exact(&mut bytes, start)?;
        Ok(bytes)
    }

    fn read_exact(&self, into: &mut [u8], start: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(into, start),
            Self::Memory(bytes) => {
                let rest = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
                into.copy_from_slice(
                    rest.and_then(|rest| rest.get(..into.len())).ok_or(ErrorKind::UnexpectedEof)?,
                );
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for PasswordFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PasswordFilter({} hashes)", self.hashes)
    }
}

/// The entries of the directory: in order, one behind the other.
fn directory(file: &FilterBytes, head: Head, length: u64) -> Result<Vec<Partition>, FilterError> {
    let bytes = file.read(head.directory, length.saturating_sub(head.directory))?;
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
fn check(file: &FilterBytes, partition: &Partition) -> Result<(), FilterError> {
    // A partition of a damaged directory may be large, but never larger than the file.
    let bytes = file.read(partition.start, partition.length())?;
    if checksum(&bytes) == partition.checksum { Ok(()) } else { Err(FormatError::Damaged.into()) }
}

/// Bytes of a filter that is kept in memory: 47 million hashes.
const IN_MEMORY: u64 = 64 << 20;
