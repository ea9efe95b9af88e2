//! Gives memory back to the system when connections have gone.
//!
//! jemalloc, which `main.rs` chooses, keeps freed pages for a second (`.cargo/config.toml`), so that busy workers use
//! them again without the kernel. A worker at rest frees nothing that would remind it of older pages, so a thread of its
//! own returns them; without any, it sleeps. Each thread looks through its own free pieces after each MiB, and not after
//! each 64 KiB as by default: a busy worker allocates that much in a few requests. The C library's allocator keeps
//! nearly all freed pages for good.

use tikv_jemalloc_ctl::{background_thread, max_background_threads};

/// Starts the thread, with the rights of this one.
pub(super) fn return_memory() {
    let started = max_background_threads::write(1).and_then(|()| background_thread::write(true));
    if let Err(error) = started {
        tracing::warn!("memory of closed connections may stay with this process: {error}");
    }
}
