//! A tap on the client socket that runs the request validator over every byte.
//!
//! hyper gets a complete head even with a violation, so the service can refuse the request in the client's format. Of a
//! body it gets no byte after a violation, so a request that is being forwarded breaks off. The rules are
//! `request::validator`'s.

use std::io::{ErrorKind, Result};
use std::task::{Context, Poll};

use crate::proxy::request::validator::Validator;
use crate::proxy::tap::Tap;

pub(super) struct ValidatingTap {
    /// `None` after a violation, and in a tunnel.
    validator: Option<Validator>,
    /// The number of the request with the violation, until it is taken.
    violation: Option<u64>,
    /// hyper gets no more bytes.
    is_cut_off: bool,
    /// Bytes of the last read: hyper's buffer does not show them.
    pub(super) count: usize,
}

impl ValidatingTap {
    pub(super) fn new() -> Self {
        Self { validator: Some(Validator::new()), violation: None, is_cut_off: false, count: 0 }
    }

    /// The number of the request with a violation in the last read.
    pub(super) fn take_violation(&mut self) -> Option<u64> {
        self.violation.take()
    }

    /// Whether all bytes so far belong to complete requests.
    pub(super) fn is_between_requests(&self) -> bool {
        self.validator.as_ref().is_some_and(Validator::is_between_requests)
    }

    /// Stops validating: the connection is a tunnel.
    pub(super) fn stop(&mut self) {
        self.validator = None;
    }

    /// Validates bytes, and returns how many of them hyper gets.
    fn validate(&mut self, bytes: &[u8]) -> usize {
        let Some(Err(violation)) = self.validator.as_mut().map(|validator| validator.read(bytes)) else {
            return bytes.len();
        };
        self.validator = None;
        self.violation = Some(violation.request);
        self.is_cut_off = violation.allowed.is_some();
        violation.allowed.unwrap_or(bytes.len())
    }
}

impl Tap for ValidatingTap {
    fn poll_read_limit(&mut self, _cx: &Context<'_>) -> Poll<Result<usize>> {
        self.count = 0;
        Poll::Ready(if self.is_cut_off { Err(ErrorKind::InvalidData.into()) } else { Ok(usize::MAX) })
    }

    fn read(&mut self, bytes: &[u8]) -> Result<usize> {
        let allowed = self.validate(bytes);
        if self.is_cut_off && allowed == 0 {
            // A read of no bytes would look like the end of the stream.
            return Err(ErrorKind::InvalidData.into());
        }
        self.count = allowed;
        Ok(allowed)
    }
}
