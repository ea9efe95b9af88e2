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
mod socket;
#[cfg(test)]
mod tests;
mod upload;

pub(super) use self::pending_response::PendingResponse;
pub use self::response_body::UpstreamBody;
pub(super) use self::response_head::ResponseHead;
pub(super) use self::socket::BufferedSocket;
pub(super) use self::upload::Upload;

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
    #[error("the upstream's response is malformed: {0}")]
    Malformed(&'static str),
    /// The rest of the client's request could not be read.
    #[error("the client's body failed")]
    Upload,
}

impl From<httparse::Error> for ResponseError {
    fn from(_: httparse::Error) -> Self {
        Self::Malformed("its lines do not parse")
    }
}
