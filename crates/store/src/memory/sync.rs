//! The synchronization primitives of the table under one name, so that `models/` can replace them with those of a
//! model checker.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU64, fence};
pub(super) use std::thread::yield_now;
