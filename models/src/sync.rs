//! Loom's part of the names in `crates/store/src/memory/sync.rs`.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicU64, fence};
pub(super) use loom::thread::yield_now;
