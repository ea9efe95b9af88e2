//! Listening sockets that this process did not bind: from systemd, or from the old process of an upgrade.
//!
//! They are known by the names of their addresses; receiving them from the old process is left to the upgrade. The very
//! same sockets have to be used: another one at the same port, as `SO_REUSEPORT` allows, has its own backlog, and
//! connections that wait in the old backlog are reset when it is closed.

use std::io;
use std::os::fd::OwnedFd;

use listenfd::ListenFd;
use socket2::Socket;

/// Inherited sockets, each with the name of its address.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<(String, Socket)>);

impl InheritedSockets {
    /// The sockets that systemd passed to this process (`sd_listen_fds(3)`), by the names of its units. To be called
    /// once, before there are threads: the variables are removed from the environment.
    ///
    /// # Errors
    /// If something else than a stream socket was passed.
    pub fn from_systemd() -> io::Result<Self> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for at in 0..passed.len() {
            // The name that systemd uses for a socket without one.
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

    /// The sockets of the old process, named by [`ListenFds::iter`](super::worker_sockets::ListenFds::iter).
    #[must_use]
    pub fn from_old_process(sockets: Vec<(String, OwnedFd)>) -> Self {
        Self(sockets.into_iter().map(|(name, socket)| (name, socket.into())).collect())
    }

    /// Takes the sockets of an address, by its name.
    pub(super) fn take(&mut self, wanted: &str) -> Vec<Socket> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(|(name, _)| name == wanted);
        self.0 = left;
        taken.into_iter().map(|(_, socket): (_, Socket)| socket).collect()
    }

    /// The names of the sockets that systemd passed.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().filter_map(|(name, _)| name.strip_prefix("systemd:")).collect();
        names.dedup();
        names
    }
}
