//! Files of the configuration: secrets that others can read, and directories of logs and snapshots.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Symptom;
use crate::cli::service_unit::ServiceUnit;
use crate::config::{Config, Sources};
use crate::observe::settings::{DecisionLog, LogTarget};

/// Secrets first, then what the gate writes.
pub(super) fn look(config: &Config, sources: &Sources, unit: Option<&ServiceUnit>) -> Vec<Symptom> {
    let secrets = config.process.files.iter().filter(|path| is_secret(path, &sources.text));
    let secrets = secrets.filter_map(|path| secret(path));
    let decisions = match &config.log.decisions {
        DecisionLog::Every(target) => Some(("log.decisions", target)),
        DecisionLog::Summary | DecisionLog::Off => None,
    };
    let access = config.log.access.as_ref().map(|target| ("log.access", target));
    let logs = [access, decisions].into_iter().flatten().filter_map(|(key, target)| match target {
        LogTarget::File(path) => Some((key, path.as_path())),
        LogTarget::StandardOutput | LogTarget::Syslog(_) => None,
    });
    let snapshot = config.store.snapshot.as_deref().map(|path| ("store.snapshot", path));
    let audit = config.operators.audit.as_deref().map(|path| ("admin.audit", path));
    let written = logs.chain(snapshot).chain(audit).map(|(key, path)| written(key, path, unit));
    secrets.chain(written).collect()
}

/// Whether the text names the file as a secret, or it holds a private key.
fn is_secret(path: &Path, text: &str) -> bool {
    let is_named = path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        text.lines().any(|line| line.contains("${file:") && line.contains(&*name))
    });
    is_named || fs::read(path).is_ok_and(|bytes| bytes.windows(KEY.len()).any(|window| window == KEY))
}

fn secret(path: &Path) -> Option<Symptom> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let place = format!("secret {}", path.display());
    Some(match mode & 0o077 {
        0 => Symptom::good(place, "readable by its owner alone"),
        0o040 => Symptom::good(place, "readable by its owner and its group"),
        _ => {
            let mend = format!("`chmod 600 {}`, and a new one if others may have read it", path.display());
            Symptom::doubtful(place, format!("others can read or change it (mode {mode:o})"), mend)
        }
    })
}

fn written(key: &str, path: &Path, unit: Option<&ServiceUnit>) -> Symptom {
    let place = format!("{key} {}", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = directory.display();
    if unit.is_some_and(|unit| unit.makes(directory)) {
        return Symptom::good(place, format!("the unit makes {shown}"));
    }
    match fs::metadata(directory) {
        Ok(about) if !about.is_dir() => {
            Symptom::bad(place, format!("{shown} is not a directory"), "name another file")
        }
        Ok(about) if about.permissions().readonly() => Symptom::bad(
            place,
            format!("{shown} is read-only"),
            format!("let the gate's user write in {shown}"),
        ),
        Ok(_) => Symptom::good(place, "its directory is there"),
        Err(error) => {
            let mend = format!("make {shown}; under systemd LogsDirectory= and StateDirectory= do");
            Symptom::bad(place, format!("{shown}: {error}"), mend)
        }
    }
}

const KEY: &[u8] = b"PRIVATE KEY-----";
