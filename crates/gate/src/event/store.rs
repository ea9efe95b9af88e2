//! What events say of a shared store.
//!
//! The store itself is in a lower layer and does not know them; [`store_observer`](crate::engine::store_observer)
//! translates.

use std::sync::Arc;

use crate::time::Span;

/// What happened at a shared store, or without it.
#[derive(Debug)]
pub enum StoreEvent<'a> {
    /// A refusal was repeated from the mirror, without a call to the shared store.
    Mirrored {
        /// The name of the limit that refused.
        limit: &'a Arc<str>,
    },
    /// A lease of a bucket of this limit admitted an attempt, without a call to the store.
    Leased(&'a Arc<str>),
    /// Writes of other gates to a bucket of this limit won until an operation had no time left.
    RaceLost(&'a Arc<str>),
    /// The store did not reply, and an attempt was decided without it.
    FellBack(Fallback),
    /// A call to the store ended.
    Called {
        /// The result.
        result: StoreCallResult,
        /// The duration of the call.
        took: Span,
    },
    /// A server of the store became unavailable, or available again.
    Up(StoreChange<'a>),
    /// The same for people to read: at most once a minute for each server and direction.
    Report(StoreChange<'a>),
    /// A server of the store that is unavailable still fails, or one that is available refuses attempts: at most once a
    /// minute for each server.
    Failed(StoreChange<'a>),
    /// The store has a server no more.
    ServerLeft {
        /// Its name.
        server: &'a str,
        /// Whether the other servers are available.
        is_store_up: bool,
    },
    /// The store has a warning for the operator.
    Warning(&'a str),
}

/// A server of the store that calls go to from now on, or do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreChange<'a> {
    /// Its name; empty if the store has one server only.
    pub server: &'a str,
    /// Whether it is available.
    pub up: bool,
    /// Whether all servers of the store are available.
    pub is_store_up: bool,
    /// The reason, in words for operators.
    pub why: &'a str,
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
    /// The store takes no more requests about this bucket at present.
    Throttled,
    /// The store replied with an error.
    Error,
}
