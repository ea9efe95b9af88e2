//! The logs that the configuration names, with those that were rotated since.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use crate::observe::line_log::rotated::log_files;
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
    let found = log_files(path).with_context(|| format!("cannot read {}", path.display()))?;
    // One that was last written before has no lines of that time.
    let found: Vec<PathBuf> =
        found.into_iter().filter(|(written, _)| *written >= since).map(|(_, file)| file).collect();
    ensure!(!found.is_empty(), "there is no {} with lines of that time: has the gate run?", path.display());
    Ok(found)
}
