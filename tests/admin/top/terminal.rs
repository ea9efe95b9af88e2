//! A pseudo-terminal with `tollgate top` in it, and the screen that a person would see.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pty_process::Size;
use pty_process::blocking::{Command, Pts, Pty, open};
use rustix::termios::{LocalModes, tcgetattr};

use support::{binary, eventually};

pub(crate) struct Terminal {
    pty: Arc<Pty>,
    /// Keeps the terminal open when the process has ended.
    _pts: Option<Pts>,
    reader: Option<JoinHandle<()>>,
    is_closed: Arc<AtomicBool>,
    process: Child,
    pub(crate) screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Starts `tollgate top` with these words, on a terminal of 24 lines and 80 columns.
    pub(crate) fn start(socket: &Path, words: &[&str], environment: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(24, 80)).unwrap();
        let command = Command::new(binary()).arg("top").arg("--socket").arg(socket).args(words);
        let command = command.env_remove("NO_COLOR").env("TERM", "xterm-256color");
        let mut command = environment.iter().fold(command, |command, (name, value)| command.env(name, value));
        let process = command.spawn_borrowed(&pts).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let is_closed = Arc::new(AtomicBool::new(false));
        let mut terminal =
            Self { pty: Arc::new(pty), _pts: Some(pts), reader: None, is_closed, process, screen };
        terminal.reader = Some(terminal.read());
        terminal
    }

    fn read(&self) -> JoinHandle<()> {
        let (pty, screen) = (Arc::clone(&self.pty), Arc::clone(&self.screen));
        let is_closed = Arc::clone(&self.is_closed);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = (&*pty).read(&mut bytes) {
                screen.lock().unwrap().process(&bytes[..count]);
                if is_closed.load(Ordering::Relaxed) {
                    return;
                }
            }
        })
    }

    /// Closes the terminal under the program, as a window that goes away does. Returns whether the program ends by itself.
    pub(crate) fn close(mut self) -> bool {
        self.is_closed.store(true, Ordering::Relaxed);
        // What it draws of the key ends the thread that reads.
        self.press("?");
        self.reader.take().unwrap().join().unwrap();
        let (nothing, _) = open().unwrap();
        drop(std::mem::replace(&mut self.pty, Arc::new(nothing)));
        drop(self._pts.take());
        eventually(Duration::from_secs(10), || self.process.try_wait().unwrap().is_some())
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(rows, columns);
        self.pty.resize(Size::new(rows, columns)).unwrap();
    }

    /// The screen's lines.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until this stands on the screen.
    pub(crate) fn wait_for(&self, words: &str) {
        self.wait_until(words, |text| text.contains(words));
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        assert!(eventually(Duration::from_secs(10), || is_so(&self.text())), "{what} in\n{}", self.text());
    }

    pub(crate) fn signal(&self, name: &str) {
        assert!(support::signal(self.process.id(), name), "it runs");
    }

    /// Waits until the process has ended, and looks whether the terminal is as it was.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        assert!(eventually(Duration::from_secs(10), || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        }));
        let modes = tcgetattr(&*self.pty).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{modes:?}");
        let is_given_back = || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        };
        assert!(eventually(Duration::from_secs(5), is_given_back), "the screen and the cursor are back");
        status.unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
