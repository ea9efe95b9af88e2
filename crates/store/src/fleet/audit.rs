//! The audit of all gates: the newest changes in one order, and how far the store has followed each gate's audit log.
//!
//! One record next to the head, the index, has the last line of each log, and names pages of lines as the head names
//! policies: a page is written under a random name before the index names it, so a reader finds all of an addition or
//! nothing of it. The order is that in which the store took the lines; those of one log keep their own. A log remains
//! the gate's: the store tells what it has lost.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tollgate_bucket::{Span, Time};

use super::gates::{bytes_of, cut};
use super::head::DocumentName;
use super::{FOR_GOOD, Fleet, FleetError, MAX_TRIES};
use crate::{RecordVersion, StoreError};

/// The audit log of a gate: the same after each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLogId(pub u64);

/// The SHA-256 of a line.
pub type AuditHash = [u8; 32];

/// How far the store has followed an audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedAuditLog {
    /// Which one.
    pub id: AuditLogId,
    /// The name of its machine.
    pub gate: String,
    /// Its last line here.
    pub head: AuditHash,
    /// The lines that the store has followed, also those that it does not keep.
    pub lines: u64,
    /// When that was, in nanoseconds since 1970.
    pub at: u64,
}

/// A line that the store keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAuditLine {
    /// Its place in the order of all gates, from 1.
    pub sequence: u64,
    /// Its log.
    pub log: AuditLogId,
    /// Its place among the lines of its log that the store has followed, from 1.
    pub number: u64,
    /// The hash of the line in the log.
    pub hash: AuditHash,
    /// Whether the log had lost the line before this one when this one came.
    pub is_after_gap: bool,
    /// Whether the text is the line as it is in the log.
    pub is_whole: bool,
    /// What is kept of it.
    pub text: String,
}

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSource {
    /// The log.
    pub id: AuditLogId,
    /// The name of its machine, of which 64 bytes are kept.
    pub gate: String,
    /// The last line that the store had when the log was read; `None` if it had none.
    pub head: Option<AuditHash>,
    /// The store's present time.
    pub at: Time,
}

/// The next line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextAuditLine {
    /// The hash of the line.
    pub hash: AuditHash,
    /// What is kept of it, if anything.
    pub text: Option<String>,
    /// Whether that is the whole line.
    pub is_whole: bool,
    /// Whether the log has not the line that the store had last.
    pub is_after_gap: bool,
}

/// All that the store has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedAudit {
    /// The logs, the one that was heard of last at the end.
    pub logs: Vec<FollowedAuditLog>,
    /// The lines, the oldest first.
    pub lines: Vec<SharedAuditLine>,
    /// The first and the last of lines that the database has dropped or damaged.
    pub lost: Vec<(u64, u64)>,
}

/// The record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AuditIndex {
    /// The place of the newest line.
    last: u64,
    logs: Vec<FollowedAuditLog>,
    /// The oldest first.
    pages: Vec<AuditPage>,
    /// Texts that it names no more, and that may be there still.
    unused: Vec<DocumentName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AuditPage {
    name: DocumentName,
    /// The place of its first line.
    first: u64,
    lines: u64,
    /// In bytes.
    length: u64,
    /// When the store got its first line, in nanoseconds since 1970.
    begun: u64,
}

/// The texts that an index names for the first time, and those that it no longer names.
#[derive(Default)]
struct RenamedTexts {
    new: Vec<DocumentName>,
    dropped: Vec<DocumentName>,
}

impl AuditIndex {
    fn log(&self, id: AuditLogId) -> Option<&FollowedAuditLog> {
        self.logs.iter().find(|log| log.id == id)
    }

