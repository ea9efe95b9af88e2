//! Reads a list of SHA-1 hashes: one a line, in hexadecimal and in order, with or without `:COUNT` behind, as Have I Been
//! Pwned gives them.

use std::io::{self, BufRead};

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HashListError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A line is not a hash.
    #[error("line {0} is no SHA-1 in hexadecimal, alone or with `:COUNT` behind it")]
    NotAHash(u64),
    /// A hash is smaller than the one before it.
    #[error("line {0} is out of order: the list has to be ordered by hash")]
    Order(u64),
}

/// The hashes of a list, each once: the first 64 bits of each, in order.
pub(super) struct HashList<R> {
    lines: R,
    line: Vec<u8>,
    number: u64,
    last: Option<u64>,
}

impl<R: BufRead> HashList<R> {
    pub(super) fn new(lines: R) -> Self {
        Self { lines, line: Vec::new(), number: 0, last: None }
    }

    /// The next hash; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<u64>, HashListError> {
        loop {
            self.line.clear();
            self.number += 1;
            // A line that is longer is not a hash.
            let read = io::Read::take(&mut self.lines, MAX_LINE).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            let line = self.line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let hash = hash_of(line).ok_or(HashListError::NotAHash(self.number))?;
            if self.last.is_some_and(|last| last > hash) {
                return Err(HashListError::Order(self.number));
            }
            if self.last.replace(hash) != Some(hash) {
                return Ok(Some(hash));
            }
        }
    }
}

fn hash_of(line: &[u8]) -> Option<u64> {
    let (digits, rest) = line.split_at_checked(SHA1_DIGITS)?;
    let has_count = rest.strip_prefix(b":").is_some_and(|count| count.iter().all(u8::is_ascii_digit));
    if !(rest.is_empty() || has_count) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits.get(..16)?).ok()?, 16).ok()
}

const SHA1_DIGITS: usize = 40;
const MAX_LINE: u64 = 128;
