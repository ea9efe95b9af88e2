//! Loom's part of what `src/store/memory/sync.rs` names.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicU64, fence};
pub(super) use loom::thread::yield_now;
