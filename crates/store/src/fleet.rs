//! Data that the gates of an installation share in addition to buckets: the policy with its history, the temporary
//! changes of operators, the list of gates, and the audit of all of them.
//!
//! One small record, the [head](FleetHead), names all others but the list of gates and the audit. A text is written
//! once, under a random name, before the head names it: so a reader finds all of a change or nothing of it, and of two
//! writers one loses the swap of the head. Every record carries a keyed hash under a secret of the installation, because who writes a policy decides where
//! passwords go. What the texts mean is left to the layers above.

mod audit;
mod gates;
mod head;
mod reporter;
mod sealed;

use std::sync::Arc;

pub use self::audit::{
    AuditHash, AuditLogId, AuditSource, FollowedAuditLog, MAX_ADDED_LEN, NextAuditLine, SharedAudit,
    SharedAuditLine,
};
pub use self::gates::{
    GateDetails, GateId, GateReport, MAX_GATES, PolicyAnswer, PolicyId, PolicyRefusal, ReportedGate,
    StoreHealth,
};
pub use self::head::{FleetHead, MAX_HISTORY, PolicyEntry};
pub use self::reporter::GateReporter;

use self::head::DocumentName;
use self::sealed::DocumentSeal;
use crate::{CompareAndSwap, Namespace, RecordVersion, StoreError, StoreRecord, Stored, Swap};
use tollgate_bucket::{Key, Span, Time};

/// The shared records of an installation. Each method is a few requests one after the other, without a deadline: the
/// caller has one.
#[derive(Clone)]
pub struct Fleet {
    backend: Arc<dyn CompareAndSwap>,
    keys: FleetKeys,
}

/// Where the shared records of an installation are, and how they are authenticated.
#[derive(Clone)]
pub struct FleetKeys {
    namespace: Namespace,
    seal: DocumentSeal,
}

/// Why a shared record cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record is damaged, or was written by an installation with another secret.
    #[error("holds a {0} that was not written with this `store.secret`, or is damaged")]
    Foreign(&'static str),
    /// The head names a text that is gone: the database has dropped it.
    #[error("has lost the {0}")]
    Lost(&'static str),
    /// The text is longer than every database takes.
    #[error("takes a text of at most {MAX_TEXT_LEN} bytes, and this one has {0}")]
    TooLong(usize),
    /// The list of gates takes no more.
    #[error("has {MAX_GATES} gates in its list, and takes no more")]
    Full,
    /// Another writer came first.
    #[error("was changed by another operator meanwhile")]
    Conflict,
}

/// The author of a policy in the store, and the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyNote {
    /// When, by the writer's clock.
    pub at: Time,
    /// Who, as far as the machine of the writer knows.
    pub by: String,
    /// The writer's reason; may be empty.
    pub comment: String,
}

impl FleetKeys {
    /// For the installation with this prefix and these secrets, the newest first: it seals, and each of them opens.
    #[must_use]
    pub fn new(namespace: &Namespace, secrets: &[impl AsRef<[u8]>]) -> Self {
        Self { namespace: namespace.clone(), seal: DocumentSeal::new(secrets) }
    }

    /// Whether there is an older secret next to the newest.
    #[must_use]
    pub fn have_older_secret(&self) -> bool {
        self.seal.has_older()
    }

    /// The key of the head.
    #[must_use]
    pub fn head(&self) -> Key {
        self.namespace.document_key(b"head")
    }

    fn gates(&self) -> Key {
        self.namespace.document_key(b"gates")
    }

    fn audit(&self) -> Key {
        self.namespace.document_key(b"audit")
    }

    fn text(&self, DocumentName(name): DocumentName) -> Key {
        self.namespace.document_key(&name.to_be_bytes())
    }
}

impl Fleet {
    /// The shared records in this database.
    #[must_use]
    pub fn new(backend: Arc<dyn CompareAndSwap>, keys: FleetKeys) -> Self {
        Self { backend, keys }
    }

