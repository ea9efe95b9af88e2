//! Where a gate listens, and how many descriptors it may have.

use super::StartError;
use crate::net::inherited::{Inherited, Sockets};
use crate::net::listener::Address;

/// For each thread its sockets: at least one for each address.
pub(super) fn bind(
    addresses: &[Address],
    threads: usize,
    inherited: &mut Inherited,
) -> Result<Sockets, StartError> {
    let mut sockets = Sockets::new(threads);
    for address in addresses {
        sockets.share(&address.bind(threads, inherited)?).map_err(StartError::Share)?;
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
