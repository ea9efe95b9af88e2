//! What the servers of tables share: programs that refuse to be run as root, and data that are made once and copied.
//!
//! Shared data are made in a directory of their own, which is then renamed, so parallel tests need no lock.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::Server;
use crate::eventually;

/// A server that can be talked to in SQL.
pub trait Tables: Server {
    fn port(&self) -> u16;

    /// Runs statements as a user with all rights, and returns what they answered.
    fn sql(&self, statements: &str) -> String;

    /// Adds so many rows that have outlived their time by so many seconds.
    fn fill(&self, rows: u32, late: u32);

    /// Locks every row for so long.
    fn hold_all(&self, time: Duration) -> Child;

    /// From the next connection on writes are rejected.
    fn read_only(&self);

    /// The gate's user may do nothing with the table any more.
    fn take_rights(&self);
}

/// Locks any row without waiting: an error while all are locked.
pub const TAKE_A_ROW: &str = "SELECT 1 FROM tollgate_buckets LIMIT 1 FOR UPDATE NOWAIT";

/// Waits until taking a row fails, because somebody holds all of them.
pub fn until_held(mut take_a_row: impl FnMut() -> io::Result<Output>) {
    let is_held = eventually(Duration::from_secs(10), || !take_a_row().unwrap().status.success());
    assert!(is_held, "nobody holds the rows");
}

/// The statements that make the table of this namespace, as this build says them.
pub fn schema(url: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _within = runtime.enter();
    let address: tollgate_store::StoreAddress = url.parse().unwrap();
    address.open(&tollgate_store::Namespace::default()).unwrap().unwrap().schema()
}

/// A directory of this build, filled by the first test that needs it.
pub fn made_once(
    name: &str,
    users: &[&str],
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let all = crate::program::kept();
    let (finished, making) = (all.join(name), all.join(format!("{name}-{}", std::process::id())));
    if !finished.exists() {
        fs::create_dir_all(&making).unwrap();
        owned(&making, users);
        fill(&making)?;
        // Another test may have been faster.
        if fs::rename(&making, &finished).is_err() {
            remove(&making);
        }
    }
    Ok(finished)
}

/// A certificate for `localhost` in a server's directory, and a copy beside it for clients that have to trust it.
pub fn certificate(directory: &Path, users: &[&str]) -> Result<(), String> {
    let (shown, key) = (directory.join("server.crt"), directory.join("server.key"));
    let mut openssl = crate::installed("openssl", "openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(&shown)
        .arg("-keyout")
        .arg(&key);
    run(&mut openssl)?;
    fs::copy(&shown, directory.with_file_name("root.crt")).unwrap();
    owned(&shown, users);
    owned(&key, users);
    Ok(())
}

/// A command that is not run as root, because the server refuses to be.
pub fn unprivileged(program: &Path, users: &[&str]) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = other_user(users) {
        command.uid(user).gid(group).current_dir("/");
    }
    command
}

/// The first of these users that there is, if this is root.
fn other_user(users: &[&str]) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let entry = |name: &&str| known.lines().find(|line| line.split(':').next() == Some(name));
    let fields: Vec<&str> = users.iter().find_map(entry)?.split(':').collect();
    Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
}

/// Gives a directory to whom the server runs as.
pub fn owned(directory: &Path, users: &[&str]) {
    if let Some((user, group)) = other_user(users) {
        std::os::unix::fs::chown(directory, Some(user), Some(group)).unwrap();
    }
}

pub fn copy(from: &Path, to: &Path, users: &[&str]) {
    owned(to.parent().unwrap(), users);
    run(Command::new("cp").arg("-a").arg(from).arg(to)).unwrap();
}

/// Whether nothing is left of it.
pub fn remove(directory: &Path) -> bool {
    let _ = fs::remove_dir_all(directory);
    !directory.exists()
}

pub fn run(command: &mut Command) -> Result<(), String> {
    run_with(command, "")
}

pub fn run_with(command: &mut Command, input: &str) -> Result<(), String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{:?}: {said}", command.get_program())) }
}
