//! Why a request gets no answer from the application, and whose fault that is.
//!
//! A refusal is not an error: it is what the gate is for.

use crate::engine::Undecided;
use crate::event::Failure;
use crate::proxy::respond::Problem;
use crate::proxy::target::Malformed;
use crate::time::Span;

/// Why a request gets no answer from the application.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client sent what two servers could read differently.
    #[error(transparent)]
    Malformed(#[from] Malformed),
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
    ClientGone,
    /// As many attempts of the route are on their way as it allows.
    #[error("too many attempts are on their way")]
    Crowded,
    /// The store is away, and `store.on_error` is `deny`.
    #[error("the store is away")]
    StoreAway,
    /// The upstream failed.
    #[error("the upstream failed: {0:?}")]
    Upstream(Failure),
}

impl Error {
    /// The one place where an error becomes a status.
    pub(super) fn problem(&self) -> Problem {
        match self {
            Self::Malformed(Malformed::Expectation) => Problem::Expectation,
            Self::Malformed(_) | Self::Undecided(Undecided::Unchargeable(_)) | Self::ClientGone => {
                Problem::Malformed
            }
            Self::Connect => Problem::Method,
            Self::TargetTooLong => Problem::TargetTooLong,
            Self::ClientStalled => Problem::Slow,
            Self::BodyTooLong => Problem::BodyTooLarge,
            Self::Upstream(Failure::Connect | Failure::Broken | Failure::Certificate | Failure::Tls) => {
                Problem::Broken
            }
            Self::Upstream(Failure::Timeout | Failure::ConnectTimeout) => Problem::TimedOut,
            Self::Upstream(Failure::Busy | Failure::Exhausted)
            | Self::Crowded
            | Self::NoMemory
            | Self::StoreAway
            | Self::Undecided(Undecided::Stale(_) | Undecided::Sealed) => {
                Problem::Busy { wait: Span::from_secs(1) }
            }
        }
    }
}
