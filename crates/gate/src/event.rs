//! The events of a gate: metrics, logs and the dashboard listen to them, and no other code counts or logs.
//!
//! The request path emits an event and goes on: a listener may neither block nor fail. Events carry positions of routes
//! and limits instead of names, so that a counter is one array index away.

mod alarm;
mod attempt;
mod connection;
mod failure;
mod operator;
mod store;

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, Uri, Version};
use ipnet::IpNet;

pub use self::alarm::{AlarmChange, GuessWorked, Trouble, TroubleKind};
pub use self::attempt::{AttemptEnd, AttemptRecord, LimitDecision, LimitRecord, SettledAs};
pub use self::connection::{ConnectionEvent, RejectReason};
pub use self::failure::{BrokenAnswer, Failure};
pub use self::operator::{Operator, OperatorName, OperatorNameError};
pub use self::store::{Fallback, StoreCallResult, StoreChange, StoreEvent};

use crate::bucket::Continuous;
use crate::policy::attempt::Client;
use crate::policy::{DefenceCounter, Mode, Policy};
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
    Settled(SettledAs),
    /// A defence of a route noted something of an attempt that it counts.
    Noted {
        /// What is counted.
        counter: &'static DefenceCounter,
        /// The name of the route.
        route: &'a Arc<str>,
    },
    /// A response was sent, or the client hung up before its end.
    RequestCompleted(&'a AccessLogEntry),
    /// What happened to a connection of a client.
    Connection(ConnectionEvent<'a>),
    /// What happened at the shared store.
    Store(StoreEvent<'a>),
    /// A refused client was offered another attempt, or sent a voucher for one.
    Pardon(PardonResult),
    /// A body that was read for its fields was refused: there is no memory for it.
    BodyRefused,
    /// An attempt names the key of a monitor, but its signature does not hold.
    BadSignature,
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
    /// An upstream had a health check.
    UpstreamChecked {
        /// Its address as configured.
        upstream: &'a str,
        /// Whether it passed.
        passed: bool,
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
        command: OperatorCommand<'a>,
        /// The operator.
        by: Operator,
    },
    /// An operator changed single buckets.
    BucketsChanged(BucketsChanged<'a>),
    /// A caller of the admin API sent a wrong token.
    AdminTokenRejected {
        /// The caller's address.
        peer: IpAddr,
    },
    /// An alarm began or ended on a route.
    Alarm(AlarmChange<'a>),
    /// A stranger signed in after many failures: a guess may have worked.
    GuessWorked(GuessWorked<'a>),
    /// A trouble of the gate as a whole, of which operators are told at once.
    Trouble(Trouble<'a>),
    /// The gate seems to be wired wrongly; said once an hour while it lasts.
    Miswired {
        /// What is wrong, in words for operators.
        warning: &'a str,
    },
    /// The kernel took over clients that it drops, or let them go.
    KernelDrops(KernelDrops),
    /// The kernel did not take such a change: the gate tries again.
    KernelRefused {
        /// The reason.
        why: &'a str,
    },
    /// A task panicked: its connection is closed, the others go on.
    Panicked,
}

/// A change to the clients whose packets the kernel drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelDrops {
    /// Addresses and prefixes that it drops now.
    pub elements: usize,
    /// New ones.
    pub added: usize,
    /// Those that it was told to let go; it forgets others by itself at their end.
    pub removed: usize,
}

/// What became of a pardon: an offer to a refused client, or a voucher for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PardonResult {
    /// A page offered it.
    Offered,
    /// A voucher gave an attempt.
    Redeemed,
    /// A voucher gave nothing: no answer to an offer, used, or beyond the rate.
    Refused,
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

/// An operator's command to the gate as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorCommand<'a> {
    /// Read the configuration again.
    Reload,
    /// Finish the requests in flight and exit.
    Drain,
    /// Exempt these clients from limits for a while.
    Exempt {
        /// The clients.
        prefix: IpNet,
        /// Whether only from limits by address.
        is_of_address_limits: bool,
        /// The end.
        until: Time,
        /// The operator's reason.
        why: &'a str,
    },
    /// End such an exemption.
    EndExemption {
        /// The clients.
        prefix: IpNet,
    },
    /// Refuse all attempts of these clients for a while.
    Ban {
        /// The clients.
        prefix: IpNet,
        /// The end.
        until: Time,
        /// The operator's reason.
        why: &'a str,
    },
    /// End such a ban.
    EndBan {
        /// The clients.
        prefix: IpNet,
    },
    /// Forget a person.
    Forget {
        /// Keyed hashes of the accounts and addresses.
        who: &'a str,
    },
    /// Give limits another mode for a while.
    SetMode {
        /// The limit; `None` stands for all.
        limit: Option<&'a str>,
        /// The mode.
        mode: Mode,
        /// The end; `None` is the next reload.
        until: Option<Time>,
    },
}

/// The owner of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketOwner {
    /// A client.
    Client(Client),
    /// An account: a keyed hash of 48 bits, never its name.
    Account(u64),
    /// Any other key: a keyed hash of 48 bits.
    Key(u64),
}

/// A change to buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// This number of tokens was added.
    Credited(u32),
    /// The buckets are new again: full, without failures and waits.
    Reset,
    /// The buckets have a temporary rate.
    RateGiven {
        /// The rate.
        rate: Continuous,
        /// Its end.
        until: Time,
    },
    /// The buckets have the limit's rate again.
    RateEnded,
    /// The buckets refuse everything.
    Banned {
        /// Until then.
        until: Time,
    },
    /// The buckets are full and refuse nothing more than before the ban.
    BanEnded,
    /// The addresses that the account was known from are forgotten.
    AddressesForgotten,
}

/// One request and its response, for the access log.
#[derive(Debug, Clone)]
pub struct AccessLogEntry {
    /// The client.
    pub client: Client,
    /// Whether it is a request: otherwise nothing of method, target and version was sent.
    pub is_request: bool,
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
    /// What it shows about the wiring of the gate.
    pub signs: WiringSigns,
    /// What the limits said, if it was an attempt.
    pub attempt: Option<Box<AttemptRecord>>,
    /// Its span, if it is part of a distributed trace.
    pub span: Option<Box<RequestSpan>>,
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

impl AccessLogEntry {
    /// A copy in separate memory, before anything was decided: values of a request are slices of its head.
    #[must_use]
    pub fn detached(&self) -> Option<Self> {
        let copy = |value: &HeaderValue| HeaderValue::from_bytes(value.as_bytes()).ok();
        Some(Self {
            target: self.target.to_string().parse().ok()?,
            host: self.host.as_ref().and_then(copy),
            referer: self.referer.as_ref().and_then(copy),
            user_agent: self.user_agent.as_ref().and_then(copy),
            request_id: None,
            ..self.clone()
        })
    }
}

/// The span of a request in a distributed trace (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSpan {
    /// The trace; not zero.
    pub trace_id: u128,
    /// The gate's own span of this request; not zero.
    pub span_id: u64,
    /// The caller's span; `None` if the trace begins here.
    pub parent_id: Option<u64>,
    /// Whether the span is to be exported.
    pub is_sampled: bool,
    /// Whether the client speaks TLS with the gate.
    pub is_secure: bool,
}

/// What a request shows about the wiring of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WiringSigns {
    /// The peer's address, unless the peer is a trusted proxy or a Unix socket.
    pub untrusted_peer: Option<IpAddr>,
    /// Whether such a peer names another client, in `X-Forwarded-For` or `Forwarded`.
    pub names_client: bool,
    /// The address of a trusted proxy that names its client and not the scheme which the client speaks.
    pub schemeless_proxy: Option<IpAddr>,
    /// Whether the request came with a request id that this gate generated.
    pub has_own_id: bool,
    /// Whether it is a form with a password that no route covers.
    pub has_uncovered_password: bool,
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
