//! The client's socket, read along by the strict scanner.
//!
//! hyper gets a head whole, clean or not, so that the service can refuse the request in the form that its client accepts.
//! The surprising thing: of a body it gets nothing that comes behind a fault, so that what may be on its way already
//! breaks off.

use std::io::{ErrorKind, Result};
use std::task::{Context, Poll};

use crate::proxy::strict::Scanner;
use crate::proxy::watched::Watch;

pub(super) struct Checked {
    /// Reads along until there is a fault, or the connection is no HTTP any more.
    scanner: Option<Scanner>,
    /// The number of the request with the fault, until somebody takes it.
    faulty: Option<u64>,
    /// hyper gets nothing more.
    is_cut_off: bool,
    /// How many bytes the last read brought: hyper's buffer does not tell.
    pub(super) count: usize,
}

impl Checked {
    pub(super) fn new() -> Self {
        Self { scanner: Some(Scanner::new()), faulty: None, is_cut_off: false, count: 0 }
    }

    /// The number of the request in which the last read found a fault.
    pub(super) fn take_faulty(&mut self) -> Option<u64> {
        self.faulty.take()
    }

    /// The connection is a tunnel, and what it carries nobody's business.
    pub(super) fn look_away(&mut self) {
        self.scanner = None;
    }

    /// How many of these bytes hyper may have.
    fn look_at(&mut self, bytes: &[u8]) -> usize {
        let Some(Err(fault)) = self.scanner.as_mut().map(|scanner| scanner.read(bytes)) else {
            return bytes.len();
        };
        self.scanner = None;
        self.faulty = Some(fault.request);
        self.is_cut_off = fault.clean.is_some();
        fault.clean.unwrap_or(bytes.len())
    }
}

impl Watch for Checked {
    fn poll_most(&mut self, _cx: &Context<'_>) -> Poll<Result<usize>> {
        self.count = 0;
        Poll::Ready(if self.is_cut_off { Err(ErrorKind::InvalidData.into()) } else { Ok(usize::MAX) })
    }

    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        let clean = self.look_at(bytes);
        if self.is_cut_off && clean == 0 {
            // Nothing at all would look like the end.
            return Err(ErrorKind::InvalidData.into());
        }
        self.count = clean;
        Ok(clean)
    }
}
