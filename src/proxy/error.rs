//! Errors: why a request gets no response from the application, and which side is to blame.
//!
//! A refusal is not an error: it is what the gate is for.

use crate::engine::Undecided;
use crate::event::Failure;
use crate::policy::canonical;
use crate::proxy::respond::ProblemKind;
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

/// Why a request is refused as it stands; the words are for the person who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// No `Host` in HTTP/1.1, or an empty one.
    #[error("the request has no Host")]
    NoHost,
    /// More than one.
    #[error("the request has several Host headers")]
    SeveralHosts,
    /// Not a host and a port.
    #[error("the Host header is not a host name")]
    BadHost,
    /// The target names another authority than `Host`.
    #[error("the target and the Host header name different hosts")]
    HostMismatch,
    /// Not `http` or `https`, or user information.
    #[error("the target is not an http address")]
    BadTarget,
    /// A raw byte above 127.
    #[error("the target has bytes that are not ASCII")]
    NotAscii,
    /// Anything but exactly one `chunked`.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// See [`validator`](super::request::validator): what hyper's parsed form does not show.
    #[error("the request could be read in two ways")]
    Ambiguous,
    /// Several `Expect`, or anything but `100-continue`.
    #[error("nothing but 100-continue can be expected here")]
    Expectation,
    /// In HTTP/2, where the length of a body is said by its frames.
    #[error("the request has several Content-Length headers")]
    SeveralLengths,
    /// RFC 9113, 8.2.1.
    #[error("a header value begins or ends with a blank")]
    PaddedValue,
    /// See `forwarded.rs`.
    #[error("what Forwarded says does not fit its grammar")]
    BadForwarded,
    /// More proxies of ours than there are in any chain.
    #[error("too many proxies have passed the request on")]
    TooManyHops,
    /// See [`canonical::PathError`].
    #[error(transparent)]
    Path(#[from] canonical::PathError),
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
