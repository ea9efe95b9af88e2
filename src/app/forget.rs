//! Takes a person out of the files of this gate: its logs with those that were rotated, and the snapshot; and out of what the kernel
//! and decision endpoints keep.
//!
//! The broker opens files, each in its own thread, because a log may be long. The audit log is one chain of hashes, so its
//! lines stay; those that name the person are counted. Their copies in the store lose all but who changed something, and
//! when: the store has the hashes next to the lines. What was sent elsewhere is named.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Parts;
use super::fleet::FleetLink;
use super::kernel::DropQueue;
use super::sandbox::Broker;
use super::snapshot::Snapshotter;
use crate::engine::OpenAttempts;
use crate::observe::admin::ForgetFiles;
use crate::observe::admin::pages::ForgetPlace;
use crate::observe::audit::{AuditLog, without_person};
use crate::observe::line_log::LineLog;
use crate::observe::line_log::rewrite::{
    ListedFile, MAX_LINE, RewriteError, listed_files, remove_unfinished, rewrite, unpacked,
};
use crate::observe::line_log::rotated::rotated_files;
use crate::observe::refusal_summary::RefusalSummary;
use crate::observe::traces::Traces;

/// The files of a gate, and who writes them.
#[derive(Clone)]
struct WrittenFiles {
    logs: Vec<Arc<LineLog>>,
    summary: Option<Arc<RefusalSummary>>,
    snapshotter: Option<Arc<Snapshotter>>,
    audit: Option<Arc<AuditLog>>,
    open_attempts: Arc<[OpenAttempts]>,
    /// The store that takes the audit of all gates.
    shared_audit: Option<Arc<FleetLink>>,
    drops: Option<Arc<DropQueue>>,
    broker: Broker,
}

impl Parts {
    /// What the admin API calls to take a person out of files.
    pub(super) fn forget_files(&self) -> ForgetFiles {
        let files = WrittenFiles {
            logs: self.observers.logs.line_logs().to_vec(),
            summary: self.observers.logs.refusal_summary().cloned(),
            snapshotter: self.snapshotter.clone(),
            audit: self.observers.audit.clone(),
            open_attempts: Arc::clone(&self.serving.open_attempts),
            shared_audit: self
                .audit_store
                .as_ref()
                .and_then(|store| FleetLink::of(self, store))
                .map(Arc::new),
            drops: self.drops.clone(),
            broker: self.sandbox.broker().clone(),
        };
        Box::new(move |traces, is_dry_run| {
            let files = files.clone();
            Box::pin(async move { files.forget(&traces, is_dry_run).await })
        })
    }
}

impl WrittenFiles {
    async fn forget(&self, traces: &Arc<Traces>, is_dry_run: bool) -> Vec<ForgetPlace> {
        let mut places = Vec::new();
        if let Some(drops) = &self.drops {
            if !is_dry_run {
                drops.look_again_at(traces.addresses());
            }
            let note = "those that no bucket or ban refuses any more are let go within seconds";
            places.push(ForgetPlace::of("kernel: dropped clients", "clients", 0).noting(note));
        }
        if !self.open_attempts.is_empty() {
            let forget = |open: &OpenAttempts| open.forget(traces.account_hashes(), is_dry_run);
            let forgotten: usize = self.open_attempts.iter().map(forget).sum();
            places.push(ForgetPlace::of("memory: attempts without a report", "attempts", forgotten as u64));
        }
        if let Some(summary) = &self.summary {
            let ongoing = summary.forget(traces, is_dry_run);
            places.push(ForgetPlace::of("memory: refusals going on", "refusals", ongoing));
        }
        if let Some(snapshotter) = self.snapshotter.as_ref().filter(|_| !is_dry_run) {
            let path = snapshotter.path().display().to_string();
            places.push(match snapshotter.write_now().await {
                true => ForgetPlace::of(path, "files", 1).noting("written again"),
                false => {
                    ForgetPlace::failed(path, "files", &"it cannot be written now: the gate's log says why")
                }
            });
        }
        for log in &self.logs {
            match log.file() {
                Some(path) => self.forget_in(log, path, traces, is_dry_run, &mut places).await,
                None => {
                    let note = "went to standard output or syslog, where the gate cannot reach it";
                    places.push(ForgetPlace::of(log.name(), "lines", 0).noting(note));
                }
            }
        }
        if let Some(audit) = &self.audit {
            places.push(self.kept_in(audit.path().to_owned(), traces).await);
        }
        if let Some(shared) = &self.shared_audit {
            let is_complete = match &self.audit {
                Some(audit) if !is_dry_run => is_shared(audit).await,
                _ => true,
            };
            places.push(forget_in_shared_audit(shared, traces, is_dry_run, is_complete).await);
        }
        places.push(ForgetPlace::of("messages", "lines", 0).noting(
            "what the gate said on standard error, in webhooks and to collectors is kept by those that read it",
        ));
        places
    }

