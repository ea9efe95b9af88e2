//! An upstream's socket, from which only so much is read before the head of an answer is there.
//!
//! hyper bounds a head, but passes over interim answers (`103 Early Hints`) without counting them. The surprising thing:
//! whoever sends the request sets the ration, and lifts it when the head is there; what comes after it is counted nowhere.

use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::proxy::watched::Watch;

/// How much may still be read; shared by the socket and whoever waits for an answer.
#[derive(Debug, Clone)]
pub(super) struct Ration(Arc<AtomicUsize>);

impl Ration {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    /// The head of an answer is waited for.
    pub(super) fn set(&self) {
        self.0.store(BEFORE_A_HEAD, Relaxed);
    }

    /// It is there.
    pub(super) fn lift(&self) {
        self.0.store(usize::MAX, Relaxed);
    }
}

impl Watch for Ration {
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
const BEFORE_A_HEAD: usize = 256 * 1024;
