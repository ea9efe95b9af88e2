//! The events of a gate: metrics, logs and the dashboard listen to them, and no other code counts or logs.
//!
//! The request path emits an event and goes on: a listener may neither block nor fail. Events carry positions of routes
//! and limits instead of names, so that a counter is one array index away.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, Uri, Version};

pub use crate::policy::outcome::Outcome;

use crate::bucket::Continuous;
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// Any event.
#[derive(Debug)]
pub enum Event<'a> {
    /// New rules are in force.
    Rules {
        /// Increases with each change.
        generation: u64,
        /// The routes and limits to which positions refer.
        policy: &'a Policy,
    },
    /// A limit decided on an attempt.
    Decided {
        /// The rules that the positions refer to.
        generation: u64,
        /// Position of the route.
        route: usize,
        /// Position of the limit.
        limit: usize,
        /// The limit's decision.
        decision: LimitDecision,
    },
    /// An admitted attempt was settled: the upstream responded, or failed.
    Settled {
        /// The rules that the position refers to.
        generation: u64,
        /// Position of the route.
        route: usize,
        /// The outcome of the attempt.
        outcome: Outcome,
    },
    /// A response was sent, or the client hung up before its end.
    RequestCompleted(&'a AccessLogEntry),
    /// A client connected.
    Connected,
    /// A client's connection ended.
    Disconnected,
    /// A client's connection was rejected.
    ConnectionRejected {
        /// The client's address, if it has one.
        peer: Option<IpAddr>,
        /// The reason.
        reason: RejectReason,
    },
    /// An idle connection was closed, because connection slots, descriptors or memory were short.
    ConnectionEvicted,
    /// A body that was read for its fields was refused: there is no memory for it.
    BodyRefused,
    /// `accept` failed; the listener tries again.
    AcceptFailed(&'a std::io::Error),
    /// An upstream failed a request.
    UpstreamFailed {
        /// Its address as configured.
        upstream: &'a str,
        /// The kind of failure.
        reason: Failure,
    },
    /// An upstream became unavailable, or available again.
    UpstreamUp {
        /// Its address as configured.
        upstream: &'a str,
        /// Whether it is available.
        up: bool,
    },
    /// The files of the configuration were read again.
    Reloaded {
        /// Whether the new configuration is in force.
        taken: bool,
        /// The changes, in words for operators; empty if the new configuration is not in force.
        changes: &'a str,
    },
    /// An operator gave a command to the gate as a whole.
    CommandReceived {
        /// The command.
        command: OperatorCommand,
        /// The operator.
        by: Operator,
    },
    /// A refusal was repeated from the mirror, without a call to the shared store.
    Mirrored {
        /// The name of the limit that refused.
        limit: &'a Arc<str>,
    },
    /// The store did not reply, and an attempt was decided without it.
    FellBack(Fallback),
    /// A call to the store ended.
    StoreCalled {
        /// The result.
        result: StoreCallResult,
        /// The duration of the call.
        took: Span,
    },
    /// The store became unavailable, or available again.
    StoreUp {
        /// Whether it is available.
        up: bool,
        /// The reason, in words for operators.
        why: &'a str,
    },
    /// The store has a warning for the operator.
    StoreWarning(&'a str),
    /// An operator changed single buckets.
    BucketsChanged(BucketsChanged<'a>),
    /// A task panicked: its connection is closed, the others go on.
    Panicked,
}

/// The decision of one limit on an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitDecision {
    /// The bucket had the tokens.
    Admit,
    /// The bucket did not have the tokens.
    Refuse,
    /// The bucket did not have the tokens, but the limit only observes.
    Observe,
    /// The limit exempts this client.
    Exempt,
}

/// How an attempt was decided without the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// By the buckets in this gate's memory.
    Local,
    /// The attempt was admitted.
    Allow,
    /// The attempt was refused with status 503.
    Deny,
}

/// The result of a call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreCallResult {
    /// The store replied and has written the change.
    Ok,
    /// Another gate wrote the bucket meanwhile.
    Conflict,
    /// The store did not reply in time.
    Timeout,
    /// The store replied with an error.
    Error,
}

