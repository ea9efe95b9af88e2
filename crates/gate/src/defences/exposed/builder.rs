//! Builds a filter from an ordered list, partition by partition: in memory is never more than one of them.
//!
//! Each partition is looked up in, hash by hash, before it is written: a filter that would miss one of its hashes is
//! never written.

use std::io::{self, BufRead, Seek, SeekFrom, Write};

use xorf::BinaryFuse16;

use super::format::{Head, Partition, checksum, pack, place, unpack};
use super::hash_list::{HashList, HashListError};

/// Why no filter was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The list cannot be used.
    #[error(transparent)]
    List(#[from] HashListError),
    /// It has no hash.
    #[error("it holds no hash")]
    Empty,
    /// The filter cannot be written.
    #[error("cannot write the filter: {0}")]
    Write(io::Error),
    /// The construction failed with every seed.
    #[error("the filter could not be built: {0}")]
    Construction(&'static str),
}

/// A filter that was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Hashes of the list, each counted once.
    pub hashes: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Builds a filter of all hashes of a list.
///
/// # Errors
/// See [`BuildError`]; then what was written is not a filter.
pub fn build(list: impl BufRead, out: &mut (impl Write + Seek)) -> Result<Built, BuildError> {
    let mut hashes = HashList::new(list);
    let mut partitions: Vec<Partition> = Vec::new();
    let mut head = Head { hashes: 0, directory: 0, partitions: 0, checksum: 0 };
    // Its place; the head itself comes last.
    let nothing = [0; super::format::HEAD];
    out.write_all(&nothing).map_err(BuildError::Write)?;
    head.directory = nothing.len() as u64;
    let mut keys = Vec::with_capacity(PARTITION);
    loop {
        let next = hashes.next()?;
        if let Some(hash) = next {
            keys.push(hash);
        }
        if keys.len() == PARTITION || (next.is_none() && !keys.is_empty()) {
            let (partition, packed) = partition_of(&keys, head.directory)?;
            out.write_all(&packed).map_err(BuildError::Write)?;
            head.directory += packed.len() as u64;
            head.hashes += keys.len() as u64;
            partitions.push(partition);
            keys.clear();
        }
        if next.is_none() {
            break;
        }
    }
    finish(head, &partitions, out)
}

/// Writes the directory, and then the head.
fn finish(
    mut head: Head,
    partitions: &[Partition],
    out: &mut (impl Write + Seek),
) -> Result<Built, BuildError> {
    if partitions.is_empty() {
        return Err(BuildError::Empty);
    }
    let directory: Vec<u8> = partitions.iter().flat_map(|partition| partition.to_bytes()).collect();
    head.partitions = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
    head.checksum = checksum(&directory);
    out.write_all(&directory)
        .and_then(|()| out.seek(SeekFrom::Start(0)))
        .and_then(|_| out.write_all(&head.to_bytes()))
        .and_then(|()| out.flush())
        .map_err(BuildError::Write)?;
    Ok(Built { hashes: head.hashes, bytes: head.file_length() })
}

/// The partition of these hashes, and its fingerprints.
fn partition_of(hashes: &[u64], start: u64) -> Result<(Partition, Vec<u8>), BuildError> {
    let Some(&first) = hashes.first() else { return Err(BuildError::Empty) };
    // `xorf` builds no filter of a single hash, so that gets a neighbour, which is found as well.
    let alone = [first, first.wrapping_add(1)];
    let keys = if hashes.len() == 1 { &alone[..] } else { hashes };
    let filter = BinaryFuse16::try_from(keys).map_err(BuildError::Construction)?;
    let packed = pack(&filter.fingerprints);
    let partition = Partition {
        first,
        seed: filter.descriptor.seed,
        start,
        slots: u32::try_from(filter.fingerprints.len()).unwrap_or(u32::MAX),
        segment: filter.descriptor.segment_length,
        firsts: filter.descriptor.segment_count_length,
        checksum: checksum(&packed),
    };
    match keys.iter().all(|&key| has(&partition, &packed, key)) {
        true => Ok((partition, packed)),
        false => Err(BuildError::Construction("a hash of the list is not found")),
    }
}

fn has(partition: &Partition, packed: &[u8], hash: u64) -> bool {
    let (fingerprint, slots) = partition.locate(hash);
    let of_slot = |slot| {
        let (byte, shift) = place(slot);
        let bytes = packed.get(usize::try_from(byte).ok()?..)?.first_chunk()?;
        Some(unpack(*bytes, shift))
    };
    slots.into_iter().try_fold(fingerprint, |joined, slot| Some(joined ^ of_slot(slot)?)) == Some(0)
}

/// Hashes of a partition: 2^20 take 50 MB while they are built, and 1.5 MB in the file.
const PARTITION: usize = 1 << 20;
