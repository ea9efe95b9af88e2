//! Sends the lines of this gate's audit log to the store that gates share, in the order of the file.
//!
//! A change waits for the file and not for the store. The store knows the last line that it has; what follows that in the
//! file is sent, so lines of a time without the store follow later, even after a restart. If no file has that line, lines
//! were removed: the log says so, and the store keeps it for `tollgate audit verify --fleet`.
//!
//! Only where there are an audit log, a shared store and `store.secret`, without which anybody who can write to the store
//! could write changes there.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::Parts;
use super::fleet::FleetLink;
use super::ticks::next_tick;
use crate::config::{Config, StoreSettings};
use crate::observe::audit::{AuditLog, AuditTail, LineHash, SharedLineForm, lines_after, newest_lines};
use crate::store::{AuditLogId, AuditSource, Fleet, FleetError, MAX_ADDED_LEN, NextAuditLine};
use crate::time::{Span, Time};

/// Sends lines to the store.
struct AuditSender {
    log: Arc<AuditLog>,
    link: FleetLink,
    id: AuditLogId,
    /// The last line of the log when the store had all of it, and when that was.
    sent: Option<(LineHash, Time)>,
    /// The last failure, which is logged once.
    failure: Option<String>,
}

/// Why lines are not in the store yet.
#[derive(Debug, thiserror::Error)]
enum SendAuditError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the store {0}")]
    Fleet(#[from] FleetError),
}

/// The store that may have the audit of all gates, also of those that had an audit log before.
pub(super) fn audit_store(config: &Config) -> Option<StoreSettings> {
    config.store.is_shared_and_sealed().then(|| config.store.clone())
}

impl Parts {
    /// Sends each line soon after it was written. Never ends.
    pub(super) async fn share_audit(&self) {
        let Some(mut sender) = AuditSender::of(self) else { return std::future::pending().await };
        loop {
            sender.send(self).await;
            next_tick(PERIOD).await;
        }
    }

    /// Sends the last lines of a gate that ends. Without the store they stay in the file until the next start.
    pub(super) async fn share_end_of_audit(&self) {
        let Some(mut sender) = AuditSender::of(self) else { return };
        for _ in 0..LAST_PARTS {
            if !sender.send(self).await {
                return;
            }
        }
    }
}

impl AuditSender {
    fn of(parts: &Parts) -> Option<Self> {
        let log = parts.observers.audit.clone()?;
        let link = FleetLink::of(parts, parts.audit_store.as_ref()?)?;
        Some(Self { id: id_of(&log), log, link, sent: None, failure: None })
    }

    /// Sends a part of what the store has not yet. Whether there may be more that it takes.
    async fn send(&mut self, parts: &Parts) -> bool {
        // The lines that are counted are in the file.
        let (head, appended) = (self.log.head(), self.log.appended());
        let now = parts.engine.clock().now();
        // The store may lose what it has.
        if self.sent.is_some_and(|(sent, at)| sent == head && now.since(at) < LOOK_AGAIN) {
            return false;
        }
        match self.send_part(parts).await {
            Ok(true) => {
                self.failure = None;
                true
            }
            Ok(false) => {
                (self.sent, self.failure) = (Some((head, now)), None);
                self.log.note_shared(appended);
                false
            }
            // Another gate came first, or the other process of this one.
            Err(SendAuditError::Fleet(FleetError::Conflict)) => true,
            Err(error) => {
                self.tell(&error);
                false
            }
        }
    }

    /// Whether there is more.
    async fn send_part(&self, parts: &Parts) -> Result<bool, SendAuditError> {
        let id = self.id;
        let known = self.link.run(move |fleet| async move { fleet.followed_audit_log(id).await }).await?;
        let head = known.map(|known| known.head);
        let (tail, is_after_gap) = self.tail(head.map(LineHash::from), parts).await?;
        let (next, has_more) = next_lines(&tail, is_after_gap);
        if next.is_empty() {
            return Ok(false);
        }
        let (gate, at) = (self.log.gate().to_owned(), self.link.now());
        let source = AuditSource { id, gate, head, at };
        self.link
            .run(move |fleet: Fleet| async move { fleet.follow_audit_log(&source, &next).await })
            .await?;
        Ok(has_more)
    }

