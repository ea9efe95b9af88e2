//! Binds the sockets of the workers, and raises the limit of open files.

use super::AppStartError;
use crate::config::Config;
use crate::net::inherited::InheritedSockets;
use crate::net::worker_sockets::WorkerSockets;

/// Binds at least one socket for each address of clients and of decision endpoints, and thread.
pub(super) fn bind(
    config: &Config,
    threads: usize,
    inherited: &mut InheritedSockets,
) -> Result<WorkerSockets, AppStartError> {
    let mut sockets = WorkerSockets::new(threads);
    for (callers, address) in config.listens() {
        let mut bound = address.bind(threads, inherited)?;
        if let Some(socket) = bound.first().filter(|socket| socket.lacks_ipv6()) {
            tracing::warn!("the kernel has no IPv6: {address} becomes {}", socket.address());
        }
        bound.iter_mut().for_each(|socket| socket.callers = callers);
        sockets.share(&bound).map_err(AppStartError::Share)?;
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
