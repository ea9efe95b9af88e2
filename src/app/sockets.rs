//! Where a gate listens, and how many descriptors it may have.

use super::AppStartError;
use crate::net::inherited::InheritedSockets;
use crate::net::listener::ListenAddress;
use crate::net::worker_sockets::WorkerSockets;

/// For each thread its sockets: at least one for each address.
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

/// Each connection takes a descriptor, and one to the upstream: as many as the machine allows. Where it cannot be
/// raised the gate still serves what it can, and waits with accepting when it runs out.
pub(super) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused only where the limit was lowered meanwhile.
    let _ = setrlimit(Resource::Nofile, limit);
}
