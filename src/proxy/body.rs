//! Request and response bodies: streamed with time-outs, buffered where a limit or a rule reads them (`buffer`,
//! `transaction::inspect`).
//!
//! Trailers are dropped in both directions, so no peer can promote one to a header.

mod buffer;
mod memory;
mod request;
mod response;
mod timeout;

pub(super) use self::buffer::{BufferedBody, UnreadGuard, read};
pub use self::memory::BodyMemory;
pub(super) use self::memory::MemoryReservation;
pub use self::request::{IncomingBody, RequestBody, UploadProgress, UploadState};
pub use self::response::{AtEnd, ResponseBody};
pub(super) use self::response::{add_to_hint, length};
pub(in crate::proxy) use self::timeout::BodyTimeout;

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body made no progress in time.
    #[error("the body made no progress in time")]
    Stalled,
    /// The sender closed the connection within the body, or the body is malformed.
    #[error("the body is incomplete or malformed: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl BodyError {
    /// The body is broken for this reason.
    pub fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Broken(Box::new(error))
    }
}

impl From<hyper::Error> for BodyError {
    fn from(error: hyper::Error) -> Self {
        Self::broken(error)
    }
}
