//! What events say of a shared store.
//!
//! The store itself is in a lower layer and does not know them; [`store_observer`](crate::engine::store_observer)
//! translates.

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
