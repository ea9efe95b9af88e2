//! The chain: the hash of a line, and what of a line belongs to it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The SHA-256 of a line without its line feed; all zeros before the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LineHash([u8; 32]);

/// What a line says of the one before it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct LineLink {
    pub(super) previous: LineHash,
    /// Whether the line before it has no end.
    #[serde(default)]
    pub(super) torn: bool,
    pub(super) time: String,
    /// As in `bucket.reset`.
    #[serde(default)]
    pub(super) what: String,
}

/// A text that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hexadecimal digits")]
pub struct LineHashError;

impl LineLink {
    /// Whether it may be the first of all lines that there are: nothing is before it, or it goes on with an older file.
    pub(super) fn may_be_first(&self) -> bool {
        self.previous.is_of_nothing() || self.what == ROTATED
    }
}

impl LineHash {
    /// Of this line.
    #[must_use]
    pub fn of(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    /// Whether no line is before the one that names it.
    #[must_use]
    pub fn is_of_nothing(self) -> bool {
        self == Self::default()
    }
}

impl From<[u8; 32]> for LineHash {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl From<LineHash> for [u8; 32] {
    fn from(LineHash(hash): LineHash) -> Self {
        hash
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for LineHash {
    type Err = LineHashError;

    fn from_str(text: &str) -> Result<Self, LineHashError> {
        let mut hash = [0; 32];
        if text.len() != 2 * hash.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(LineHashError);
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| LineHashError)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| LineHashError)?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for LineHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LineHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The action of the first line in a file that goes on with another one's chain.
pub(super) const ROTATED: &str = "audit.rotate";
