//! The events of a gate: metrics, logs and the dashboard listen to them, and nothing else counts or writes.
//!
//! The request path emits and goes on: a listener may neither block nor fail. The surprising thing: decisions carry
//! positions instead of names, so that a counter is an index away.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, Uri, Version};

pub use crate::policy::outcome::Outcome;

use crate::bucket::Continuous;
use crate::policy::Policy;
use crate::policy::attempt::Client;
use crate::time::{Span, Time};

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// These rules are in force from now on.
    Rules {
        /// Counts up with every change.
        generation: u64,
        /// The routes and limits to which positions refer.
        policy: &'a Policy,
    },
    /// A limit looked at an attempt.
    Decided {
        /// Which rules the positions refer to.
        generation: u64,
        /// Position of the route.
        route: usize,
        /// Position of the limit.
        limit: usize,
        /// What it said.
        decision: LimitDecision,
    },
    /// An admitted attempt was answered, or not.
    Settled {
        /// Which rules the position refers to.
        generation: u64,
        /// Position of the route.
        route: usize,
        /// What came of it.
        outcome: Outcome,
    },
    /// An answer has left, or the client has.
    RequestCompleted(&'a AccessLogEntry),
    /// A client connected.
    Connected,
    /// A client's connection ended.
    Disconnected,
    /// A client was not let in.
    ConnectionRejected {
        /// Who, if it had an address.
        peer: Option<IpAddr>,
        /// Why.
        reason: RejectReason,
    },
    /// A connection that was idle was closed, because places, descriptors or memory were short.
    ConnectionEvicted,
    /// A body that was being read for its fields was given up, because there was no memory for it.
    BodyRefused,
    /// Accepting failed and is tried again.
    AcceptFailed(&'a std::io::Error),
    /// An upstream failed a request.
    UpstreamFailed {
        /// Its address as configured.
        upstream: &'a str,
        /// How.
        reason: Failure,
    },
    /// An upstream is skipped from now on, or used again.
    UpstreamUp {
        /// Its address as configured.
        upstream: &'a str,
        /// Whether it is used.
        up: bool,
    },
    /// The files of the configuration were read again.
    Reloaded {
        /// Whether they were taken over.
        taken: bool,
        /// What is another by that, in words for people; empty if they were not.
        changes: &'a str,
    },
    /// An operator wants something of the gate as a whole.
    CommandReceived {
        /// What.
        command: OperatorCommand,
        /// Who.
        by: Operator,
    },
    /// A refusal was repeated without asking the store that several gates share.
    Mirrored {
        /// The name of the limit that refused.
        limit: &'a Arc<str>,
    },
    /// The store did not answer, and an attempt was decided without it.
    FellBack(Fallback),
    /// A question to the store was answered, or not.
    StoreCalled {
        /// What became of it.
        result: StoreCallResult,
        /// How long that took.
        took: Span,
    },
    /// The store is asked again from now on, or no more.
    StoreUp {
        /// Whether it is asked.
        up: bool,
        /// Why, in words for people.
        why: &'a str,
    },
    /// Something that an operator should know of the store.
    StoreWarning(&'a str),
    /// An operator did something to single buckets.
    BucketsChanged(BucketsChanged<'a>),
    /// A task panicked; its connection is gone, the others are not.
    Panicked,
}

/// What a limit said to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitDecision {
    /// The tokens were there.
    Admit,
    /// They were not.
    Refuse,
    /// They were not, but the limit only observes.
    Observe,
    /// The limit does not see this client.
    Exempt,
}

/// What was done with an attempt because the store did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// This gate decided by itself.
    Local,
    /// It was admitted.
    Allow,
    /// It was answered 503.
    Deny,
}

/// What became of a question to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreCallResult {
    /// It was answered, and what was to be written is written.
    Ok,
    /// Somebody else had written meanwhile.
    Conflict,
    /// There was no answer in time.
    Timeout,
    /// The answer was an error.
    Error,
}

/// Why a connection was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// `connections`: as many are here as may be, and those that are idle are of clients that hold less.
    Connections,
    /// `client_max`: as many from this prefix are here already.
    ClientMax,
    /// `client_rate`: too many new ones from this prefix.
    ClientRate,
    /// It began TLS and did not come to the end of it.
    Handshake,
    /// It has to begin with a PROXY header, and is not to be believed one.
    UntrustedProxy,
    /// It did not begin with the PROXY header that it has to begin with.
    ProxyHeader,
    /// The gate has used most of the memory that it may use.
    Memory,
    /// The descriptors that are left are kept for connections to the upstreams and for files.
    Descriptors,
}

/// How an upstream failed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// No connection.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The server could not prove who it is.
    Certificate,
    /// No TLS with it.
    Tls,
    /// No answer in time.
    Timeout,
    /// An answer that is not HTTP, or one that broke off.
    Broken,
    /// `upstream_max` connections are busy.
    Busy,
    /// This machine has no descriptor, port or memory for a connection: the upstream is not to blame.
    Exhausted,
}

/// What an operator did to the buckets of a client or an account.
#[derive(Debug, Clone, Copy)]
pub struct BucketsChanged<'a> {
    /// Who.
    pub by: Operator,
    /// To whose buckets.
    pub owner: BucketOwner,
    /// Under which limits.
    pub limits: &'a [Arc<str>],
    /// What.
    pub change: Change,
}

/// Who asked over a Unix socket, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operator {
    /// The user, if the kernel says so.
    pub uid: Option<u32>,
    /// The process, if the kernel says so.
    pub pid: Option<i32>,
}

/// What operators want of the gate as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorCommand {
    /// To read its configuration again.
    Reload,
    /// To finish what is in flight and end.
    Drain,
}

/// Whose buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketOwner {
    /// A client's.
    Client(Client),
    /// An account's: a keyed hash of 48 bits, never its name.
    Account(u64),
}

/// What was done to buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They were given so many tokens.
    Credited(u32),
    /// They are as if they had never been seen.
    Reset,
    /// They have a rate of their own.
    RateGiven {
        /// Which.
        rate: Continuous,
        /// Its end.
        until: Time,
    },
    /// They have none any more.
    RateEnded,
}

/// One request and its answer, as the access log wants it.
#[derive(Debug, Clone)]
pub struct AccessLogEntry {
    /// Who asked.
    pub client: Client,
    /// As sent.
    pub method: Method,
    /// As sent.
    pub target: Uri,
    /// Of the request.
    pub version: Version,
    /// The `Host` as sent.
    pub host: Option<HeaderValue>,
    /// The `Referer` as sent.
    pub referer: Option<HeaderValue>,
    /// The `User-Agent` as sent.
    pub user_agent: Option<HeaderValue>,
    /// The identity of this request.
    pub request_id: Option<HeaderValue>,
    /// Name of the route, if it was an attempt.
    pub route: Option<Arc<str>>,
    /// Name of the first limit that refused, if one did.
    pub refused_by: Option<Arc<str>>,
    /// Of the answer.
    pub status: StatusCode,
    /// Bytes of the answer's body that were handed to the connection.
    pub bytes: u64,
    /// Whether the body was handed over to its end.
    pub complete: bool,
    /// When the head of the request was read.
    pub at: Time,
    /// From then to the end of the answer.
    pub duration: Span,
    /// The part of it that the gate took for itself.
    pub added: Span,
}

/// Hears what happened.
pub trait EventListener: Send + Sync {
    /// Must neither block nor fail.
    fn on_event(&self, event: &Event<'_>);
}

/// Everybody who listens.
#[derive(Clone, Default)]
pub struct Events(Arc<[Arc<dyn EventListener>]>);

impl Events {
    /// Tells everybody.
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
