//! The new side of an upgrade: sockets from systemd, or sockets and buckets of the old process.
//!
//! The new process reports ready while it is still being built: after the last step that can fail and before it gets
//! the buckets. So the old process stops as late as possible.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::protocol::{Message, UPGRADE_ENV, UpgradeChannel};
use crate::net::inherited::InheritedSockets;
use crate::store::snapshot::Snapshot;

/// What a gate takes over at its start.
#[derive(Debug, Default)]
pub struct Inherited {
    /// Sockets that are bound already.
    pub(in crate::app) sockets: InheritedSockets,
    pub(in crate::app) old_process: Option<OldProcess>,
}

/// The process that still serves.
#[derive(Debug)]
pub(in crate::app) struct OldProcess(UpgradeChannel);

impl Inherited {
    /// What the environment passes on. To be called once, at the beginning, before there are threads.
    ///
    /// # Errors
    /// If a passed descriptor is not a listening socket, or the old process is gone.
    pub fn from_env() -> io::Result<Self> {
        if std::env::var_os(UPGRADE_ENV).is_none() {
            return Ok(Self { sockets: InheritedSockets::from_systemd()?, old_process: None });
        }
        let stream = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
        let mut channel = UpgradeChannel::new(stream, OLD_PROCESS_TIMEOUT)?;
        let sockets = InheritedSockets::from_old_process(channel.receive_sockets()?);
        Ok(Self { sockets, old_process: Some(OldProcess(channel)) })
    }
}

impl OldProcess {
    /// Reports ready, and waits for the buckets; `None` if they are in a store.
    pub(in crate::app) fn receive_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.0.send_message(Message::Ready)?;
        let snapshot = self.0.receive_bytes(MAX_SNAPSHOT)?;
        snapshot.map(|bytes| Snapshot::decode(&bytes).map_err(io::Error::other)).transpose()
    }

    /// Reports that this process serves from now on.
    pub(in crate::app) fn confirm_serving(&mut self) -> io::Result<()> {
        self.0.send_message(Message::Serving)
    }
}

/// Longer than the old process waits.
const OLD_PROCESS_TIMEOUT: Duration = Duration::from_secs(30);
/// 256 GiB: more than the buckets of any machine today.
const MAX_SNAPSHOT: u64 = 1 << 38;
