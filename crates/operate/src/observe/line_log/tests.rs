//! The way of a line: recorded, swept, written or lost.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use http::HeaderValue;

use super::*;
use crate::event::{AccessLogEntry, ConnectionEvent};
use crate::observe::access_log::AccessLines;
use crate::observe::client_format::ClientFormatter;
use crate::observe::samples::{AT, entry};
use crate::observe::settings::{AccessLogStyle, ClientsShown};
use crate::policy::key::PrefixLengths;

type Before = Box<dyn FnMut(&[u8]) -> io::Result<usize> + Send>;

/// Sends everything that is written to the test, which may block or fail it first.
struct Probe {
    before: Before,
    written: Sender<String>,
}

impl Write for Probe {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let length = (self.before)(text)?;
        let _ = self.written.send(String::from_utf8_lossy(&text[..length]).into_owned());
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink for Probe {
    fn replace(&mut self, _: File) {}
}

fn lines(style: AccessLogStyle) -> AccessLines {
    AccessLines::new(style, ClientFormatter::new(ClientsShown::Full, PrefixLengths::default()))
}

fn probed(
    before: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
) -> (LineLog, Counter, Receiver<String>) {
    let (sender, written) = channel();
    let probe = Probe { before: Box::new(before), written: sender };
    let dropped = Counter::default();
    let (target, clock) = (LogTarget::StandardOutput, Clock::manual(AT));
    let format = lines(AccessLogStyle::Combined);
    let log = LineLog::over(probe, "access log", target, format, dropped.clone(), clock).unwrap();
    (log, dropped, written)
}

/// A disk that takes ten bytes of a line, then is full once.
fn full_after_ten_bytes() -> impl FnMut(&[u8]) -> io::Result<usize> + Send {
    let mut calls = 0;
    move |text| {
        calls += 1;
        match calls {
            1 => Ok(10),
            2 => Err(ErrorKind::StorageFull.into()),
            _ => Ok(text.len()),
        }
    }
}

fn in_file(path: &Path) -> io::Result<(LineLog, Counter)> {
    let dropped = Counter::default();
    let (target, clock) = (LogTarget::File(path.to_owned()), Clock::manual(AT));
    let log = LineLog::open("access log", target, lines(AccessLogStyle::Json), dropped.clone(), clock)?;
    Ok((log, dropped))
}

#[test]
fn lines_of_one_thread_keep_their_order() {
    let path = std::env::temp_dir().join(format!("tollgate-order-{}.log", std::process::id()));
    let (target, format) = (LogTarget::File(path.clone()), lines(AccessLogStyle::Json));
    let log = LineLog::open("access log", target, format, Counter::default(), Clock::system()).unwrap();
    (0..20_000).for_each(|number| record(&log, &format!("{number:05}")));
    log.close();
    let found = agents(&path);
    fs::remove_file(path).unwrap();
    assert!(!found.is_empty() && found.is_sorted());
}

fn record(log: &LineLog, user_agent: &str) {
    let user_agent = Some(HeaderValue::from_str(user_agent).unwrap());
    log.on_event(&Event::RequestCompleted(&AccessLogEntry { user_agent, attempt: None, ..entry() }));
}

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn agents(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    objects.map(|object| object["user_agent"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_idle_workers_line_is_written_although_nothing_follows() {
    let (log, _, written) = probed(|text| Ok(text.len()));
    std::thread::scope(|scope| drop(scope.spawn(|| record(&log, "curl"))));
    let line = written.recv_timeout(Span::from_secs(20).to_std()).unwrap();
    assert!(line.starts_with("203.0.113.9 - - [20/Nov/2026:23:21:52 +0000] \"POST /login"), "{line}");
    assert!(line.ends_with("\"curl\"\n"), "{line}");
}

#[test]
fn other_events_write_nothing() {
    let (log, _, written) = probed(|text| Ok(text.len()));
    log.on_event(&Event::Connection(ConnectionEvent::Opened));
    log.close();
    drop(log);
    assert_eq!(written.iter().count(), 0);
}

#[test]
fn a_file_is_appended_to_and_closing_writes_what_is_left() {
    let folder = Folder::new("append");
    let path = folder.0.join("access.log");
    for agent in ["first", "second"] {
        let (log, dropped) = in_file(&path).unwrap();
        record(&log, agent);
        log.close();
        assert_eq!(dropped.get(), 0);
    }
    assert_eq!(agents(&path), ["first", "second"]);
    assert_eq!(in_file(&folder.0).err().map(|error| error.kind()), Some(ErrorKind::IsADirectory));
}

#[test]
fn a_renamed_file_is_left_for_a_new_one() {
    let folder = Folder::new("reopen");
    let (path, rotated) = (folder.0.join("access.log"), folder.0.join("access.log.1"));
    let (log, _) = in_file(&path).unwrap();
    fs::rename(&path, &rotated).unwrap();
    log.reopen().unwrap();
    record(&log, "after");
    log.close();
    assert_eq!(agents(&path), ["after"]);
    assert_eq!(agents(&rotated), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_opened_again_is_written_on() {
    let folder = Folder::new("stay");
    let (path, rotated) = (folder.0.join("access.log"), folder.0.join("access.log.1"));
    let (log, dropped) = in_file(&path).unwrap();
    fs::rename(&path, &rotated).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(log.reopen().is_err());
    record(&log, "kept");
    log.close();
    assert_eq!((agents(&rotated), dropped.get()), (vec!["kept".to_owned()], 0));
}

#[test]
fn a_full_disk_costs_lines_and_nothing_else() {
    let (log, dropped) = in_file(Path::new("/dev/full")).unwrap();
    record(&log, "one");
    record(&log, "two");
    log.close();
    assert_eq!(dropped.get(), 2);
}

#[test]
fn a_half_written_line_is_ended_before_the_next_one() {
    let (log, dropped, written) = probed(full_after_ten_bytes());
    record(&log, "torn");
    let half = written.recv_timeout(Span::from_secs(20).to_std()).unwrap();
    record(&log, "whole");
    log.close();
    drop(log);
    let rest: String = written.iter().collect();
    assert!(rest.starts_with("\n203.0.113.9 ") && rest.ends_with("\"whole\"\n"), "{half}{rest}");
    assert_eq!((rest.matches('\n').count(), dropped.get()), (2, 1));
}

#[test]
fn a_half_written_line_is_ended_in_a_rewritten_file_but_not_in_a_new_one() {
    let folder = Folder::new("torn");
    for (text, is_ended) in [("half", true), ("", false)] {
        let path = folder.0.join("access.log");
        fs::write(&path, text).unwrap();
        let (log, _, written) = probed(full_after_ten_bytes());
        record(&log, "torn");
        written.recv_timeout(Span::from_secs(20).to_std()).unwrap();
        log.hold().go_on_in(File::open(&path).unwrap());
        record(&log, "whole");
        log.close();
        drop(log);
        let rest: String = written.iter().collect();
        assert_eq!((rest.starts_with('\n'), rest.matches("whole").count()), (is_ended, 1), "{rest}");
    }
}

#[test]
fn a_stuck_writer_blocks_no_request_and_lost_lines_are_counted() {
    let (release, blocked) = channel::<()>();
    let (log, dropped, written) = probed(move |text| {
        let _ = blocked.recv();
        Ok(text.len())
    });
    let agent = "x".repeat(1000);
    let recorded = 4_000;
    (0..recorded).for_each(|_| record(&log, &agent));
    assert!(dropped.get() > 0, "more lines than the queue holds");
    drop(release);
    log.close();
    drop(log);
    let lines = written.iter().map(|text| text.matches('\n').count() as u64).sum::<u64>();
    assert_eq!(lines + dropped.get(), recorded);
}
