//! The logs that the configuration names, with those that were rotated since.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail, ensure};

use crate::observe::settings::{AccessLogStyle, DecisionLog, LogSettings, LogTarget};
use crate::time::Time;

/// The decision log, or else the access log in JSON, the oldest file first.
///
/// # Errors
/// If there is none of them as a file.
pub(super) fn of_config(log: &LogSettings, since: Time) -> anyhow::Result<Vec<PathBuf>> {
    let path = match (&log.decisions, &log.access, log.style) {
        (DecisionLog::Every(LogTarget::File(path)), ..) => path,
        (_, Some(LogTarget::File(path)), AccessLogStyle::Json) => path,
        _ => bail!(
            "the configuration writes no log for this to a file: set decisions = \"decisions.log\" in [log], or name a log \
             with --log"
        ),
    };
    let found = with_rotated(path, since).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(!found.is_empty(), "there is no {} with lines of that time: has the gate run?", path.display());
    Ok(found)
}

/// `decisions.log`, and as logrotate calls its files: `decisions.log.1`, `decisions.log.2.gz`, `decisions.log-20261120`. One
/// that was last written before is left out.
fn with_rotated(path: &Path, since: Time) -> std::io::Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_of_log = entry.file_name().to_string_lossy().strip_prefix(&name).is_some_and(is_rotated);
        if !is_of_log {
            continue;
        }
        let written = entry.metadata()?.modified()?;
        let written = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        if written.as_nanos() >= since.as_nanos().into() {
            found.push((written, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Whether this follows the name of a log in that of a rotated one; nothing follows in the present one's.
fn is_rotated(rest: &str) -> bool {
    rest.is_empty()
        || rest.strip_prefix(['.', '-']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
