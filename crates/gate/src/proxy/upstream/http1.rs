//! HTTP/1.1 to an upstream (RFC 9112), polled inside the task of the request.
//!
//! A [`PendingResponse`] sends one request and reads the head of its response; [`UpstreamBody`] reads the rest, and sends
//! what is left of the request meanwhile. Framing is strict: whatever two readers could read in two ways is an error. The
//! time-outs are left to `upstream` and `body::timeout`, the reuse of connections to `pool`.

mod chunked;
mod pending_response;
mod request_head;
mod response_body;
mod response_head;
#[cfg(test)]
mod tests;
mod upload;

pub(super) use self::pending_response::PendingResponse;
pub use self::response_body::UpstreamBody;
pub(super) use self::response_head::ResponseHead;
pub(super) use self::upload::Upload;

use crate::event::BrokenAnswer;

/// Why a response is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    /// The socket failed.
    #[error("the upstream's connection failed: {0}")]
    Socket(#[from] std::io::Error),
    /// The connection closed within the response.
    #[error("the upstream closed the connection within its response")]
    Incomplete,
    /// The head or a chunk is malformed, ambiguous or too long.
    #[error("the upstream's response is malformed: {0:?}")]
    Malformed(BrokenAnswer),
    /// The rest of the client's request could not be read.
    #[error("the client's body failed")]
    Upload,
}

impl ResponseError {
    /// A malformed response.
    pub(super) fn malformed(why: &'static str) -> Self {
        Self::Malformed(why.into())
    }

    /// Why there is no response.
    pub(super) fn cause(&self) -> BrokenAnswer {
        match self {
            Self::Malformed(cause) => *cause,
            Self::Incomplete => "it closed the connection within its answer".into(),
            Self::Socket(_) | Self::Upload => "its connection broke".into(),
        }
    }

    /// Whether the upstream closed the connection, as far as that can be told.
    pub(super) fn is_close(&self) -> bool {
        matches!(self, Self::Socket(_) | Self::Incomplete)
    }
}
