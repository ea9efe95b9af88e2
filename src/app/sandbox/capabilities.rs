//! Capabilities of this thread, and whether it can ever get new ones.

use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// From now on no executed program has more rights than this thread.
pub(super) fn no_new_privileges() -> io::Result<()> {
    set_no_new_privs(true)
}

/// Drops all capabilities, also those of root: from then on the permissions of a file decide whether it opens.
pub(super) fn drop_all() -> io::Result<()> {
    drop_all_but(CapabilitySet::empty())
}

/// The same, but for one that this thread has, and the programs that it executes.
pub(super) fn drop_all_but(kept: CapabilitySet) -> io::Result<()> {
    // The bounding set, up to the last capability that the kernel knows. Only a thread with CAP_SETPCAP may shrink it;
    // without new privileges it has no effect anyway.
    let capability = |bit| CapabilitySet::from_bits_retain(1_u64 << bit);
    let given_up =
        |bit| kept == capability(bit) || remove_capability_from_bounding_set(capability(bit)).is_ok();
    (0..u64::BITS).take_while(|bit| given_up(*bit)).for_each(drop);
    // Kernels before 4.3 have no ambient set.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    if kept.is_empty() { Ok(()) } else { configure_capability_in_ambient_set(kept, true) }
}
