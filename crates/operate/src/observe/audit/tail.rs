//! What an audit log has after a line that is known, also where logrotate has made several files of it.
//!
//! So the file is the queue of what is still to be sent elsewhere: nothing waits in memory, and nothing is lost with the
//! process.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::chain::{LineHash, LineLink, ROTATED};
use super::file::MAX_LINE;
use crate::observe::line_log::rotated::{is_compressed, rotated_files};

/// The next lines of a log, the oldest first.
#[derive(Debug, Default)]
pub struct AuditTail {
    /// Each with its hash, without its line feed. A line that has no end is not there yet.
    pub lines: Vec<(LineHash, Vec<u8>)>,
    /// Whether more follow.
    pub has_more: bool,
}

/// The lines after the newest one with one of these hashes, few at once; `None` if no file has such a line. The file
/// before the one that goes on after it may be gone.
///
/// # Errors
/// If a file cannot be read. Compressed ones are left out.
pub fn lines_after(path: &Path, known: &HashSet<LineHash>) -> io::Result<Option<AuditTail>> {
    let mut files: Vec<PathBuf> = rotated_files(path)?.into_iter().map(|(_, file)| file).collect();
    files.retain(|file| !is_compressed(file));
    // Between a rotation and the signal for it there may be no file of this name.
    files.extend(path.exists().then(|| path.to_owned()));
    for at in (0..files.len()).rev() {
        if let Some(tail) = lines_after_in(&files[at..], known)? {
            return Ok(Some(tail));
        }
    }
    Ok(None)
}

/// The last lines of the present file, as many as [`lines_after`] returns.
///
/// # Errors
/// If it cannot be read.
pub fn newest_lines(path: &Path) -> io::Result<AuditTail> {
    let (mut lines, mut bytes) = (VecDeque::new(), 0);
    if !path.exists() {
        return Ok(AuditTail::default());
    }
    each_line(path, 0, |hash, line| {
        bytes += line.len();
        lines.push_back((hash, line.to_vec()));
        while lines.len() > MAX_LINES || bytes > MAX_BYTES {
            bytes -= lines.pop_front().map_or(0, |(_, line)| line.len());
        }
    })?;
    Ok(AuditTail { lines: lines.into(), has_more: false })
}

/// Those of these hashes whose lines are in one of these files.
///
/// # Errors
/// If a file cannot be read.
pub fn hashes_found(files: &[PathBuf], wanted: &HashSet<LineHash>) -> io::Result<HashSet<LineHash>> {
    let mut found = HashSet::new();
    for file in files {
        each_line(file, 0, |hash, _| {
            if wanted.contains(&hash) {
                found.insert(hash);
            }
        })?;
    }
    Ok(found)
}

/// Looks for the line in the first of these files, at first near its end.
fn lines_after_in(files: &[PathBuf], known: &HashSet<LineHash>) -> io::Result<Option<AuditTail>> {
    let Some((first, later)) = files.split_first() else { return Ok(None) };
    let near_end = std::fs::metadata(first)?.len().saturating_sub(NEAR_END);
    for start in [near_end, 0] {
        let (mut found, mut bytes) = (None::<AuditTail>, 0);
        let mut is_first = start == 0;
        each_line(first, start, |hash, line| {
            if std::mem::take(&mut is_first) && goes_on_after(line, known) {
                found = Some(AuditTail::default());
            }
            if known.contains(&hash) {
                (found, bytes) = (Some(AuditTail::default()), 0);
            } else if let Some(tail) = &mut found {
                tail.add(hash, line, &mut bytes);
            }
        })?;
        if let Some(mut tail) = found {
            for file in later {
                each_line(file, 0, |hash, line| tail.add(hash, line, &mut bytes))?;
            }
            return Ok(Some(tail));
        }
        if start == 0 {
            break;
        }
    }
    Ok(None)
}

/// Whether this first line of a file goes on after one of these, which is in an older file.
fn goes_on_after(line: &[u8], known: &HashSet<LineHash>) -> bool {
    let link = serde_json::from_slice::<LineLink>(line);
    link.is_ok_and(|link| link.what == ROTATED && known.contains(&link.previous))
}

impl AuditTail {
    fn add(&mut self, hash: LineHash, line: &[u8], bytes: &mut usize) {
        *bytes += line.len();
        self.has_more |= self.lines.len() >= MAX_LINES || *bytes > MAX_BYTES;
        if !self.has_more {
            self.lines.push((hash, line.to_vec()));
        }
    }
}

