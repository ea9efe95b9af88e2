//! Overload protection: whether descriptors and memory suffice for another connection.
//!
//! Prefixes and rates are left to [`connection_limit`](super::connection_limit). Descriptors are not counted: the
//! kernel gives out the lowest free number, so a high one means that all below it are taken.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::connection_slots::ConnectionSlots;

/// The resources that the machine has left.
#[derive(Debug)]
pub(super) struct OverloadManager {
    /// The first descriptor that is reserved for connections to upstreams and stores, for operators and for files.
    reserved: RawFd,
    /// The maximum number of connections while memory is short.
    ceiling: AtomicUsize,
}

impl OverloadManager {
    /// From the limit on descriptors that this process has now.
    pub(super) fn from_rlimit() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let reserve = (limit / RESERVED_SHARE).min(MAX_RESERVE);
        let reserved = RawFd::try_from(limit - reserve).unwrap_or(RawFd::MAX);
        Self { reserved, ceiling: AtomicUsize::new(usize::MAX) }
    }

    pub(super) fn set_ceiling(&self, ceiling: Option<usize>) {
        self.ceiling.store(ceiling.unwrap_or(usize::MAX), Relaxed);
    }

    /// Whether this connection, which has its slot already, may stay.
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

/// Why a client is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitError {
    /// All slots are taken, and the idle connections belong to prefixes that hold fewer.
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
    async fn no_connection_is_accepted_beyond_the_ceiling_until_it_is_lifted() {
        let (overload, slots) = (OverloadManager::from_rlimit(), ConnectionSlots::new(9));
        let taken = [slots.take().await, slots.take().await];
        overload.set_ceiling(Some(2));
        assert_eq!(overload.admit(&Numbered(5), &slots), Ok(()));
        let third = slots.take().await;
        assert_eq!(overload.admit(&Numbered(5), &slots), Err(AdmitError::Memory));
        drop(taken);
        assert_eq!(overload.admit(&Numbered(5), &slots), Ok(()), "a closed connection frees its slot");
        overload.set_ceiling(None);
        drop(third);
    }

    #[test]
    fn the_last_descriptors_are_not_for_clients() {
        let overload = OverloadManager { reserved: 48, ceiling: AtomicUsize::new(usize::MAX) };
        let slots = ConnectionSlots::new(9);
        assert_eq!(overload.admit(&Numbered(47), &slots), Ok(()));
        assert_eq!(overload.admit(&Numbered(48), &slots), Err(AdmitError::Descriptors));
    }
}
