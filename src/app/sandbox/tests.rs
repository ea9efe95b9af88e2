//! Threads confined as those of a gate try what they may not do.

use std::backtrace::Backtrace;
use std::fs::{self, File};
use std::io::ErrorKind::PermissionDenied;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::*;
use crate::config::{Sources, load};

/// A directory of the test's own; removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-sandbox-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The configuration of a gate with its upstream at this port, and its log and snapshot in this directory.
fn config(directory: &Path, port: u16) -> Config {
    let text = format!(
        "listen = \"http://127.0.0.1:0\"\nupstream = \"http://127.0.0.1:{port}\"\n\
         [route.login]\nmatch = \"POST /login\"\n\
         [limit.address]\nrate = \"10/min\"\n[log]\naccess = \"{0}/access.log\"\n[store]\nsnapshot = \"{0}/buckets\"\n",
        directory.display()
    );
    load(&Sources::from_text("gate.toml", &text)).config.unwrap()
}

/// Runs `act` on a background thread, which may start confined threads itself.
fn in_the_background<T: Send>(config: &Config, act: impl FnOnce(&Sandbox) -> T + Send) -> T {
    thread::scope(|scope| {
        let run = || {
            let sandbox = Sandbox::enter(config, None).unwrap();
            assert_eq!(sandbox.summary().contains("seccomp"), has_seccomp(), "{}", sandbox.summary());
            act(&sandbox)
        };
        scope.spawn(run).join().unwrap()
    })
}

/// Runs `act` on a worker.
fn in_a_worker<T: Send>(config: &Config, act: impl FnOnce() -> T + Send) -> T {
    in_the_background(config, |sandbox| {
        let worker = sandbox.worker().unwrap();
        let run = || {
            worker.confine();
            act()
        };
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    })
}