    /// The lines that the store has not yet, and whether the log has lost the last one that it has.
    async fn tail(&self, head: Option<LineHash>, parts: &Parts) -> Result<(AuditTail, bool), SendAuditError> {
        if let Some(head) = head {
            let known = HashSet::from([head]);
            if let Some(tail) = self.read(move |path| lines_after(path, &known), parts).await? {
                return Ok((tail, false));
            }
            if self.failure.is_none() {
                tracing::error!(
                    "the store has {head} as the last line of the audit log {}, and the file has it no more",
                    self.log.path().display()
                );
            }
        }
        // It may know the lines from before this machine had another name, or the index had no room for this log.
        let now = self.link.now();
        let all = self.link.run(move |fleet| async move { fleet.audit(now).await }).await?;
        let known: HashSet<LineHash> = all.hashes().map(LineHash::from).collect();
        let after_any = move |path: &Path| match lines_after(path, &known)? {
            Some(tail) => Ok(tail),
            None => newest_lines(path),
        };
        Ok((self.read(after_any, parts).await?, head.is_some()))
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
        parts: &Parts,
    ) -> io::Result<T> {
        let path = self.log.path().to_owned();
        parts.sandbox.broker().run(move || read(&path)).await.and_then(|read| read)
    }

    fn tell(&mut self, error: &SendAuditError) {
        let text = error.to_string();
        // The store itself says that it is away.
        let is_away = matches!(error, SendAuditError::Fleet(FleetError::Store(_)));
        if !is_away && self.failure.as_ref() != Some(&text) {
            tracing::error!("the audit log is not followed by the store: {text}");
        }
        self.failure = Some(text);
    }
}

/// The log of this gate: by its machine and its path, which are the same after a restart.
fn id_of(log: &AuditLog) -> AuditLogId {
    let path = std::path::absolute(log.path()).unwrap_or_else(|_| log.path().to_owned());
    let hash = Sha256::new().chain_update(log.gate()).chain_update([0_u8]);
    let hash: [u8; 32] = hash.chain_update(path.as_os_str().as_encoded_bytes()).finalize().into();
    AuditLogId(hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

/// As many lines as the store takes at once, and whether more follow.
fn next_lines(tail: &AuditTail, is_after_gap: bool) -> (Vec<NextAuditLine>, bool) {
    let (mut next, mut length) = (Vec::new(), 0);
    for (at, (hash, line)) in tail.lines.iter().enumerate() {
        let form = SharedLineForm::of(line);
        // The line after a gap tells of it, whatever it is about.
        let is_after_gap = is_after_gap && at == 0;
        let text = (form.is_change || is_after_gap).then_some(form.text);
        length += text.as_ref().map_or(0, String::len);
        if length > MAX_ADDED_LEN {
            return (next, true);
        }
        next.push(NextAuditLine { hash: (*hash).into(), text, is_whole: form.is_whole, is_after_gap });
    }
    (next, tail.has_more)
}

/// A line that was written is in the store within twice this time.
const PERIOD: Duration = Duration::from_millis(500);
/// How long nothing is asked of the store after it had all lines.
const LOOK_AGAIN: Span = Span::from_secs(60);
/// Parts that a gate sends when it ends.
const LAST_PARTS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(lines: &[String]) -> AuditTail {
        let line = |line: &String| (LineHash::of(line.as_bytes()), line.clone().into_bytes());
        AuditTail { lines: lines.iter().map(line).collect(), has_more: false }
    }

    fn line(what: &str, why: &str) -> String {
        format!(r#"{{"time":"t","gate":"g","who":"desk","what":"{what}","why":"{why}"}}"#)
    }

    #[test]
    fn changes_are_kept_and_other_lines_only_followed() {
        let lines = [line("gate.begin", ""), line("bucket.ban", "7"), line("gate.lines", "")];
        let (next, has_more) = next_lines(&tail(&lines), false);
        let kept: Vec<_> = next.iter().map(|line| line.text.as_deref()).collect();
        assert_eq!((kept, has_more), (vec![None, Some(&*lines[1]), None], false));
        let (next, _) = next_lines(&tail(&lines), true);
        let gaps: Vec<_> = next.iter().map(|line| (line.is_after_gap, line.text.is_some())).collect();
        assert_eq!(gaps, [(true, true), (false, true), (false, false)]);
    }

    #[test]
    fn what_the_store_does_not_take_at_once_comes_later() {
        let lines = vec![line("bucket.ban", &"x".repeat(7_000)); 9];
        let (next, has_more) = next_lines(&tail(&lines), false);
        assert_eq!((next.len(), has_more), (3, true));
    }
}
