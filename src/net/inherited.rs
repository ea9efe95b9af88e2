//! Listening sockets that this process did not bind: from systemd, or from the old process of an upgrade.
//!
//! It knows them by the place at which they are wanted and asks nobody for them. The surprising thing: the very same sockets
//! have to go on. Another one at the same port, as `SO_REUSEPORT` allows, has a queue of its own, and what waits in that of the
//! old one is reset when it is closed.

use std::io;
use std::os::fd::OwnedFd;

use listenfd::ListenFd;
use socket2::Socket;

/// Sockets that are here already, each with the place at which it is wanted.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<(String, Socket)>);

impl InheritedSockets {
    /// What systemd passed to this process (`sd_listen_fds(3)`), by the names of its units. To be asked once, before there are
    /// threads: the variables are taken out of the environment.
    ///
    /// # Errors
    /// If something was passed that nobody can listen at.
    pub fn from_systemd() -> io::Result<Self> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for at in 0..passed.len() {
            // What systemd calls a socket without a name.
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or("unknown");
            let tcp = passed.take_tcp_listener(at).ok().flatten().map(OwnedFd::from);
            let unix = || passed.take_unix_listener(at).ok().flatten().map(OwnedFd::from);
            let Some(socket) = tcp.or_else(unix).map(Socket::from) else {
                return Err(io::Error::other(format!("`{name}` is neither a TCP nor a Unix stream socket")));
            };
            sockets.push((format!("systemd:{name}"), socket));
        }
        Ok(Self(sockets))
    }

    /// These, as [`ListenFds::iter`](super::worker_sockets::ListenFds::iter) named them.
    #[must_use]
    pub fn from_old_process(sockets: Vec<(String, OwnedFd)>) -> Self {
        Self(sockets.into_iter().map(|(place, socket)| (place, socket.into())).collect())
    }

    /// What is here for an address, by the name of its socket.
    pub(super) fn take(&mut self, wanted: &str) -> Vec<Socket> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(|(name, _)| name == wanted);
        self.0 = left;
        taken.into_iter().map(|(_, socket): (_, Socket)| socket).collect()
    }

    /// The names under which systemd passed something.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.0.iter().filter_map(|(place, _)| place.strip_prefix("systemd:")).collect();
        names.dedup();
        names
    }
}
