//! Gives memory back to the system when connections have gone, where the program has jemalloc.

/// Starts the allocator's thread, with the rights of this one.
#[cfg(feature = "jemalloc")]
pub(super) fn return_memory() {
    if let Err(error) = tollgate_allocator::return_memory() {
        tracing::warn!("memory of closed connections may stay with this process: {error}");
    }
}

/// Nothing: the C library's allocator has no such thread.
#[cfg(not(feature = "jemalloc"))]
pub(super) fn return_memory() {}
