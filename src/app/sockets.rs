//! Binds the sockets of the workers, and raises the limit of open files.

use super::AppStartError;
use crate::net::inherited::InheritedSockets;
use crate::net::listener::ListenAddress;
use crate::net::worker_sockets::WorkerSockets;

/// Binds at least one socket for each address and thread.
pub(super) fn bind(
    addresses: &[ListenAddress],
    threads: usize,
    inherited: &mut InheritedSockets,
) -> Result<WorkerSockets, AppStartError> {
    let mut sockets = WorkerSockets::new(threads);
    for address in addresses {
        sockets.share(&address.bind(threads, inherited)?).map_err(AppStartError::Share)?;
    }
    Ok(sockets)
}

/// The number of files that this process may open at most; `None` for any number.
#[must_use]
pub fn descriptor_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

/// Raises the limit of open files to what the machine allows: a connection takes one descriptor, and one more to the
/// upstream. Without it the gate serves what it can, and pauses accepting when descriptors run out.
pub(super) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Fails only if the hard limit was lowered meanwhile.
    let _ = setrlimit(Resource::Nofile, limit);
}
