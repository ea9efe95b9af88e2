//! A tap on the client socket that runs the request validator over every byte.
//!
//! hyper gets a head whole, clean or not, so that the service can refuse the request in the form that its client accepts.
//! The surprising thing: of a body it gets nothing that comes behind a fault, so that what may be on its way already
//! breaks off.

use std::io::{ErrorKind, Result};
use std::task::{Context, Poll};

use crate::proxy::request::validator::Validator;
use crate::proxy::tap::Tap;

pub(super) struct ValidatingTap {
    /// Reads along until there is a fault, or the connection is no HTTP any more.
    validator: Option<Validator>,
    /// The number of the request with the fault, until somebody takes it.
    violation: Option<u64>,
    /// hyper gets nothing more.
    is_cut_off: bool,
    /// How many bytes the last read brought: hyper's buffer does not tell.
    pub(super) count: usize,
}

impl ValidatingTap {
    pub(super) fn new() -> Self {
        Self { validator: Some(Validator::new()), violation: None, is_cut_off: false, count: 0 }
    }

    /// The number of the request in which the last read found a fault.
    pub(super) fn take_violation(&mut self) -> Option<u64> {
        self.violation.take()
    }

    /// The connection is a tunnel, and what it carries nobody's business.
    pub(super) fn stop(&mut self) {
        self.validator = None;
    }

    /// How many of these bytes hyper may have.
    fn validate(&mut self, bytes: &[u8]) -> usize {
        let Some(Err(fault)) = self.validator.as_mut().map(|scanner| scanner.read(bytes)) else {
            return bytes.len();
        };
        self.validator = None;
        self.violation = Some(fault.request);
        self.is_cut_off = fault.allowed.is_some();
        fault.allowed.unwrap_or(bytes.len())
    }
}

impl Tap for ValidatingTap {
    fn poll_read_limit(&mut self, _cx: &Context<'_>) -> Poll<Result<usize>> {
        self.count = 0;
        Poll::Ready(if self.is_cut_off { Err(ErrorKind::InvalidData.into()) } else { Ok(usize::MAX) })
    }

    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        let clean = self.validate(bytes);
        if self.is_cut_off && clean == 0 {
            // Nothing at all would look like the end.
            return Err(ErrorKind::InvalidData.into());
        }
        self.count = clean;
        Ok(clean)
    }
}
