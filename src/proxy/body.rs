//! Request and response bodies: streamed with time-outs, buffered where a limit or a rule reads them (`buffer`,
//! `exchange::inspect`).
//!
//! Trailers are dropped in both directions: nothing of them may be promoted to a header. The surprising thing: an
//! answer's body is where a request ends, so it carries what is to happen then.

mod memory;
mod patience;
mod reply;
mod request;
mod watch;
mod whole;

pub use self::memory::BodyMemory;
pub(super) use self::memory::MemoryReservation;
pub use self::reply::{AtEnd, ResponseBody};
pub use self::request::{IncomingBody, RequestBody, UploadProgress, UploadState};
pub(super) use self::watch::BodyInspector;
pub(super) use self::whole::{BufferedBody, UnreadGuard, read};

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
