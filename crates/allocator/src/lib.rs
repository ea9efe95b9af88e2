//! jemalloc, set up so that a server gives memory back to the system when connections have gone.
//!
//! Freed pages stay for a second, so that busy threads use them again without the kernel. Each thread looks through its
//! own free pieces once per MiB, and not once per 64 KiB as by default: a busy worker allocates that much in a few
//! requests. A thread at rest frees nothing that would remind it of older pages, so a thread of the allocator's own
//! returns them; without any, it sleeps. The C library's allocator keeps nearly all freed pages for good.
//!
//! A program chooses the allocator itself:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: tollgate_allocator::Jemalloc = tollgate_allocator::Jemalloc;
//! # fn main() {}
//! ```

pub use tikv_jemallocator::Jemalloc;

use std::hint::black_box;

use tikv_jemalloc_ctl::{Error, background_thread, max_background_threads};

/// Read by jemalloc when the process starts: `malloc_conf` in `man 3 jemalloc`, under the prefix of the Rust crate.
#[expect(unsafe_code, reason = "the name is jemalloc's, and the type is its `const char *`")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 79] =
    b"dirty_decay_ms:1000,muzzy_decay_ms:0,retain:false,tcache_gc_incr_bytes:1048576\0";

/// Starts the thread that returns freed pages, with the rights of this one.
///
/// # Errors
/// The system gives no thread; then memory of closed connections may stay with the process.
pub fn return_memory() -> Result<(), Error> {
    // Nothing else in Rust names the settings, and the linker leaves out what nobody names.
    black_box(SETTINGS);
    max_background_threads::write(1)?;
    background_thread::write(true)
}

#[cfg(test)]
mod tests {
    use tikv_jemalloc_ctl::raw;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the options have no typed reader")]
    fn jemalloc_has_read_the_settings() {
        return_memory().unwrap();
        // SAFETY: the names end with NUL, and the types are those of the manual page.
        let (decay, retain, increment) = unsafe {
            (
                raw::read::<isize>(b"opt.dirty_decay_ms\0").unwrap(),
                raw::read::<bool>(b"opt.retain\0").unwrap(),
                raw::read::<usize>(b"opt.tcache_gc_incr_bytes\0").unwrap(),
            )
        };
        assert_eq!((decay, retain, increment), (1000, false, 1 << 20));
    }
}
