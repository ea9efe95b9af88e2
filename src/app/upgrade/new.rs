//! The new side of an upgrade: sockets from systemd, or sockets and buckets of the old process.
//!
//! The surprising thing: a gate that takes over says that it is ready from within its own making, between the last thing that can
//! fail and the buckets, so that the old one stops no sooner than it has to.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::protocol::{Message, UPGRADE_ENV, UpgradeChannel};
use crate::net::inherited::InheritedSockets;
use crate::store::snapshot::Snapshot;

/// What is there before a gate is made.
#[derive(Debug, Default)]
pub struct Inherited {
    /// Sockets that are bound already.
    pub(in crate::app) sockets: InheritedSockets,
    pub(in crate::app) old_process: Option<OldProcess>,
}

/// The gate that still serves.
#[derive(Debug)]
pub(in crate::app) struct OldProcess(UpgradeChannel);

impl Inherited {
    /// As the environment says. To be asked once, at the beginning, before there are threads.
    ///
    /// # Errors
    /// If something was passed that nobody can listen at, or the gate that serves is not there any more.
    pub fn from_env() -> io::Result<Self> {
        if std::env::var_os(UPGRADE_ENV).is_none() {
            return Ok(Self { sockets: InheritedSockets::from_systemd()?, old_process: None });
        }
        let stream = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
        let mut wire = UpgradeChannel::new(stream, OLD_PROCESS_TIMEOUT)?;
        let sockets = InheritedSockets::from_old_process(wire.receive_sockets()?);
        Ok(Self { sockets, old_process: Some(OldProcess(wire)) })
    }
}

impl OldProcess {
    /// Says that this process is ready, and waits for the buckets; `None` if they are in a store.
    pub(in crate::app) fn receive_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.0.send_message(Message::Ready)?;
        let image = self.0.receive_bytes(MAX_SNAPSHOT)?;
        image.map(|bytes| Snapshot::decode(&bytes).map_err(io::Error::other)).transpose()
    }

    /// Says that this process serves from now on.
    pub(in crate::app) fn confirm_serving(&mut self) -> io::Result<()> {
        self.0.send_message(Message::Serving)
    }
}

/// The other one waits less.
const OLD_PROCESS_TIMEOUT: Duration = Duration::from_secs(30);
/// More than the buckets of any machine of these years.
const MAX_SNAPSHOT: u64 = 1 << 38;