/// Whether the kernel has seccomp; otherwise nothing is refused.
fn has_seccomp() -> bool {
    Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

fn has_landlock() -> bool {
    thread::spawn(|| landlock_rules::confine(&AllowedPaths::default()))
        .join()
        .unwrap()
        .is_ok_and(|status| status.ruleset != landlock::RulesetStatus::NotEnforced)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(done: io::Result<T>) {
    assert_eq!(done.unwrap_err().kind(), PermissionDenied);
}

/// L15: a compromised worker opens no file, and writes none.
#[test]
fn a_worker_opens_no_file() {
    if !(has_seccomp() && has_landlock()) {
        return;
    }
    let directory = Directory::new("worker-files");
    let (log, config) = (directory.0.join("access.log"), config(&directory.0, 1));
    fs::write(&log, "").unwrap();
    let opened = File::options().append(true).open(&log).unwrap();
    in_a_worker(&config, || {
        assert_refused(File::open("/etc/passwd"));
        assert_refused(File::open(&log));
        assert_refused(File::options().append(true).open(&log));
        assert_refused(File::create(directory.0.join("new")));
        assert_refused(fs::remove_file(&log));
        assert_refused(fs::rename(&log, directory.0.join("other")));
        assert_refused(fs::create_dir(directory.0.join("folder")));
        assert_refused(std::os::unix::fs::symlink(&log, directory.0.join("link")));
        (&opened).write_all(b"an open file stays open\n").unwrap();
    });
    assert_eq!(fs::read_to_string(&log).unwrap(), "an open file stays open\n");
}

/// L15: a worker connects to the application and nowhere else.
#[test]
fn a_worker_connects_to_named_ports_only() {
    if !(has_seccomp() && has_landlock()) {
        return;
    }
    let directory = Directory::new("worker-ports");
    let [named, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let (named, other) = (named.local_addr().unwrap(), other.local_addr().unwrap());
    in_a_worker(&config(&directory.0, named.port()), || {
        TcpStream::connect(named).unwrap();
        assert_refused(TcpStream::connect(other));
        assert_refused(TcpListener::bind("127.0.0.1:0"));
        assert_refused(UdpSocket::bind("127.0.0.1:0"));
        UnixStream::pair().unwrap();
    });
}

/// L15: a gate's worker or background thread starts no program, and no thread that could.
#[test]
fn neither_a_worker_nor_the_background_starts_a_program() {
    if !has_seccomp() {
        return;
    }
    let directory = Directory::new("programs");
    let config = config(&directory.0, 1);
    assert_refused(in_a_worker(&config, || Command::new("/bin/true").status()));
    assert_refused(in_a_worker(&config, || thread::Builder::new().spawn(|| ()).map(drop)));
    assert_refused(in_the_background(&config, |_| Command::new("/bin/true").status()));
}

/// L15: the background writes its own files, and reads what every process reads.
#[test]
fn the_background_writes_its_log_and_its_snapshot_and_nothing_else() {
    if !has_landlock() {
        return;
    }
    let (directory, elsewhere) = (Directory::new("background"), Directory::new("elsewhere"));
    fs::write(elsewhere.0.join("file"), "").unwrap();
    in_the_background(&config(&directory.0, 1), |_| {
        let (log, beside) = (directory.0.join("access.log"), directory.0.join("beside"));
        File::options().append(true).create(true).open(&log).unwrap();
        fs::write(&beside, "buckets").unwrap();
        fs::rename(&beside, directory.0.join("buckets")).unwrap();
        File::open(&directory.0).unwrap().sync_all().unwrap();
        fs::read_to_string("/proc/self/statm").unwrap();
        fs::read_to_string("/etc/passwd").unwrap();
        assert_refused(fs::read_to_string(elsewhere.0.join("file")));
        assert_refused(File::create(elsewhere.0.join("new")));
        assert_refused(fs::remove_file(elsewhere.0.join("file")));
        assert_refused(TcpListener::bind("127.0.0.1:0"));
    });
}

/// L15: a panic in a confined thread is reported with its backtrace.
#[test]
fn a_worker_that_panics_tells_where() {
    let directory = Directory::new("panics");
    let trace = in_a_worker(&config(&directory.0, 1), || Backtrace::force_capture().to_string());
    assert!(trace.contains("a_worker_that_panics_tells_where"), "{trace}");
    let told = in_a_worker(&config(&directory.0, 1), || {
        let panicked = std::panic::catch_unwind(|| panic!("told")).unwrap_err();
        panicked.downcast_ref::<&str>().map(ToString::to_string)
    });
    assert_eq!(told.unwrap(), "told");
}

#[test]
fn the_broker_reads_any_file_and_starts_programs_for_a_thread_that_may_do_neither() {
    let (directory, elsewhere) = (Directory::new("asks"), Directory::new("broker"));
    let file = elsewhere.0.join("file");
    fs::write(&file, "read").unwrap();
    in_the_background(&config(&directory.0, 1), |sandbox| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(sandbox.broker().run(move || fs::read_to_string(file)));
        assert_eq!(read.unwrap().unwrap(), "read");
        let run = runtime.block_on(sandbox.broker().run(|| Command::new("/bin/true").status()));
        assert!(run.unwrap().unwrap().success());
        let broken: io::Result<()> = runtime.block_on(sandbox.broker().run(|| panic!("on purpose")));
        broken.unwrap_err();
        assert!(runtime.block_on(sandbox.broker().run(|| true)).unwrap(), "it goes on");
    });
}

#[test]
fn where_it_is_off_nothing_is_given_up() {
    let directory = Directory::new("off");
    let mut config = config(&directory.0, 1);
    config.process.sandbox = false;
    thread::spawn(move || {
        let sandbox = Sandbox::enter(&config, None).unwrap();
        assert_eq!((sandbox.summary(), sandbox.worker().is_none()), ("off", true));
        assert!(!rustix::thread::no_new_privs().unwrap());
        Command::new("/bin/true").status().unwrap();
    })
    .join()
    .unwrap();
}