    /// Follows a log, and returns the lines that are to be kept.
    fn follow(&mut self, source: &AuditSource, next: &[NextAuditLine]) -> Vec<SharedAuditLine> {
        let known = self.log(source.id);
        let (mut head, mut number) = (source.head.unwrap_or_default(), known.map_or(0, |log| log.lines));
        let mut kept = Vec::new();
        for line in next {
            (head, number) = (line.hash, number.saturating_add(1));
            if let Some(text) = line.text.clone() {
                self.last = self.last.saturating_add(1);
                let (sequence, log, hash) = (self.last, source.id, line.hash);
                let (is_after_gap, is_whole) = (line.is_after_gap, line.is_whole);
                kept.push(SharedAuditLine { sequence, log, number, hash, is_after_gap, is_whole, text });
            }
        }
        self.logs.retain(|log| log.id != source.id);
        if self.logs.len() >= MAX_LOGS {
            self.logs.remove(0);
        }
        let gate = cut(&source.gate, MAX_GATE_LEN);
        let at = source.at.as_nanos();
        self.logs.push(FollowedAuditLog { id: source.id, gate, head, lines: number, at });
        kept
    }
}

impl AuditPage {
    fn last(&self) -> u64 {
        self.first.saturating_add(self.lines).saturating_sub(1)
    }

    fn is_old(&self, now: Time) -> bool {
        now.since(Time::from_nanos(self.begun)) > KEPT
    }
}

impl SharedAudit {
    /// All hashes of lines that the store knows.
    pub fn hashes(&self) -> impl Iterator<Item = AuditHash> {
        self.logs.iter().map(|log| log.head).chain(self.lines.iter().map(|line| line.hash))
    }

    /// The name of the machine that a log is from, as far as the store knows it.
    #[must_use]
    pub fn gate_of(&self, id: AuditLogId) -> &str {
        self.logs.iter().find(|log| log.id == id).map_or("a gate", |log| log.gate.as_str())
    }
}

