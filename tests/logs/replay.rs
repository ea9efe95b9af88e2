//! `tollgate replay`: a recorded gate decided again, reports of made logs, and logs that cannot be replayed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod command;
mod recorded;
mod reports;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Files of one test, removed with it.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        Self(support::new_directory())
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `tollgate replay` in this directory, with this text on its standard input.
fn replay_with(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(support::binary());
    command.arg("replay").args(arguments).current_dir(directory).env_remove("TOLLGATE_BINARY");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input = input.to_vec();
    // It may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn replay(directory: &Path, arguments: &[&str]) -> Output {
    replay_with(directory, arguments, b"")
}

/// Standard output of a run that succeeds.
fn printed(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The report as JSON.
fn report(directory: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = replay(directory, &[&["--output", "json"], arguments].concat());
    serde_json::from_str(&printed(&output)).unwrap()
}