    /// The head: one request. The default if there is none yet.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn head(&self) -> Result<FleetHead, FleetError> {
        Ok(self.load_head().await?.0)
    }

    /// The text of a policy in the history.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn policy(&self, entry: &PolicyEntry) -> Result<String, FleetError> {
        let text = self.text(entry.name, "policy").await?;
        String::from_utf8(text).map_err(|_| FleetError::Foreign("policy"))
    }

    /// Makes this text the policy of all gates. `newest` is the version that the writer has seen.
    ///
    /// # Errors
    /// See [`FleetError`]; [`Conflict`](FleetError::Conflict) if there is a newer one than that.
    pub async fn push(
        &self,
        text: &str,
        newest: Option<u64>,
        note: PolicyNote,
    ) -> Result<PolicyEntry, FleetError> {
        let (mut head, version) = self.load_head().await?;
        if head.newest().map(|entry| entry.version) != newest {
            return Err(FleetError::Conflict);
        }
        self.push_onto(&mut head, version, text, &note).await
    }

    /// Makes this text the policy of all gates, whatever is there. The history, the changes of operators, the list of
    /// gates and the audit are lost if they cannot be read.
    ///
    /// # Errors
    /// See [`FleetError`]; [`Conflict`](FleetError::Conflict) if another writer comes first.
    pub async fn replace(&self, text: &str, note: PolicyNote) -> Result<PolicyEntry, FleetError> {
        let stored = self.backend.load(self.keys.head()).await?.value;
        let mut head = stored.as_ref().and_then(|stored| self.opened_head(stored)).unwrap_or_default();
        match self.overrides(&head).await {
            Err(FleetError::Foreign(_) | FleetError::Lost(_)) => head.overrides = None,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let entry = self.push_onto(&mut head, stored.map(|stored| stored.version), text, &note).await?;
        if let Err(FleetError::Foreign(_)) = self.gates(note.at).await {
            // Gates that run with this secret write another one.
            self.remove(self.keys.gates()).await?;
        }
        self.remove_foreign_audit().await?;
        Ok(entry)
    }

    async fn push_onto(
        &self,
        head: &mut FleetHead,
        version: Option<RecordVersion>,
        text: &str,
        note: &PolicyNote,
    ) -> Result<PolicyEntry, FleetError> {
        let name = self.write_text(text.as_bytes(), "policy").await?;
        let (entry, dropped) = head.push(name, text, note);
        self.replace_head(version, head, name, dropped).await?;
        Ok(entry)
    }

    /// Seals again what an older secret has sealed, so that the older one may go; not the audit.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn reseal(&self) -> Result<(), FleetError> {
        let head = self.head().await?;
        let texts = head.policies().iter().map(|entry| (entry.name, "policy"));
        let texts = texts.chain(head.overrides.map(|name| (name, "overrides")));
        for (name, what) in texts {
            self.reseal_record(FOR_GOOD, self.keys.text(name), what).await?;
        }
        self.reseal_record(FOR_GOOD, self.keys.head(), "policies").await
    }

    async fn reseal_record(&self, ttl: Span, key: Key, what: &str) -> Result<(), FleetError> {
        let Some(stored) = self.backend.load(key).await?.value else { return Ok(()) };
        match self.keys.seal.open(key, &stored.bytes) {
            Some(old) if !old.is_current => {
                settled(self.swap_for(ttl, key, Some(stored.version), old.text, what).await)
            }
            _ => Ok(()),
        }
    }

    /// The changes of operators, as they were written; empty if there are none.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn overrides(&self, head: &FleetHead) -> Result<Vec<u8>, FleetError> {
        match head.overrides {
            Some(name) => self.text(name, "list of changes").await,
            None => Ok(Vec::new()),
        }
    }

    /// Replaces the changes of operators by what `change` makes of them, unless it returns the same. Asks `change` again
    /// if another gate came first. Returns the head and the changes by then.
    ///
    /// # Errors
    /// The inner error is that of `change`; the outer one is that of the store.
    pub async fn change_overrides<E>(
        &self,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Result<(FleetHead, Vec<u8>), E>, FleetError> {
        for _ in 0..MAX_TRIES {
            let (mut head, version) = self.load_head().await?;
            let before = self.overrides(&head).await.or_else(empty_if_lost)?;
            let after = match change(&before) {
                Ok(after) if after == before => return Ok(Ok((head, after))),
                Ok(after) => after,
                Err(error) => return Ok(Err(error)),
            };
            let name = self.write_text(&after, "overrides").await?;
            let dropped = head.overrides.replace(name);
            match self.replace_head(version, &head, name, dropped).await {
                Err(FleetError::Conflict) => {}
                replaced => return replaced.map(|()| Ok((head, after))),
            }
        }
        Err(FleetError::Conflict)
    }

    /// Writes back a head that the database has lost, with the changes of operators and, of the policies, those whose text is
    /// at hand. Several gates may write the same: the first one does.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn restore(
        &self,
        head: &FleetHead,
        policies: &[(PolicyEntry, String)],
        overrides: &[u8],
    ) -> Result<(), FleetError> {
        let head = head.with_policies(policies.iter().map(|(entry, _)| entry.clone()));
        let policies = policies.iter().map(|(entry, text)| (entry.name, text.as_bytes(), "policy"));
        let overrides = head.overrides.map(|name| (name, overrides, "overrides"));
        for (name, text, what) in policies.chain(overrides) {
            settled(self.swap(self.keys.text(name), None, text, what).await)?;
        }
        settled(self.swap(self.keys.head(), None, &head.encode(), "policies").await)
    }

    async fn load_head(&self) -> Result<(FleetHead, Option<RecordVersion>), FleetError> {
        let key = self.keys.head();
        let Some(stored) = self.backend.load(key).await?.value else { return Ok(Default::default()) };
        let head = self.opened_head(&stored).ok_or(FleetError::Foreign("policy"))?;
        Ok((head, Some(stored.version)))
    }

    fn opened_head(&self, stored: &Stored) -> Option<FleetHead> {
        FleetHead::decode(self.keys.seal.open(self.keys.head(), &stored.bytes)?.text)
    }

    /// Puts the new head in the place of the one that was read; without success it takes back the new text. With it,
    /// the text that no head names any more goes.
    async fn replace_head(
        &self,
        old: Option<RecordVersion>,
        head: &FleetHead,
        new: DocumentName,
        dropped: Option<DocumentName>,
    ) -> Result<(), FleetError> {
        let written = self.swap(self.keys.head(), old, &head.encode(), "policies").await;
        let unused = match &written {
            Ok(()) => dropped,
            Err(FleetError::Conflict) => Some(new),
            // It may have been written all the same.
            Err(_) => None,
        };
        if let Some(unused) = unused {
            // What stays behind takes a little room.
            let _ = self.remove(self.keys.text(unused)).await;
        }
        written
    }

    async fn text(&self, name: DocumentName, what: &'static str) -> Result<Vec<u8>, FleetError> {
        let key = self.keys.text(name);
        let stored = self.backend.load(key).await?.value.ok_or(FleetError::Lost(what))?;
        let opened = self.keys.seal.open(key, &stored.bytes).ok_or(FleetError::Foreign(what))?;
        Ok(opened.text.to_vec())
    }

    async fn write_text(&self, text: &[u8], what: &str) -> Result<DocumentName, FleetError> {
        self.write_text_for(FOR_GOOD, text, what).await
    }

    async fn write_text_for(&self, ttl: Span, text: &[u8], what: &str) -> Result<DocumentName, FleetError> {
        if text.len() > MAX_TEXT_LEN {
            return Err(FleetError::TooLong(text.len()));
        }
        let name = DocumentName(RecordVersion::random().0);
        self.swap_for(ttl, self.keys.text(name), None, text, what).await?;
        Ok(name)
    }

    async fn swap(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        text: &[u8],
        what: &str,
    ) -> Result<(), FleetError> {
        self.swap_for(FOR_GOOD, key, old, text, what).await
    }

    async fn swap_for(
        &self,
        ttl: Span,
        key: Key,
        old: Option<RecordVersion>,
        text: &[u8],
        what: &str,
    ) -> Result<(), FleetError> {
        let bytes = self.keys.seal.seal(key, text);
        let new = StoreRecord { bytes, ttl, limit: what.into(), full_at: Time::default() };
        match self.backend.swap(key, old, new).await {
            Ok(written) => match written.value {
                Swap::Done(_) => Ok(()),
                Swap::Conflict(_) | Swap::Stepped { .. } => Err(FleetError::Conflict),
            },
            Err(StoreError::WriteConflict) => Err(FleetError::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a record expire at once: backends have no other removal.
    async fn remove(&self, key: Key) -> Result<(), StoreError> {
        // One that was removed before may be there for a while.
        if let Some(stored) = self.backend.load(key).await?.value.filter(|stored| stored.bytes != [0]) {
            let (limit, full_at) = ("removed".into(), Time::default());
            let gone = StoreRecord { bytes: vec![0], ttl: Span::from_millis(1), limit, full_at };
            self.backend.swap(key, Some(stored.version), gone).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fleet")
    }
}

impl std::fmt::Debug for FleetKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetKeys, secret hidden")
    }
}

/// Another gate has written what was lost.
fn settled(written: Result<(), FleetError>) -> Result<(), FleetError> {
    if written == Err(FleetError::Conflict) { Ok(()) } else { written }
}

/// Changes that the database has dropped have ended: the next change begins a new list.
fn empty_if_lost(error: FleetError) -> Result<Vec<u8>, FleetError> {
    if let FleetError::Lost(_) = error { Ok(Vec::new()) } else { Err(error) }
}

/// Bytes of a text: what the smallest column of all databases takes (a `BLOB` of MySQL), and some room for the seal.
pub const MAX_TEXT_LEN: usize = 60 * 1024;
/// A hundred years: every database takes it.
pub(crate) const FOR_GOOD: Span = Span::from_secs(100 * 365 * 86_400);
/// Operators do not change things often: the bound only keeps the loop finite.
const MAX_TRIES: u32 = 20;

#[cfg(test)]
mod tests;
