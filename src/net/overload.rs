//! Overload protection: whether descriptors and memory suffice for another connection.
//!
//! It knows no prefixes and no rates. The surprising thing: nobody counts descriptors. The kernel gives out the lowest
//! number that is free, so a high one says that all below it are taken.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::connection_slots::ConnectionSlots;

/// What the machine has left.
#[derive(Debug)]
pub(super) struct OverloadManager {
    /// The first descriptor that is kept for connections to upstreams and stores, for operators and for files.
    reserved: RawFd,
    /// Connections while memory is short.
    ceiling: AtomicUsize,
}

impl OverloadManager {
    /// By the limit on descriptors that this process has now.
    pub(super) fn from_rlimit() -> Self {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let reserve = (most / RESERVED_SHARE).min(MAX_RESERVE);
        let reserved = RawFd::try_from(most - reserve).unwrap_or(RawFd::MAX);
        Self { reserved, ceiling: AtomicUsize::new(usize::MAX) }
    }

    pub(super) fn set_ceiling(&self, ceiling: Option<usize>) {
        self.ceiling.store(ceiling.unwrap_or(usize::MAX), Relaxed);
    }

    /// Whether this connection, which is one of those that have places, may stay.
    pub(super) fn admit(
        &self,
        socket: &impl AsRawFd,
        connections: &Arc<ConnectionSlots>,
    ) -> Result<(), AdmitError> {
        if socket.as_raw_fd() >= self.reserved {
            return Err(AdmitError::Descriptors);
        }
        let ceiling = self.ceiling.load(Relaxed);
        if ceiling < usize::MAX && connections.taken() > ceiling {
            return Err(AdmitError::Memory);
        }
        Ok(())
    }
}

/// Whether this machine has no descriptor, port or memory for another connection.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let of_this_machine = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
    errno.is_some_and(|errno| of_this_machine.contains(&errno))
}

/// A quarter of all descriptors: a connection to an upstream serves clients one after the other, so these need fewer.
const RESERVED_SHARE: u64 = 4;
/// Twice `proxy.upstream_max`, unless the file says otherwise.
const MAX_RESERVE: u64 = 1024;

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitError {
    /// All places are taken, and those that are idle are held by clients that hold less.
    Connections,
    /// Too many connections from its prefix.
    ClientMax,
    /// Too many new connections from its prefix.
    ClientRate,
    /// Memory is short.
    Memory,
    /// Descriptors are short.
    Descriptors,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered(RawFd);

    impl AsRawFd for Numbered {
        fn as_raw_fd(&self) -> RawFd {
            self.0
        }
    }

    #[tokio::test]
    async fn nobody_new_comes_in_beyond_the_ceiling_until_it_is_lifted() {
        let (room, places) = (OverloadManager::from_rlimit(), ConnectionSlots::new(9));
        let held = [places.take().await, places.take().await];
        room.set_ceiling(Some(2));
        assert_eq!(room.admit(&Numbered(5), &places), Ok(()));
        let third = places.take().await;
        assert_eq!(room.admit(&Numbered(5), &places), Err(AdmitError::Memory));
        drop(held);
        assert_eq!(room.admit(&Numbered(5), &places), Ok(()), "whoever leaves makes room");
        room.set_ceiling(None);
        drop(third);
    }

    #[test]
    fn the_last_descriptors_are_not_for_clients() {
        let room = OverloadManager { reserved: 48, ceiling: AtomicUsize::new(usize::MAX) };
        let places = ConnectionSlots::new(9);
        assert_eq!(room.admit(&Numbered(47), &places), Ok(()));
        assert_eq!(room.admit(&Numbered(48), &places), Err(AdmitError::Descriptors));
    }
}