impl Fleet {
    /// How far the store has followed a log: one request. `None` if it knows none of its lines.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn followed_audit_log(&self, id: AuditLogId) -> Result<Option<FollowedAuditLog>, FleetError> {
        Ok(self.load_audit().await?.0.log(id).cloned())
    }

    /// Adds the next lines of a log. The oldest lines of all gates make room for them.
    ///
    /// # Errors
    /// See [`FleetError`]; [`Conflict`](FleetError::Conflict) if another process has added lines of this log, or too many
    /// gates add theirs: the caller reads its log again.
    pub async fn follow_audit_log(
        &self,
        source: &AuditSource,
        next: &[NextAuditLine],
    ) -> Result<(), FleetError> {
        for _ in 0..FOLLOW_TRIES {
            let (mut index, version) = self.load_audit().await?;
            if index.log(source.id).map(|log| log.head) != source.head {
                return Err(FleetError::Conflict);
            }
            let kept = index.follow(source, next);
            let renamed = self.add_audit_lines(&mut index, kept, source.at).await?;
            match self.replace_audit(version, &mut index, renamed).await {
                Err(FleetError::Conflict) => {}
                replaced => return replaced,
            }
        }
        Err(FleetError::Conflict)
    }

    /// All that the store has: a request for the index, and one for each page.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn audit(&self, now: Time) -> Result<SharedAudit, FleetError> {
        for _ in 0..MAX_TRIES {
            let (index, version) = self.load_audit().await?;
            let mut audit = SharedAudit { logs: index.logs, ..SharedAudit::default() };
            for page in index.pages.iter().filter(|page| !page.is_old(now)) {
                match self.audit_page(page).await {
                    Ok(lines) => audit.lines.extend(lines),
                    Err(FleetError::Lost(_) | FleetError::Foreign(_)) => {
                        audit.lost.push((page.first, page.last()));
                    }
                    Err(error) => return Err(error),
                }
            }
            // A gate that adds a line takes its page away.
            if audit.lost.is_empty() || self.load_audit().await?.1 == version {
                return Ok(audit);
            }
        }
        Err(FleetError::Conflict)
    }

    /// Puts another text in the place of each line for which `other` has one. Returns their number; a dry run changes nothing.
    ///
    /// # Errors
    /// See [`FleetError`]; [`Foreign`](FleetError::Foreign) if a page cannot be read, and so may have such a line.
    pub async fn rewrite_audit(
        &self,
        other: impl Fn(&str) -> Option<String>,
        is_dry_run: bool,
    ) -> Result<u64, FleetError> {
        if is_dry_run {
            let audit = self.audit(Time::default()).await?;
            return Ok(audit.lines.iter().filter(|line| other(&line.text).is_some()).count() as u64);
        }
        let (mut rewritten, mut read) = (0_u64, HashSet::new());
        'index: for _ in 0..MAX_REWRITES {
            let (mut index, version) = self.load_audit().await?;
            self.remove_texts(&index.unused).await?;
            for (at, page) in index.pages.clone().into_iter().enumerate() {
                if read.contains(&page.name) {
                    continue;
                }
                let mut lines = match self.audit_page(&page).await {
                    Ok(lines) => lines,
                    Err(error @ (FleetError::Lost(_) | FleetError::Foreign(_))) => {
                        // A gate that adds a line takes its page away.
                        if self.load_audit().await?.1 != version {
                            continue 'index;
                        }
                        if let FleetError::Foreign(_) = error {
                            return Err(error);
                        }
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let changed = rewrite(&mut lines, &other);
                if changed == 0 {
                    read.insert(page.name);
                    continue;
                }
                // One after the other, so that a slow store is done after a few tries.
                let new = self.write_audit_page(&lines, page.begun).await?;
                let renamed = RenamedTexts { new: vec![new.name], dropped: vec![page.name] };
                read.insert(new.name);
                index.pages[at] = new;
                match self.replace_audit(version, &mut index, renamed).await {
                    Ok(()) => rewritten += changed,
                    Err(FleetError::Conflict) => {}
                    Err(error) => return Err(error),
                }
                continue 'index;
            }
            return Ok(rewritten);
        }
        Err(FleetError::Conflict)
    }

    /// Seals the audit again, as [`reseal`](Self::reseal) does the rest.
    ///
    /// # Errors
    /// See [`FleetError`].
    pub async fn reseal_audit(&self) -> Result<(), FleetError> {
        let index = match self.load_audit().await {
            // It keeps nobody from following a policy.
            Err(FleetError::Foreign(_)) => return Ok(()),
            loaded => loaded?.0,
        };
        for page in index.pages {
            self.reseal_record(PAGE_TTL, self.keys.text(page.name), "audit").await?;
        }
        self.reseal_record(FOR_GOOD, self.keys.audit(), "audit").await
    }

    /// Removes an index that cannot be read.
    pub(super) async fn remove_foreign_audit(&self) -> Result<(), FleetError> {
        match self.load_audit().await {
            Err(FleetError::Foreign(_)) => Ok(self.remove(self.keys.audit()).await?),
            _ => Ok(()),
        }
    }

    async fn load_audit(&self) -> Result<(AuditIndex, Option<RecordVersion>), FleetError> {
        let key = self.keys.audit();
        let Some(stored) = self.backend.load(key).await?.value else { return Ok(Default::default()) };
        let opened = self.keys.seal.open(key, &stored.bytes);
        let index = opened.and_then(|opened| postcard::from_bytes(opened.text).ok());
        Ok((index.ok_or(FleetError::Foreign("list of changes for the audit"))?, Some(stored.version)))
    }

    async fn audit_page(&self, page: &AuditPage) -> Result<Vec<SharedAuditLine>, FleetError> {
        let bytes = self.text(page.name, PAGE).await?;
        let lines: Vec<SharedAuditLine> =
            postcard::from_bytes(&bytes).map_err(|_| FleetError::Foreign(PAGE))?;
        let is_in_order = (page.first..).zip(&lines).all(|(sequence, line)| line.sequence == sequence);
        match is_in_order && lines.len() as u64 == page.lines {
            true => Ok(lines),
            false => Err(FleetError::Foreign(PAGE)),
        }
    }

    async fn write_audit_page(&self, lines: &[SharedAuditLine], begun: u64) -> Result<AuditPage, FleetError> {
        let bytes = bytes_of(&lines);
        let name = self.write_text_for(PAGE_TTL, &bytes, "audit").await?;
        let first = lines.first().map_or(0, |line| line.sequence);
        Ok(AuditPage { name, first, lines: lines.len() as u64, length: bytes.len() as u64, begun })
    }

    /// Adds lines to the newest page while they fit, otherwise as a new one.
    async fn add_audit_lines(
        &self,
        index: &mut AuditIndex,
        kept: Vec<SharedAuditLine>,
        now: Time,
    ) -> Result<RenamedTexts, FleetError> {
        let mut renamed = RenamedTexts::default();
        if kept.is_empty() {
            return Ok(renamed);
        }
        let old = index.pages.extract_if(.., |page| page.is_old(now));
        renamed.dropped.extend(old.map(|page| page.name));
        let length = bytes_of(&kept).len() as u64;
        let (mut lines, mut begun) = (Vec::new(), now.as_nanos());
        // A page goes as a whole: it must not take newer lines with it.
        let has_room = |page: &&AuditPage| {
            page.length.saturating_add(length) <= MAX_PAGE_LEN
                && now.since(Time::from_nanos(page.begun)) <= PAGE_SPAN
        };
        if let Some(page) = index.pages.last().filter(has_room).cloned() {
            match self.audit_page(&page).await {
                Ok(before) => {
                    (lines, begun) = (before, page.begun);
                    renamed.dropped.extend(index.pages.pop().map(|page| page.name));
                }
                // It stays in the index, so that readers hear of its loss.
                Err(FleetError::Lost(_) | FleetError::Foreign(_)) => {}
                Err(error) => return Err(error),
            }
        }
        lines.extend(kept);
        let page = self.write_audit_page(&lines, begun).await?;
        renamed.new.push(page.name);
        index.pages.push(page);
        while index.pages.len() > MAX_PAGES {
            renamed.dropped.push(index.pages.remove(0).name);
        }
        Ok(renamed)
    }

    /// Puts an index in the place of the one that was read. The texts that no index names any more go: they may name people.
    async fn replace_audit(
        &self,
        old: Option<RecordVersion>,
        index: &mut AuditIndex,
        RenamedTexts { new, dropped }: RenamedTexts,
    ) -> Result<(), FleetError> {
        // Those of a writer that ended before it had removed them.
        self.remove_texts(&index.unused).await?;
        index.unused.clone_from(&dropped);
        let written = self.swap(self.keys.audit(), old, &bytes_of(&*index), "audit").await;
        let unused = match &written {
            Ok(()) => dropped,
            Err(FleetError::Conflict) => new,
            // It may have been written all the same.
            Err(_) => Vec::new(),
        };
        let removed = self.remove_texts(&unused).await;
        written.and(removed.map_err(FleetError::from))
    }

    async fn remove_texts(&self, names: &[DocumentName]) -> Result<(), StoreError> {
        for name in names {
            self.remove(self.keys.text(*name)).await?;
        }
        Ok(())
    }
}

