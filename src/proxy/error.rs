//! Errors: why a request gets no response from the application, and which side is to blame.
//!
//! A refusal is not an error: it is what the gate is for.

use crate::engine::Undecided;
use crate::event::Failure;
use crate::proxy::respond::ProblemKind;
use crate::proxy::target::MalformedRequest;
use crate::time::Span;

/// Why a request gets no answer from the application.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client sent what two servers could read differently.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// Nothing could be decided on the request.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// The client wants a tunnel.
    #[error("CONNECT is not served here")]
    Connect,
    /// The client's target is longer than anybody's.
    #[error("the target is too long")]
    TargetTooLong,
    /// The client's body is longer than its route reads.
    #[error("the client's body is too long")]
    BodyTooLong,
    /// The client's body made no progress in time.
    #[error("the client's body made no progress in time")]
    ClientStalled,
    /// There was no memory for the client's body, or others needed it more.
    #[error("no memory for the client's body")]
    NoMemory,
    /// The client went away in the middle of its body, or sent what is none.
    #[error("the client broke off")]
    ClientDisconnected,
    /// As many attempts of the route are on their way as it allows.
    #[error("too many attempts are on their way")]
    InFlightLimit,
    /// The store is away, and `store.on_error` is `deny`.
    #[error("the store is away")]
    StoreUnavailable,
    /// The upstream failed.
    #[error("the upstream failed: {0:?}")]
    Upstream(Failure),
}

impl Error {
    /// The one place where an error becomes a status.
    pub(super) fn problem(&self) -> ProblemKind {
        match self {
            Self::Malformed(MalformedRequest::Expectation) => ProblemKind::Expectation,
            Self::Malformed(_) | Self::Undecided(Undecided::Unchargeable(_)) | Self::ClientDisconnected => {
                ProblemKind::Malformed
            }
            Self::Connect => ProblemKind::MethodNotAllowed,
            Self::TargetTooLong => ProblemKind::TargetTooLong,
            Self::ClientStalled => ProblemKind::RequestTimeout,
            Self::BodyTooLong => ProblemKind::BodyTooLarge,
            Self::Upstream(Failure::Connect | Failure::Broken | Failure::Certificate | Failure::Tls) => {
                ProblemKind::BadGateway
            }
            Self::Upstream(Failure::Timeout | Failure::ConnectTimeout) => ProblemKind::GatewayTimeout,
            Self::Upstream(Failure::Busy | Failure::Exhausted)
            | Self::InFlightLimit
            | Self::NoMemory
            | Self::StoreUnavailable
            | Self::Undecided(Undecided::Stale(_) | Undecided::Frozen) => {
                ProblemKind::Unavailable { wait: Span::from_secs(1) }
            }
        }
    }
}
