//! Bodies on their way through: streamed, and never waited for without an end. Only where a limit has to know what is
//! in a client's body is it read to its end first, in `whole`; only where a rule has to know what is in an answer's is a
//! copy kept of its beginning, in `watch`.
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
pub(super) use self::memory::Hold;
pub use self::reply::{AtEnd, ReplyBody};
pub use self::request::{Arrival, Progress, RequestBody, Sent};
pub(super) use self::watch::Watch;
pub(super) use self::whole::{Read, Unread, read};

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