    /// The present file of a log, and the rotated ones.
    async fn forget_in(
        &self,
        log: &Arc<LineLog>,
        path: &Path,
        traces: &Arc<Traces>,
        is_dry_run: bool,
        places: &mut Vec<ForgetPlace>,
    ) {
        // A file that logrotate has renamed may still be written to.
        let reopened = {
            let log = Arc::clone(log);
            self.broker.run(move || log.reopen()).await
        };
        let ready = match reopened.and_then(|reopened| reopened) {
            Ok(()) => is_written(log)
                .await
                .then_some(())
                .ok_or_else(|| "its lines are not written in time".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = ready {
            places.push(ForgetPlace::failed(path.display().to_string(), "lines", &why));
            return;
        }
        let listed = match self.listed(path, !is_dry_run).await {
            Ok(listed) => listed,
            Err(error) => {
                places.push(ForgetPlace::failed(format!("{}*", path.display()), "lines", &error));
                return;
            }
        };
        let known: Vec<PathBuf> = listed.iter().map(|file| file.path.clone()).collect();
        for file in listed {
            let writer = (file.path == path).then(|| Arc::clone(log));
            places.push(self.rewritten(file, writer, Arc::clone(traces), is_dry_run).await);
        }
        // One that came meanwhile may have lines of before.
        let again = self.listed(path, false).await;
        let all_known = again.and_then(|again| {
            let is_known = |file: &ListedFile| known.contains(&file.path);
            again.iter().all(is_known).then_some(()).ok_or(RewriteError::Moved)
        });
        if let Err(error) = all_known {
            places.push(ForgetPlace::failed(format!("{}*", path.display()), "lines", &error));
        }
    }

    /// The files of a log, at first without those that a gate left that was killed while it wrote them.
    async fn listed(&self, path: &Path, cleans: bool) -> Result<Vec<ListedFile>, RewriteError> {
        let path = path.to_owned();
        let list = move || {
            if cleans {
                remove_unfinished(&path)?;
            }
            listed_files(&path)
        };
        self.broker.run(list).await.map_err(RewriteError::from).and_then(|listed| listed)
    }

    async fn rewritten(
        &self,
        file: ListedFile,
        writer: Option<Arc<LineLog>>,
        traces: Arc<Traces>,
        is_dry_run: bool,
    ) -> ForgetPlace {
        let name = file.path.display().to_string();
        let act = move || rewrite(&file, &traces, writer.as_deref(), is_dry_run);
        match self.broker.run(act).await.map_err(RewriteError::from).and_then(|rewritten| rewritten) {
            Ok(lines) => ForgetPlace::of(name, "lines", lines),
            Err(error) => ForgetPlace::failed(name, "lines", &error),
        }
    }

    /// How many lines of the audit log name the person.
    async fn kept_in(&self, path: PathBuf, traces: &Arc<Traces>) -> ForgetPlace {
        let (name, traces) = (path.display().to_string(), Arc::clone(traces));
        let counted = self.broker.run(move || lines_that_name(&path, &traces)).await;
        match counted.and_then(|counted| counted) {
            Ok(0) => ForgetPlace::of(name, "lines", 0),
            Ok(lines) => ForgetPlace::of(name, "lines", 0).noting(format!(
                "{lines} that name the person stay: they record what operators decided, and are one chain"
            )),
            Err(error) => ForgetPlace::failed(name, "lines", &error),
        }
    }
}

/// The lines of all gates in the store.
async fn forget_in_shared_audit(
    shared: &FleetLink,
    traces: &Arc<Traces>,
    is_dry_run: bool,
    is_complete: bool,
) -> ForgetPlace {
    let traces = Arc::clone(traces);
    let other = move |text: &str| traces.are_in_audit(text.as_bytes()).then(|| without_person(text));
    let rewritten =
        shared.run(move |fleet| async move { fleet.rewrite_audit(other, is_dry_run).await }).await;
    match rewritten {
        Ok(lines) if is_complete => ForgetPlace::of(SHARED_AUDIT, "lines", lines),
        Ok(_) => {
            ForgetPlace::failed(SHARED_AUDIT, "lines", &"lines of this gate come later: run the same again")
        }
        Err(error) => ForgetPlace::failed(SHARED_AUDIT, "lines", &error),
    }
}

/// Waits until the store has all lines of this gate.
async fn is_shared(audit: &AuditLog) -> bool {
    for _ in 0..FLUSH_TIMEOUT.as_millis() / FLUSH_POLL.as_millis() {
        if audit.waiting() == Some(0) {
            return true;
        }
        tokio::time::sleep(FLUSH_POLL).await;
    }
    false
}

/// Waits until all lines of before are in the file.
async fn is_written(log: &LineLog) -> bool {
    let sweeps = log.flush();
    for _ in 0..FLUSH_TIMEOUT.as_millis() / FLUSH_POLL.as_millis() {
        if log.has_swept(sweeps) {
            return true;
        }
        tokio::time::sleep(FLUSH_POLL).await;
    }
    false
}

/// In the present file of the audit log and the rotated ones.
fn lines_that_name(path: &Path, traces: &Traces) -> std::io::Result<u64> {
    let rotated = rotated_files(path)?.into_iter().map(|(_, file)| file);
    let mut found = 0;
    for file in rotated.chain([path.to_owned()]) {
        let mut text = BufReader::new(unpacked(File::open(&file)?, &file)?);
        let mut line = Vec::new();
        while text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0 {
            found += u64::from(traces.are_in_audit(&line));
            line.clear();
        }
    }
    Ok(found)
}

const SHARED_AUDIT: &str = "store: audit of all gates";
/// How long lines of before may take to their file.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
const FLUSH_POLL: Duration = Duration::from_millis(20);
