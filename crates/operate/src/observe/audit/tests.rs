//! The audit log with real files, and several writers.

use std::fs;
use std::io::{BufReader, Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;

use super::*;

/// A directory that is removed when it is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("tollgate-audit-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn log(&self) -> AuditLog {
        AuditLog::open(self.file(), "gate-1".to_owned()).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.0.join("audit.log")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entry(who: &str) -> AuditEntry {
    AuditEntry { who: who.to_owned(), what: "drain", ..AuditEntry::default() }
}

fn append(log: &AuditLog, who: &str) -> LineHash {
    log.append(&entry(who), Time::default()).unwrap()
}

fn checked(paths: &[&Path]) -> Result<AuditSummary, AuditBreak> {
    let files =
        paths.iter().map(|path| (path.display().to_string(), BufReader::new(fs::File::open(path).unwrap())));
    verify(files, None)
}

#[test]
fn processes_that_write_one_file_make_one_chain() {
    let directory = TestDirectory::new();
    let logs = [directory.log(), directory.log(), directory.log()];
    std::thread::scope(|scope| {
        for (number, log) in logs.iter().enumerate() {
            scope.spawn(move || (0..20).for_each(|_| _ = append(log, &number.to_string())));
        }
    });
    assert_eq!(checked(&[&directory.file()]).unwrap().lines, 60);
}

#[test]
fn a_process_that_was_not_told_follows_another_one_into_the_new_file() {
    let directory = TestDirectory::new();
    let (told, other) = (directory.log(), directory.log());
    append(&other, "other");
    let old = directory.0.join("audit.log.1");
    fs::rename(directory.file(), &old).unwrap();
    append(&other, "other");
    fs::write(directory.file(), "").unwrap();
    append(&other, "other");
    told.reopen(Time::default()).unwrap();
    append(&other, "other");
    append(&told, "told");
    let summary = checked(&[&old, &directory.file()]).unwrap();
    assert_eq!((summary.lines, summary.head), (6, told.head()));
    assert_eq!(fs::read_to_string(directory.file()).unwrap().lines().count(), 3);
}

#[test]
fn a_file_that_others_cut_replace_or_remove_shows_it() {
    let directory = TestDirectory::new();
    let log = directory.log();
    append(&log, "a");
    append(&log, "b");
    let two = fs::read(directory.file()).unwrap();
    fs::write(directory.file(), &two[..two.len() / 2]).unwrap();
    append(&log, "c");
    assert!(checked(&[&directory.file()]).is_err(), "cut");

    let (directory, other) = (TestDirectory::new(), TestDirectory::new());
    let log = directory.log();
    append(&log, "a");
    append(&other.log(), "b");
    fs::rename(other.file(), directory.file()).unwrap();
    append(&log, "c");
    assert!(checked(&[&directory.file()]).is_err(), "replaced");

    let directory = TestDirectory::new();
    let log = directory.log();
    let first = append(&log, "a");
    fs::remove_file(directory.file()).unwrap();
    append(&log, "b");
    let summary = checked(&[&directory.file()]).unwrap();
    assert_eq!((summary.lines, summary.first), (2, first), "the new file names the line that is gone");
}

#[test]
fn a_log_without_its_beginning_goes_on_only_after_the_file_before_it() {
    let directory = TestDirectory::new();
    let log = directory.log();
    ["a", "b", "c"].iter().for_each(|who| _ = append(&log, who));
    let text = fs::read_to_string(directory.file()).unwrap();
    let (first, others) = text.split_at(text.find('\n').unwrap() + 1);
    let parts = |parts: &[&str]| {
        let named = parts.iter().map(|part| ("x".to_owned(), Cursor::new((*part).to_owned())));
        verify(named.collect::<Vec<_>>(), None)
    };
    assert!(parts(&[others]).unwrap_err().to_string().starts_with("x:1: it follows"));
    assert_eq!(parts(&[first, others]).unwrap().lines, 3, "as after a copy that left an empty file");
}

#[test]
fn a_line_without_an_end_is_kept_and_told() {
    let directory = TestDirectory::new();
    append(&directory.log(), "a");
    let mut file = fs::OpenOptions::new().append(true).open(directory.file()).unwrap();
    file.write_all(b"{\"time\":\"20\0\0\0").unwrap();
    assert!(checked(&[&directory.file()]).unwrap_err().to_string().contains(":2: the line has no end"));
    append(&directory.log(), "b");
    append(&directory.log(), "c");
    let summary = checked(&[&directory.file()]).unwrap();
    assert_eq!((summary.lines, summary.torn), (4, 1));
    // Another's line in the place of one that was cut off is no line of the chain.
    let text = fs::read_to_string(directory.file()).unwrap().replace("20\0\0\0", "21");
    assert!(verify([("x".to_owned(), Cursor::new(text))], None).is_err());
}

#[test]
fn what_is_no_file_for_lines_is_refused() {
    let directory = TestDirectory::new();
    assert!(AuditLog::open(PathBuf::from("/dev/null"), String::new()).is_err());
    assert!(AuditLog::open(directory.0.clone(), String::new()).is_err());
    fs::write(directory.file(), "x".repeat(100_000)).unwrap();
    assert!(AuditLog::open(directory.file(), String::new()).is_err());
    let long = AuditEntry { why: "x".repeat(100_000), ..entry("a") };
    let other = TestDirectory::new();
    let log = other.log();
    assert!(log.append(&long, Time::default()).is_err());
    assert_eq!((append(&log, "b"), checked(&[&other.file()]).unwrap().lines), (log.head(), 1));
}

#[test]
fn hashes_are_those_of_sha256sum() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(LineHash::of(b"").to_string(), empty);
    assert_eq!(empty.parse(), Ok(LineHash::of(b"")));
    for other in ["", "e3", &"é".repeat(32), &empty.replace('e', "x")] {
        assert!(other.parse::<LineHash>().is_err(), "{other}");
    }
}
