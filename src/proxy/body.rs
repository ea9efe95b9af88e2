//! Request and response bodies: streamed with time-outs, buffered where a limit or a rule reads them (`buffer`,
//! `transaction::inspect`).
//!
//! Trailers are dropped in both directions: nothing of them may be promoted to a header. The surprising thing: an
//! answer's body is where a request ends, so it carries what is to happen then.

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

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// No progress in time.
    #[error("the body made no progress in time")]
    Stalled,
    /// What hyper says.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}