/// Calls `each` with the lines that have an end and begin after `start`, or at it if it is the beginning of the file.
fn each_line(file: &Path, start: u64, mut each: impl FnMut(LineHash, &[u8])) -> io::Result<()> {
    const LONGEST: u64 = MAX_LINE as u64 + 1;
    let mut file = BufReader::new(File::open(file)?);
    file.seek(SeekFrom::Start(start))?;
    let (mut text, mut is_within) = (Vec::new(), start > 0);
    loop {
        text.clear();
        let read = file.by_ref().take(LONGEST).read_until(b'\n', &mut text)? as u64;
        match text.strip_suffix(b"\n") {
            Some(line) if !is_within => each(LineHash::of(line), line),
            Some(_) => is_within = false,
            // Longer than any line of an audit log.
            None if read == LONGEST => is_within = true,
            None => return Ok(()),
        }
    }
}

/// Lines and bytes that are returned at once. A line fits.
const MAX_LINES: usize = 100;
const MAX_BYTES: usize = 256 * 1024;
/// A line that was written lately is here.
const NEAR_END: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A new directory with an audit log of these texts.
    fn log(name: &str, text: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tollgate-tail-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("audit.log");
        fs::write(&path, text).unwrap();
        path
    }

    fn texts(tail: &AuditTail) -> Vec<&str> {
        tail.lines.iter().map(|(_, line)| std::str::from_utf8(line).unwrap()).collect()
    }

    fn done(path: &Path) {
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_lines_after_one_that_is_known_go_on_in_later_files() {
        let path = log("later", "d\ne\nunfinished");
        fs::write(path.with_file_name("audit.log.1"), "a\nb\nc\n").unwrap();
        fs::write(path.with_file_name("audit.log.2.gz"), "x\n").unwrap();
        let old = std::time::UNIX_EPOCH;
        File::options()
            .append(true)
            .open(path.with_file_name("audit.log.1"))
            .and_then(|file| file.set_modified(old))
            .unwrap();
        let after = |known: &[&str]| {
            let known = known.iter().map(|line| LineHash::of(line.as_bytes())).collect();
            lines_after(&path, &known).unwrap()
        };
        for (known, expected) in [
            (&["a"][..], vec!["b", "c", "d", "e"]),
            (&["c"][..], vec!["d", "e"]),
            (&["a", "d", "x"][..], vec!["e"]),
            (&["e"][..], vec![]),
        ] {
            assert_eq!(texts(&after(known).unwrap()), expected, "{known:?}");
        }
        assert!(after(&["x"]).is_none(), "a compressed file is not read");
        assert_eq!(texts(&newest_lines(&path).unwrap()), ["d", "e"]);
        let hashes = |lines: &[&str]| -> HashSet<LineHash> {
            lines.iter().map(|line| LineHash::of(line.as_bytes())).collect()
        };
        let files = [path.with_file_name("audit.log.1"), path.clone()];
        assert_eq!(hashes_found(&files, &hashes(&["a", "d", "z"])).unwrap(), hashes(&["a", "d"]));
        done(&path);
    }

    /// logrotate may have compressed or removed the older file.
    #[test]
    fn a_file_that_goes_on_after_a_known_line_is_read_from_its_beginning() {
        let previous = LineHash::of(b"a");
        let first = format!(r#"{{"time":"t","what":"{ROTATED}","previous":"{previous}"}}"#);
        let path = log("rotated", &format!("{first}\nb\n"));
        let after = |line: &str| lines_after(&path, &HashSet::from([LineHash::of(line.as_bytes())])).unwrap();
        assert_eq!(texts(&after("a").unwrap()), [&*first, "b"]);
        assert_eq!(texts(&after(&first).unwrap()), ["b"]);
        assert!(after("c").is_none());
        fs::remove_file(&path).unwrap();
        assert!(after("a").is_none());
        assert!(newest_lines(&path).unwrap().lines.is_empty());
        done(&path);
    }

    #[test]
    fn a_long_file_comes_in_parts_that_are_bounded() {
        let lines: Vec<String> = (0..1000).map(|number| format!("{number:01000}")).collect();
        let path = log("long", &(lines.join("\n") + "\n"));
        let after = |line: &String| {
            lines_after(&path, &HashSet::from([LineHash::of(line.as_bytes())])).unwrap().unwrap()
        };
        let tail = after(&lines[3]);
        assert_eq!((tail.lines.len(), tail.has_more), (MAX_LINES, true));
        assert_eq!(tail.lines[0].1, lines[4].as_bytes());
        let tail = after(&lines[998]);
        assert_eq!((texts(&tail), tail.has_more), (vec![&*lines[999]], false));
        let tail = newest_lines(&path).unwrap();
        assert_eq!((texts(&tail)[0], tail.lines.len()), (&*lines[900], MAX_LINES));
        done(&path);
    }

    /// Somebody may write anything into the file; what follows is read all the same.
    #[test]
    fn a_line_that_is_too_long_is_none() {
        let path = log("wide", &format!("a\n{}\nb\n", "x".repeat(3 * MAX_LINE)));
        let tail = lines_after(&path, &HashSet::from([LineHash::of(b"a")])).unwrap().unwrap();
        assert_eq!(texts(&tail), ["b"]);
        done(&path);
    }
}
