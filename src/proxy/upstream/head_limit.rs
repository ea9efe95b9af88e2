//! Byte limit of a response head, interim responses included.
//!
//! hyper bounds a head, but passes over interim answers (`103 Early Hints`) without counting them. The surprising thing:
//! whoever sends the request sets the ration, and lifts it when the head is there; what comes after it is counted nowhere.

use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::proxy::tap::Tap;

/// How much may still be read; shared by the socket and whoever waits for an answer.
#[derive(Debug, Clone)]
pub(super) struct HeadLimit(Arc<AtomicUsize>);

impl HeadLimit {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// The head of an answer is waited for.
    pub(super) fn arm(&self) {
        self.0.store(MAX_HEAD_BYTES, Relaxed);
    }

    /// It is there.
    pub(super) fn disarm(&self) {
        self.0.store(usize::MAX, Relaxed);
    }
}

impl Tap for HeadLimit {
    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        let left = self.0.load(Relaxed);
        if left < usize::MAX {
            let left = left.checked_sub(bytes.len()).ok_or(ErrorKind::InvalidData)?;
            self.0.store(left, Relaxed);
        }
        Ok(bytes.len())
    }
}

/// A head has room in a quarter of it; the rest is for interim answers.
const MAX_HEAD_BYTES: usize = 256 * 1024;
