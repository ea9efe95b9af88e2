//! What threads meet over, by one name, so that `models/` can put a model checker's in its place.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU64, fence};
pub(super) use std::thread::yield_now;
