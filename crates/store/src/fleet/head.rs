//! The record that names all others: the history of the policy, and the present changes of operators.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{PolicyId, PolicyNote};
use tollgate_bucket::Time;

/// The name of a text in the store: random, so that no two writers choose the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct DocumentName(pub(super) u64);

/// The policies of an installation, and where its changes are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetHead {
    /// The oldest first, at most [`MAX_HISTORY`].
    policies: Vec<PolicyEntry>,
    pub(super) overrides: Option<DocumentName>,
}

/// A policy in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// Counts from 1.
    pub version: u64,
    /// The [hash](PolicyEntry::hash_of) of its text.
    pub hash: String,
    /// Bytes of its text.
    pub length: u64,
    /// When it was put there, in nanoseconds since 1970 by the writer's clock.
    pub at: u64,
    /// The user who put it there.
    pub by: String,
    /// The reason; may be empty.
    pub comment: String,
    pub(super) name: DocumentName,
}

impl FleetHead {
    /// The policies, the oldest first.
    #[must_use]
    pub fn policies(&self) -> &[PolicyEntry] {
        &self.policies
    }

    /// The policy in force.
    #[must_use]
    pub fn newest(&self) -> Option<&PolicyEntry> {
        self.policies.last()
    }

    /// The policy of this version, if the history still has it.
    #[must_use]
    pub fn policy(&self, version: u64) -> Option<&PolicyEntry> {
        self.policies.iter().find(|entry| entry.version == version)
    }

    /// Whether both name the same changes of operators.
    #[must_use]
    pub fn has_same_overrides(&self, other: &Self) -> bool {
        self.overrides == other.overrides
    }

    /// Whether it names nothing: there is none in the store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same head with these policies only.
    pub(super) fn with_policies(&self, policies: impl Iterator<Item = PolicyEntry>) -> Self {
        Self { policies: policies.collect(), overrides: self.overrides }
    }

    /// Adds a policy; returns its entry, and the text that leaves the history for it.
    pub(super) fn push(
        &mut self,
        name: DocumentName,
        text: &str,
        note: &PolicyNote,
    ) -> (PolicyEntry, Option<DocumentName>) {
        let entry = PolicyEntry {
            version: self.newest().map_or(0, |entry| entry.version) + 1,
            hash: PolicyEntry::hash_of(text),
            length: text.len() as u64,
            at: note.at.as_nanos(),
            by: shortened(&note.by),
            comment: shortened(&note.comment),
            name,
        };
        let dropped = (self.policies.len() >= MAX_HISTORY).then(|| self.policies.remove(0).name);
        self.policies.push(entry.clone());
        (entry, dropped)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Every head can be encoded.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

impl PolicyEntry {
    /// The hash by which gates compare policies: 16 hexadecimal digits.
    #[must_use]
    pub fn hash_of(text: &str) -> String {
        Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What gates report of it.
    #[must_use]
    pub fn id(&self) -> PolicyId {
        PolicyId { version: self.version, hash: self.hash.clone() }
    }

    /// When it was put there.
    #[must_use]
    pub fn time(&self) -> Time {
        Time::from_nanos(self.at)
    }
}

/// At most 200 characters, none of which controls a terminal.
fn shortened(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

/// Policies that the store keeps.
pub const MAX_HISTORY: usize = 20;
