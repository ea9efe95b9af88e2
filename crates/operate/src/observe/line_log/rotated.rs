//! The files of a log: the present one, and those that logrotate or another program made of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::time::Time;

/// The files of the log at this path, each with the time at which it was last written, the oldest first: `decisions.log`, and
/// as logrotate calls its files `decisions.log.1`, `decisions.log.2.gz`, `decisions.log-20261120`.
///
/// # Errors
/// If the directory cannot be read.
pub fn log_files(path: &Path) -> io::Result<Vec<(Time, PathBuf)>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().strip_prefix(&name).is_some_and(is_rotated) {
            continue;
        }
        let written = entry.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        found.push((Time::from_nanos(u64::try_from(written.as_nanos()).unwrap_or(u64::MAX)), entry.path()));
    }
    found.sort();
    Ok(found)
}

/// Removes the rotated files of a log that were last written before this time, and returns their number. The present file
/// stays, however old it is, and so does what is no regular file.
///
/// # Errors
/// If the directory cannot be read, or one of them cannot be removed; the others are.
pub fn remove_rotated(path: &Path, before: Time) -> io::Result<usize> {
    let mut removed = 0;
    let mut failed = Ok(());
    for (written, file) in log_files(path)? {
        let is_regular = fs::symlink_metadata(&file).is_ok_and(|data| data.is_file());
        if written < before && is_regular && file.file_name() != path.file_name() {
            match fs::remove_file(&file) {
                Ok(()) => removed += 1,
                Err(error) => {
                    failed = Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
                }
            }
        }
    }
    failed.map(|()| removed)
}

/// Whether this follows the name of a log in that of a rotated one; nothing follows in the present one's.
fn is_rotated(rest: &str) -> bool {
    rest.is_empty()
        || rest.strip_prefix(['.', '-']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Clock, Span};

    #[test]
    fn rotated_files_that_are_too_old_go_and_no_others() {
        let directory = std::env::temp_dir().join(format!("tollgate-rotated-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let now = Clock::system().now();
        let old = UNIX_EPOCH + now.before(Span::from_secs(40 * 86_400)).since(Time::from_nanos(0)).to_std();
        let write = |name: &str, is_old: bool| {
            let file = fs::File::create(directory.join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        };
        for name in ["a.log", "a.log.1", "a.log.2.gz", "a.log-20261120", "a.log.old", "b.log.1", "a.logs"] {
            write(name, true);
        }
        write("a.log.0", false);
        fs::create_dir(directory.join("a.log.3")).unwrap();
        let before = now.before(Span::from_secs(30 * 86_400));
        assert_eq!(remove_rotated(&directory.join("a.log"), before).unwrap(), 3);
        let mut left: Vec<String> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["a.log", "a.log.0", "a.log.3", "a.log.old", "a.logs", "b.log.1"]);
        fs::remove_dir_all(directory).unwrap();
    }
}
