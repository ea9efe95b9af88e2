//! What systemd is told: a socket of this test's stands for its own, and hears every word.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::generations::{Generations, is_alive};
use support::{Upstream, eventually, new_directory};

/// Receives messages until it is dropped, as systemd does; the sender waits for it.
struct Manager {
    path: PathBuf,
    words: Receiver<String>,
    beats: Arc<AtomicUsize>,
}

impl Manager {
    fn new() -> Self {
        let path = new_directory().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let (tell, words) = channel();
        let beats = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&beats);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                match String::from_utf8_lossy(&buffer[..length]).trim_end() {
                    "WATCHDOG=1" => _ = counted.fetch_add(1, Ordering::Relaxed),
                    words => _ = tell.send(words.to_owned()),
                }
            }
        });
        Self { path, words, beats }
    }

    /// The next thing that it is told but that the gate is alive.
    fn told(&self) -> String {
        self.words.recv_timeout(Duration::from_secs(15)).expect("something is told")
    }

    /// Whether it hears so often that the gate is alive, however slow the machine is.
    fn hears_beats(&self, count: usize) -> bool {
        let before = self.beats.load(Ordering::Relaxed);
        eventually(Duration::from_secs(15), || self.beats.load(Ordering::Relaxed) >= before + count)
    }

    /// How often it hears within this time that the gate is alive.
    fn beats(&self, time: Duration) -> usize {
        let before = self.beats.load(Ordering::Relaxed);
        std::thread::sleep(time);
        self.beats.load(Ordering::Relaxed) - before
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path.parent().unwrap());
    }
}

#[test]
fn systemd_is_told_of_the_start_of_reloads_of_another_process_and_of_the_end() {
    let (upstream, manager) = (Upstream::start(), Manager::new());
    let file = upstream.file("");
    let gate = Generations::start_as(&file, &[("NOTIFY_SOCKET", manager.path.to_str().unwrap())]);
    assert_eq!(manager.told(), "READY=1");
    gate.signal("HUP");
    let reloading = manager.told();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(manager.told(), "READY=1");
    gate.write("nonsense = 1\n");
    gate.signal("HUP");
    assert!(manager.told().starts_with("RELOADING=1"));
    assert_eq!(manager.told(), "READY=1", "the old file is in force");
    gate.write(&file);
    let old = gate.process();
    assert!(gate.hand_over());
    let mut words = [manager.told(), manager.told()];
    words.sort();
    assert_eq!(
        words,
        [format!("MAINPID={}", gate.process()), "READY=1".to_owned()],
        "and the old one does not say that it stops"
    );
    assert!(eventually(Duration::from_secs(5), || !is_alive(old)));
    gate.signal("TERM");
    assert_eq!(manager.told(), "STOPPING=1");
}

/// H17: a worker that is blocked: the others serve, and the service manager is notified.
#[test]
fn a_worker_that_stands_still_silences_the_watchdog_and_turns_readiness_red() {
    let (upstream, manager) = (Upstream::start(), Manager::new());
    let variables = [("NOTIFY_SOCKET", manager.path.to_str().unwrap()), ("WATCHDOG_USEC", "2000000")];
    let gate = Generations::start_as(&upstream.file("[proxy]\nthreads = 2\n"), &variables);
    assert!(manager.hears_beats(2));
    let thread = thread_of(gate.process(), "worker-1");
    // A debugger stops one thread of a process; nothing else does.
    let program = gate.directory.join("hold_thread");
    support::compile(&["-O1"], "tests/tools/hold_thread.c", &program);
    let mut hold = Command::new(&program);
    let mut held = hold.arg(thread.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(held.stdout.as_mut().unwrap(), &mut said).unwrap();
    if &said != b"holds" {
        // Not everywhere a process may be held by another.
        let _ = held.wait();
        return;
    }
    let red =
        || gate.readiness().is_some_and(|(status, text)| status == 503 && text == "worker-1 stands still\n");
    assert!(eventually(Duration::from_secs(10), red), "{:?}", gate.readiness());
    assert_eq!(manager.beats(Duration::from_secs(3)), 0, "systemd would start it anew");
    assert_eq!(gate.said("worker-1 stands still"), 1, "{}", gate.messages());
    drop(held.stdin.take());
    let _ = held.wait();
    let green = || gate.readiness().is_some_and(|(status, _)| status == 200);
    assert!(eventually(Duration::from_secs(10), green), "{:?}", gate.readiness());
    assert!(manager.hears_beats(2));
}

fn thread_of(process: u32, name: &str) -> u32 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let mut named = threads.filter(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    named.next().unwrap().file_name().to_str().unwrap().parse().unwrap()
}
