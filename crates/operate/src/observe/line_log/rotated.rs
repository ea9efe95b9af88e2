//! The files of a log: the present one, and those that logrotate or another program made of it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
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

/// Removes the rotated files of a log that were last written before this time, and returns their number: `.1` or `-20261120`
/// follows the name of the log, and perhaps the ending of a compressed file. The present file stays, however old it is, and so
/// does what is no regular file.
///
/// # Errors
/// If the directory cannot be read, or one of them cannot be removed; the others are.
pub fn remove_rotated(path: &Path, before: Time) -> io::Result<usize> {
    let mut removed = 0;
    let mut failed = Ok(());
    for (written, file) in rotated_files(path)? {
        if written < before {
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

/// The rotated files of a log as [`remove_rotated`] knows them.
///
/// # Errors
/// If the directory cannot be read.
pub fn rotated_files(path: &Path) -> io::Result<Vec<(Time, PathBuf)>> {
    // The name of the log may be a link to a file with a date.
    let present = fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = log_files(path)?;
    found.retain(|(_, file)| {
        let data = fs::symlink_metadata(file).ok();
        let is_other = data.is_some_and(|data| data.is_file() && Some((data.dev(), data.ino())) != present);
        let rest = file.file_name().and_then(|file| file.to_str()).and_then(|file| file.strip_prefix(&name));
        is_other && rest.is_some_and(is_surely_rotated)
    });
    Ok(found)
}

/// Whether a file of a log is compressed, by its name.
#[must_use]
pub fn is_compressed(file: &Path) -> bool {
    file.to_str().is_some_and(|name| COMPRESSED.iter().any(|ending| name.ends_with(ending)))
}

/// Whether this follows the name of a log in that of a rotated one; nothing follows in the present one's.
fn is_rotated(rest: &str) -> bool {
    rest.is_empty()
        || rest.strip_prefix(['.', '-']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The same, of nothing but a number or a date: a file that is removed must not be another log or an archive.
pub(super) fn is_surely_rotated(rest: &str) -> bool {
    let rest = COMPRESSED.iter().find_map(|ending| rest.strip_suffix(ending)).unwrap_or(rest);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    match rest.split_at_checked(1) {
        Some((".", number)) if (1..=4).contains(&number.len()) => number.bytes().all(is_digit),
        Some(("." | "-", date)) => date.len() >= 8 && date.bytes().all(|byte| is_digit(byte) || byte == b'-'),
        _ => false,
    }
}

const COMPRESSED: [&str; 4] = [".gz", ".xz", ".zst", ".bz2"];

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
        let others =
            ["a.log-2", "a.log.1.evidence", "a.log-2026-incident.tar", "a.log.old", "a.logs", "b.log.1"];
        let rotated = ["a.log.1", "a.log.2.gz", "a.log-20261120", "a.log.2026-11-20.zst"];
        for name in ["a.log-20261129"].iter().chain(&others).chain(&rotated) {
            write(name, true);
        }
        std::os::unix::fs::symlink("a.log-20261129", directory.join("a.log")).unwrap();
        write("a.log.0", false);
        fs::create_dir(directory.join("a.log.3")).unwrap();
        let before = now.before(Span::from_secs(30 * 86_400));
        assert_eq!(remove_rotated(&directory.join("a.log"), before).unwrap(), rotated.len());
        let mut left: Vec<String> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut stay = [&["a.log", "a.log-20261129", "a.log.0", "a.log.3"], &others[..]].concat();
        stay.sort_unstable();
        assert_eq!(left, stay);
        fs::remove_dir_all(directory).unwrap();
    }
}
