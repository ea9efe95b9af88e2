//! Byte limit of a response head, interim responses included.
//!
//! hyper bounds a head, but does not count interim responses (`103 Early Hints`). `upstream` arms the limit when it
//! sends a request, and disarms it when the head is complete; the body has no limit.

use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::proxy::tap::Tap;

/// Bytes that may still be read, shared by the socket and the request that waits for the response.
#[derive(Debug, Clone)]
pub(super) struct HeadLimit(Arc<AtomicUsize>);

impl HeadLimit {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// Starts the limit: a request is being sent.
    pub(super) fn arm(&self) {
        self.0.store(MAX_HEAD_BYTES, Relaxed);
    }

    /// Ends the limit: the head is complete.
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

/// A head fits in a quarter of it; the rest is for interim responses.
const MAX_HEAD_BYTES: usize = 256 * 1024;
