//! What a gate begins with that it did not make: sockets from systemd, or sockets and buckets of the gate whose place it takes.
//!
//! The surprising thing: a gate that takes over says that it is ready from within its own making, between the last thing that can
//! fail and the buckets, so that the old one stops no sooner than it has to.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::handover::{Wire, Word};
use crate::net::inherited::Inherited;
use crate::store::snapshot::Snapshot;

/// What is there before a gate is made.
#[derive(Debug, Default)]
pub struct Heritage {
    /// Sockets that are bound already.
    pub(super) sockets: Inherited,
    pub(super) predecessor: Option<Predecessor>,
}

/// The gate that still serves.
#[derive(Debug)]
pub(super) struct Predecessor(Wire);

impl Heritage {
    /// As the environment says. To be asked once, at the beginning, before there are threads.
    ///
    /// # Errors
    /// If something was passed that nobody can listen at, or the gate that serves is not there any more.
    pub fn of_environment() -> io::Result<Self> {
        if std::env::var_os(TAKES_OVER).is_none() {
            return Ok(Self { sockets: Inherited::from_systemd()?, predecessor: None });
        }
        let stream = UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?);
        let mut wire = Wire::new(stream, PATIENCE)?;
        let sockets = Inherited::from_predecessor(wire.passed()?);
        Ok(Self { sockets, predecessor: Some(Predecessor(wire)) })
    }
}

impl Predecessor {
    /// Says that this process is ready, and waits for the buckets; `None` if they are in a store.
    pub(super) fn buckets(&mut self) -> io::Result<Option<Snapshot>> {
        self.0.say(Word::Ready)?;
        let image = self.0.receive(LONGEST_IMAGE)?;
        image.map(|bytes| Snapshot::decode(&bytes).map_err(io::Error::other)).transpose()
    }

    /// Says that this process serves from now on.
    pub(super) fn retire(&mut self) -> io::Result<()> {
        self.0.say(Word::Serving)
    }
}

/// Says that standard input leads to the gate that serves. Not `TOLLGATE_...`, which would be a setting.
pub(super) const TAKES_OVER: &str = "TAKES_OVER_TOLLGATE";
/// The other one waits less.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than the buckets of any machine of these years.
const LONGEST_IMAGE: u64 = 1 << 38;
