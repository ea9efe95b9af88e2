//! The bytes of a filter, and the formula by which a hash is looked up in them.
//!
//! A file is a head of 64 bytes, the fingerprints of all partitions, and a directory with 40 bytes for each. All numbers
//! are little-endian. A fingerprint has ten bits and follows the one before without a gap. Reading and writing the file
//! is left to `filter` and `builder`.

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Hashes in the list.
    pub(super) hashes: u64,
    /// Where the directory begins.
    pub(super) directory: u64,
    /// Entries of the directory.
    pub(super) partitions: u32,
    /// CRC-32 of the directory.
    pub(super) checksum: u32,
}

/// One partition: the hashes from its first one up to the next partition's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    /// The first hash.
    pub(super) first: u64,
    /// The seed of its hash function.
    pub(super) seed: u64,
    /// Where its fingerprints begin.
    pub(super) start: u64,
    /// The number of its fingerprints.
    pub(super) slots: u32,
    /// The length of a segment, a power of two.
    pub(super) segment: u32,
    /// The slots of all segments in which the first of three may be.
    pub(super) firsts: u32,
    /// CRC-32 of its fingerprints.
    pub(super) checksum: u32,
}

/// Why a head or a partition cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormatError {
    /// It has another beginning.
    #[error("it is not a filter of exposed passwords")]
    Magic,
    /// It was written by another version.
    #[error("its format has version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// A part of it has another checksum.
    #[error("it is damaged")]
    Damaged,
    /// It ends early, or goes on.
    #[error("it has {found} bytes instead of {expected}")]
    Length {
        /// Its length.
        found: u64,
        /// The length that its head promises.
        expected: u64,
    },
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&FINGERPRINT_BITS.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.hashes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.directory.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.partitions.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = checksum(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; HEAD]) -> Result<Self, FormatError> {
        if bytes[..8] != MAGIC {
            return Err(FormatError::Magic);
        }
        match (u32_at(bytes, 8), u32_at(bytes, 12)) {
            (VERSION, FINGERPRINT_BITS) => {}
            (version, _) => return Err(FormatError::Version(version)),
        }
        if checksum(&bytes[..CHECKED]) != u32_at(bytes, CHECKED) {
            return Err(FormatError::Damaged);
        }
        let (hashes, directory) = (u64_at(bytes, 16), u64_at(bytes, 24));
        Ok(Self { hashes, directory, partitions: u32_at(bytes, 32), checksum: u32_at(bytes, 36) })
    }

    /// The length of the whole file.
    pub(super) fn file_length(self) -> u64 {
        let directory = u64::from(self.partitions).saturating_mul(ENTRY as u64);
        self.directory.saturating_add(directory)
    }
}

impl Partition {
    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.slots.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.segment.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.firsts.to_le_bytes());
        bytes[36..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// An entry of the directory. Its numbers are those of a filter: no look-up leaves its fingerprints.
    pub(super) fn parse(bytes: &[u8; ENTRY]) -> Result<Self, FormatError> {
        let [slots, segment, firsts, checksum] = [24, 28, 32, 36].map(|at| u32_at(bytes, at));
        let [first, seed, start] = [0, 8, 16].map(|at| u64_at(bytes, at));
        let last = segment.checked_mul(2).and_then(|others| firsts.checked_add(others));
        if !segment.is_power_of_two() || firsts % segment != 0 || last.is_none_or(|last| last > slots) {
            return Err(FormatError::Damaged);
        }
        Ok(Self { first, seed, start, slots, segment, firsts, checksum })
    }

    /// The bytes of its fingerprints.
    pub(super) fn length(&self) -> u64 {
        packed_length(self.slots)
    }

    /// The fingerprint of a hash, and the three slots whose fingerprints make it if the partition has the hash: the
    /// look-up of a binary fuse filter with three segments.
    pub(super) fn locate(&self, hash: u64) -> (u16, [u32; 3]) {
        let mixed = mix(hash.wrapping_add(self.seed));
        let first = high_half(mixed, self.firsts);
        let mask = u64::from(self.segment.wrapping_sub(1));
        let [one, other] = [mixed >> 18, mixed].map(|bits| low_half(bits & mask));
        let second = first.wrapping_add(self.segment);
        let third = second.wrapping_add(self.segment);
        (fingerprint(mixed), [first, second ^ one, third ^ other])
    }
}

/// The place of a slot: the first of the two bytes that have its bits, and how far they are shifted.
pub(super) fn place(slot: u32) -> (u64, u32) {
    let bit = u64::from(slot) * u64::from(FINGERPRINT_BITS);
    (bit / 8, low_half(bit % 8))
}

/// The fingerprint that two bytes have.
pub(super) fn unpack(bytes: [u8; 2], shift: u32) -> u16 {
    (u16::from_le_bytes(bytes) >> shift) & MASK
}

/// Fingerprints without gaps. Only their low bits are kept: a filter's fingerprints are joined bit by bit, so any of
/// their bits are a filter themselves.
pub(super) fn pack(fingerprints: &[u16]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(fingerprints.len() * 5 / 4 + 1);
    let (mut bits, mut waiting) = (0_u32, 0_u32);
    for fingerprint in fingerprints {
        bits |= u32::from(fingerprint & MASK) << waiting;
        waiting += FINGERPRINT_BITS;
        while waiting >= 8 {
            packed.push(bits.to_le_bytes()[0]);
            (bits, waiting) = (bits >> 8, waiting - 8);
        }
    }
    if waiting > 0 {
        packed.push(bits.to_le_bytes()[0]);
    }
    packed
}

pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn packed_length(slots: u32) -> u64 {
    (u64::from(slots) * u64::from(FINGERPRINT_BITS)).div_ceil(8)
}

fn fingerprint(mixed: u64) -> u16 {
    let [low, high, ..] = (mixed ^ (mixed >> 32)).to_le_bytes();
    u16::from_le_bytes([low, high]) & MASK
}

/// The finaliser of MurmurHash3.
fn mix(mut key: u64) -> u64 {
    key = (key ^ (key >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    key = (key ^ (key >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    key ^ (key >> 33)
}

/// A number below `bound`, by the high bits.
fn high_half(bits: u64, bound: u32) -> u32 {
    let product = u128::from(bits) * u128::from(bound);
    u32::try_from(product >> 64).unwrap_or(0)
}

fn low_half(bits: u64) -> u32 {
    u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(super) const HEAD: usize = 64;
pub(super) const ENTRY: usize = 40;
/// Bytes of the head that its checksum covers.
const CHECKED: usize = HEAD - 4;
const MAGIC: [u8; 8] = *b"exposed\n";
const VERSION: u32 = 1;
/// One in 2^10 hashes that are not in the list is found as well.
const FINGERPRINT_BITS: u32 = 10;
const MASK: u16 = (1 << FINGERPRINT_BITS) - 1;
