//! Capabilities of this thread, and whether it can ever get new ones.

use rustix::io;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// From now on no program that is executed has more rights than this thread.
pub(super) fn no_new_privileges() -> io::Result<()> {
    set_no_new_privs(true)
}

/// Keeps none, not even those of the superuser: files are then opened as their permissions say.
pub(super) fn drop_all() -> io::Result<()> {
    // What may be gained by execution, up to the last one that the kernel knows. Only a thread with CAP_SETPCAP may give it
    // up; without new privileges it does not matter.
    let given_up =
        |bit| remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1_u64 << bit)).is_ok();
    (0..u64::BITS).take_while(|bit| given_up(*bit)).for_each(drop);
    // Kernels before 4.3 know none.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
