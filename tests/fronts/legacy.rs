//! Servers of old applications behind the gate, each the real program: what they do not say, and what they cannot bear.
//!
//! A file of `legacy/` has what is peculiar to one of them; here is how they are started and ended.

mod gunicorn;
mod php_fpm;
mod tomcat;
mod uwsgi;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{eventually, free_port, new_directory, signal_group};

/// A directory for the files of an application; removed when dropped.
pub(super) struct Place(PathBuf);

impl Place {
    /// With these files. Everybody may look: servers give up the rights of root.
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let place = Self(new_directory());
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in files {
            fs::write(place.0.join(name), text).unwrap();
        }
        place
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server with its workers, which are one group of processes; gone when dropped.
pub(super) struct Workers {
    leader: Child,
}

impl Workers {
    /// Starts it in this place, which gets what it says as `said.log`, and waits until `is_ready`.
    fn start(mut command: Command, place: &Place, is_ready: impl Fn() -> bool) -> Self {
        let log = fs::File::options().create(true).append(true).open(place.0.join("said.log")).unwrap();
        command.current_dir(&place.0).env("HOME", &place.0).stdin(Stdio::null()).process_group(0);
        let leader = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let workers = Self { leader };
        assert!(eventually(PATIENCE, is_ready), "{command:?}: {}", place.text("said.log"));
        workers
    }

    /// The same for a server that listens there.
    pub(super) fn listening(command: Command, place: &Place, address: SocketAddr) -> Self {
        Self::start(command, place, || TcpStream::connect(address).is_ok())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The leader is not reaped yet, so its number still names this group.
        signal_group(self.leader.id(), "KILL");
        let _ = self.leader.wait();
    }
}

/// An address on which nothing listens.
pub(super) fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Longer than any of them takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