/// Why a connection was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// `connections`: all slots are taken, and the idle connections belong to clients with fewer connections.
    Connections,
    /// `client_max`: the client's prefix has that many connections already.
    ClientMax,
    /// `client_rate`: the client's prefix opens connections too fast.
    ClientRate,
    /// The TLS handshake failed or was not completed.
    Handshake,
    /// The listener demands a PROXY header, and the peer is not a trusted proxy.
    UntrustedProxy,
    /// The listener demands a PROXY header, and the connection did not begin with one.
    ProxyHeader,
    /// Memory is short: the gate uses most of its limit.
    Memory,
    /// Descriptors are short: the rest is reserved for upstream connections and files.
    Descriptors,
}

/// How an upstream failed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The connection failed.
    Connect,
    /// The connection was not established in time.
    ConnectTimeout,
    /// The upstream's certificate is not valid.
    Certificate,
    /// The TLS handshake failed.
    Tls,
    /// The upstream did not respond in time.
    Timeout,
    /// The response is not HTTP, or broke off.
    Broken,
    /// `upstream_max` connections are busy.
    Busy,
    /// This machine has no descriptor, port or memory for a connection: the upstream is not to blame.
    Exhausted,
}

/// An operator's change to the buckets of a client or an account.
#[derive(Debug, Clone, Copy)]
pub struct BucketsChanged<'a> {
    /// The operator.
    pub by: Operator,
    /// The owner of the buckets.
    pub owner: BucketOwner,
    /// The names of the limits.
    pub limits: &'a [Arc<str>],
    /// The change.
    pub change: Change,
}

/// The peer of a Unix socket, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operator {
    /// The user id, if the kernel reports it.
    pub uid: Option<u32>,
    /// The process id, if the kernel reports it.
    pub pid: Option<i32>,
}

/// An operator's command to the gate as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorCommand {
    /// Read the configuration again.
    Reload,
    /// Finish the requests in flight and exit.
    Drain,
}

/// The owner of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketOwner {
    /// A client.
    Client(Client),
    /// An account: a keyed hash of 48 bits, never its name.
    Account(u64),
}

/// A change to buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// This number of tokens was added.
    Credited(u32),
    /// The buckets are new again: full, without failures and waits.
    Reset,
    /// The buckets have a rate of their own.
    RateGiven {
        /// The rate.
        rate: Continuous,
        /// Its end.
        until: Time,
    },
    /// The buckets have the limit's rate again.
    RateEnded,
}

/// One request and its response, for the access log.
#[derive(Debug, Clone)]
pub struct AccessLogEntry {
    /// The client.
    pub client: Client,
    /// The method as sent.
    pub method: Method,
    /// The target as sent.
    pub target: Uri,
    /// The version of the request.
    pub version: Version,
    /// The `Host` as sent.
    pub host: Option<HeaderValue>,
    /// The `Referer` as sent.
    pub referer: Option<HeaderValue>,
    /// The `User-Agent` as sent.
    pub user_agent: Option<HeaderValue>,
    /// The request id.
    pub request_id: Option<HeaderValue>,
    /// Name of the route, if it was an attempt.
    pub route: Option<Arc<str>>,
    /// Name of the first limit that refused, if one did.
    pub refused_by: Option<Arc<str>>,
    /// The status of the response.
    pub status: StatusCode,
    /// Bytes of the response body that were passed to the connection.
    pub bytes: u64,
    /// Whether the body was passed on to its end.
    pub complete: bool,
    /// When the head of the request was read.
    pub at: Time,
    /// From then to the end of the response.
    pub duration: Span,
    /// The part of the duration that the gate itself took.
    pub added: Span,
}

/// A listener to events.
pub trait EventListener: Send + Sync {
    /// Handles one event; must neither block nor fail.
    fn on_event(&self, event: &Event<'_>);
}

/// All listeners of a gate.
#[derive(Clone, Default)]
pub struct Events(Arc<[Arc<dyn EventListener>]>);

impl Events {
    /// Passes the event to all listeners.
    pub fn emit(&self, event: &Event<'_>) {
        for listener in self.0.iter() {
            listener.on_event(event);
        }
    }
}

impl FromIterator<Arc<dyn EventListener>> for Events {
    fn from_iter<I: IntoIterator<Item = Arc<dyn EventListener>>>(listeners: I) -> Self {
        Self(listeners.into_iter().collect())
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events({} listeners)", self.0.len())
    }
}