/// Returns how many lines have another text now.
fn rewrite(lines: &mut [SharedAuditLine], other: &impl Fn(&str) -> Option<String>) -> u64 {
    let mut changed = 0;
    for line in lines {
        if let Some(text) = other(&line.text) {
            (line.text, line.is_whole) = (text, false);
            changed += 1;
        }
    }
    changed
}

/// Bytes of lines that one call may add: with the rest of a page they fit into a record of every database.
pub const MAX_ADDED_LEN: usize = 24 * 1024;
/// Logs in the index; the one that was not heard of for longest makes room.
const MAX_LOGS: usize = 150;
const MAX_GATE_LEN: usize = 64;
/// With the bound of a page: at most 512 KiB of lines are kept.
const MAX_PAGES: usize = 16;
const MAX_PAGE_LEN: u64 = 32 * 1024;
/// How long a line is kept if no other one needs its room.
const KEPT: Span = Span::from_secs(365 * 86_400);
/// How long lines are added to a page.
const PAGE_SPAN: Span = Span::from_secs(60 * 86_400);
/// A page that no index names, as of a gate that ended before it had written one, is gone after this time.
const PAGE_TTL: Span = Span::from_secs(400 * 86_400);
/// Indexes that are written while lines are rewritten: one for each page, and those of gates that come first.
const MAX_REWRITES: u32 = 36;
/// Gates that write at the same time try again soon.
const FOLLOW_TRIES: u32 = 4;
const PAGE: &str = "page of the audit";

#[cfg(test)]
mod tests;
