//! Errors: why a request gets no response from the application, and which side is to blame.
//!
//! A refusal by a limit is not an error. `respond` renders the responses.

use crate::engine::{NoSuchReceipt, Undecided};
use crate::event::{Failure, RejectReason};
use crate::net::connection_limit::AdmitError;
use crate::policy::body_coding::UndecodableBody;
use crate::policy::slots::NoSlot;
use crate::policy::{DefenceRefusal, NoPermit, Unchargeable, canonical};
use crate::proxy::respond::ProblemKind;
use crate::time::Span;

/// Why a request gets no response from the application.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is malformed or ambiguous.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// The engine could not decide.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// The method is `CONNECT`.
    #[error("CONNECT is not served here")]
    Connect,
    /// The peer may not ask at this decision endpoint.
    #[error("this peer may not ask here")]
    UntrustedAsker,
    /// The report names no open attempt.
    #[error(transparent)]
    NoSuchReceipt(#[from] NoSuchReceipt),
    /// The report is not JSON of the expected form.
    #[error("the report is malformed")]
    MalformedReport,
    /// The target is longer than 8 KiB, or its query has too many parameters.
    #[error("the target is too long")]
    TargetTooLong,
    /// The client's body is longer than its route buffers.
    #[error("the client's body is too long")]
    BodyTooLong,
    /// The client's body is not in its coding.
    #[error(transparent)]
    Undecodable(#[from] UndecodableBody),
    /// The client's body made no progress in time.
    #[error("the client's body made no progress in time")]
    ClientStalled,
    /// No memory was free for the client's body, or it was evicted for a smaller one.
    #[error("no memory for the client's body")]
    NoMemory,
    /// The client closed the connection within its body, or sent an invalid body.
    #[error("the client's body is incomplete or invalid")]
    ClientDisconnected,
    /// Too many attempts are under way.
    #[error(transparent)]
    NoPermit(#[from] NoPermit),
    /// The application serves as many as it can, and more wait.
    #[error(transparent)]
    NoSlot(#[from] NoSlot),
    /// The store is unavailable, and `store.on_error` is `deny`.
    #[error("store unavailable")]
    StoreUnavailable,
    /// A defence refuses the attempt, whatever the limits say.
    #[error("{}", .0.why)]
    RefusedByDefence(&'static DefenceRefusal),
    /// The upstream failed.
    #[error("the upstream failed: {0:?}")]
    Upstream(Failure),
}

/// Why a request is malformed or ambiguous; `explain` prints the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// No `Host` in HTTP/1.1, or an empty one.
    #[error("the request has no Host")]
    NoHost,
    /// More than one `Host`.
    #[error("the request has several Host headers")]
    SeveralHosts,
    /// `Host` is not a host with an optional port.
    #[error("the Host header is not a host name")]
    BadHost,
    /// The target names another authority than `Host`.
    #[error("the target and the Host header name different hosts")]
    HostMismatch,
    /// The target's scheme is not `http` or `https`, or it has user information.
    #[error("the target is not an http address")]
    BadTarget,
    /// The target has a raw byte above 127.
    #[error("the target has bytes that are not ASCII")]
    NotAscii,
    /// Anything but exactly one `chunked`.
    #[error("the transfer coding is not `chunked`")]
    TransferEncoding,
    /// Found by the [`decoder`](super::request::decoder): the parsed form does not show it.
    #[error("the request could be read in two ways")]
    Ambiguous,
    /// Several `Expect`, or anything but `100-continue`.
    #[error("the only supported expectation is 100-continue")]
    Expectation,
    /// Several `Content-Length` in an HTTP/2 request.
    #[error("the request has several Content-Length headers")]
    SeveralLengths,
    /// RFC 9113, 8.2.1.
    #[error("a header value begins or ends with a blank")]
    PaddedValue,
    /// The question of a proxy names no client, or none that can be read.
    #[error("the question names no client")]
    NoClient,
    /// The body is no question or report of Dovecot's, in JSON.
    #[error("the body is not a policy request: {0}")]
    PolicyRequest(&'static str),
    /// The question of a proxy lacks a part of the request that it is about.
    #[error("the question lacks `{0}`")]
    IncompleteQuestion(&'static str),
    /// The question of a proxy says twice what it is about, or in a form that is read in several ways.
    #[error("the question is ambiguous: `{0}`")]
    AmbiguousQuestion(&'static str),
    /// The `Forwarded` header does not fit the grammar of RFC 7239.
    #[error("the Forwarded header is malformed")]
    BadForwarded,
    /// The header in which a proxy passes on a client's certificate does not fit its grammar, or is there twice.
    #[error("the {0} header is malformed")]
    BadCertificate(&'static str),
    /// More than 32 trusted hops.
    #[error("too many proxies have passed the request on")]
    TooManyHops,
    /// See [`canonical::PathError`].
    #[error(transparent)]
    Path(#[from] canonical::PathError),
}

impl Error {
    /// The only mapping from errors to statuses.
    pub(super) fn problem(&self) -> ProblemKind {
        match self {
            Self::Malformed(MalformedRequest::Expectation) => ProblemKind::Expectation,
            Self::Undecodable(_) | Self::Undecided(Undecided::Unchargeable(Unchargeable::Undecodable(_))) => {
                ProblemKind::UnknownCoding
            }
            Self::Undecided(Undecided::Unchargeable(Unchargeable::UnknownCharset(_))) => {
                ProblemKind::UnknownCharset
            }
            Self::Malformed(_) | Self::Undecided(Undecided::Unchargeable(_)) | Self::ClientDisconnected => {
                ProblemKind::Malformed
            }
            Self::MalformedReport => ProblemKind::Malformed,
            Self::UntrustedAsker => ProblemKind::Forbidden,
            Self::RefusedByDefence(refusal) => ProblemKind::RefusedByDefence(refusal),
            Self::NoSuchReceipt(_) => ProblemKind::Gone,
            Self::Connect => ProblemKind::MethodNotAllowed,
            Self::TargetTooLong => ProblemKind::TargetTooLong,
            Self::ClientStalled => ProblemKind::RequestTimeout,
            Self::BodyTooLong => ProblemKind::BodyTooLarge,
            Self::Upstream(Failure::Connect | Failure::Broken(_) | Failure::Certificate | Failure::Tls) => {
                ProblemKind::BadGateway
            }
            Self::Upstream(Failure::Timeout | Failure::ConnectTimeout) => ProblemKind::GatewayTimeout,
            Self::NoSlot(NoSlot(wait)) => ProblemKind::Unavailable { wait: *wait },
            Self::Upstream(Failure::Busy | Failure::Exhausted)
            | Self::NoPermit(_)
            | Self::NoMemory
            | Self::StoreUnavailable
            | Self::Undecided(Undecided::Stale(_) | Undecided::Frozen) => {
                ProblemKind::Unavailable { wait: Span::from_secs(1) }
            }
        }
    }
}

/// How events name the reason why a connection is not admitted.
pub(in crate::proxy) fn event_reason(error: AdmitError) -> RejectReason {
    match error {
        AdmitError::Connections => RejectReason::Connections,
        AdmitError::ClientMax => RejectReason::ClientMax,
        AdmitError::ClientRate => RejectReason::ClientRate,
        AdmitError::Memory => RejectReason::Memory,
        AdmitError::Descriptors => RejectReason::Descriptors,
    }
}
