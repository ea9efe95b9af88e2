//! Request and response bodies: streamed with time-outs, buffered where a limit or a rule reads them (`buffer`,
//! `transaction::inspect`), and read ahead so that a slow client holds no connection to an upstream.

mod asked;
mod buffer;
mod client;
mod held_end;
mod memory;
mod paced;
mod pulled;
mod read_ahead;
mod request;
mod response;
mod searches;
mod start;
mod timeout;

pub use self::asked::AskedBody;
pub(in crate::proxy) use self::buffer::BodyBuffer;
pub(super) use self::buffer::{BufferedBody, UnreadGuard, decode, read, read_behind};
pub use self::client::{ClientBody, Http1Body};
pub(in crate::proxy) use self::held_end::HeldEnd;
pub(super) use self::memory::MemoryReservation;
pub use self::memory::{BodyMemories, BodyMemory};
pub(in crate::proxy) use self::paced::PacedBody;
pub use self::pulled::{BodyFeed, BodyPiece, PulledBody, pulled};
pub(in crate::proxy) use self::read_ahead::ReadAhead;
pub use self::request::{IncomingBody, RequestBody, UploadProgress, UploadState};
pub(in crate::proxy) use self::response::complete_headers;
pub use self::response::{AtEnd, ResponseBody, TunnelTask};
pub use self::searches::BodySearches;
pub(super) use self::start::{BodyStart, add_to_hint};
pub(in crate::proxy) use self::timeout::BodyTimeout;

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body made no progress in time.
    #[error("the body made no progress in time")]
    Stalled,
    /// The proxy that asks about a request sent only the beginning of its body.
    #[error("the body was cut")]
    Cut,
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
