//! Bucket stores: the memory of this process, or a database that several gates share.
//!
//! A store does one atomic read-modify-write of one bucket; the arithmetic is [`bucket::step`](tollgate_bucket::step) in
//! every store. [`memory`] belongs to this process. A database implements only [`CompareAndSwap`], and [`shared`] makes
//! a store of it; a database that can do the arithmetic may take a step by a [`StepProgram`]. A [`StoreAddress`] is checked without a connection, and a store opens while its database is down: the
//! first call shows whether it is up.

mod address;
mod attempt_probe;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql", feature = "dynamodb"))]
mod backoff;
mod bucket_state;
mod clock_offset;
mod compare_and_swap;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod fleet;
mod limits;
#[cfg(feature = "memcached")]
pub mod memcached;
pub mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
pub mod shared;
pub mod snapshot;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod sql;
mod step_program;
mod store;

pub use self::address::{BadStoreAddress, StoreAddress};
pub use self::attempt_probe::probe_server;
pub use self::compare_and_swap::{
    BadNamespace, Clocked, CompareAndSwap, Namespace, RecordVersion, ServerEntry, ServerId, StoreClock,
    StoreError, StoreFuture, StoreRecord, Stored, Swap, SwapRequest, SwapResults,
};
pub use self::fleet::{
    AuditHash, AuditLogId, AuditSource, Fleet, FleetError, FleetHead, FleetKeys, FollowedAuditLog,
    GateDetails, GateId, GateReport, GateReporter, MAX_ADDED_LEN, MAX_GATES, MAX_HISTORY, MAX_TEXT_LEN,
    NextAuditLine, PolicyAnswer, PolicyEntry, PolicyId, PolicyNote, PolicyRefusal, ReportedGate, SharedAudit,
    SharedAuditLine, StoreHealth,
};
pub use self::limits::{Limiter, Limits, TakenTokens};
pub use self::step_program::{StepOp, StepProgram, StepRate, StepShape, StepSum};
pub use self::store::{
    BucketChange, BucketChangeError, DecidedBy, LimitBuckets, LimitWithdrawal, PendingTake, Store, TakeState,
};

/// How the addresses of all backends begin, in this build or not.
const SCHEMES: [&str; 11] = [
    "redis://",
    "rediss://",
    "redis-cluster://",
    "rediss-cluster://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "memcached://",
    "postgres://",
    "postgresql://",
    "mysql://",
    "dynamodb://",
];

/// The feature that brings the backend of such addresses.
fn feature_of(scheme: &'static str) -> &'static str {
    match scheme.trim_end_matches("://") {
        scheme if scheme.starts_with("redis") => "redis",
        "postgresql" => "postgres",
        scheme => scheme,
    }
}

/// The parser of addresses that begin so; `None` if this build has no backend for it.
fn parser_of(scheme: &str) -> Option<address::ParseAddress> {
    match scheme {
        #[cfg(feature = "redis")]
        "redis://" | "rediss://" | "redis-cluster://" | "rediss-cluster://" | "redis+sentinel://"
        | "rediss+sentinel://" => Some(redis::parse),
        #[cfg(feature = "memcached")]
        "memcached://" => Some(memcached::parse),
        #[cfg(feature = "postgres")]
        "postgres://" | "postgresql://" => Some(postgres::parse),
        #[cfg(feature = "mysql")]
        "mysql://" => Some(mysql::parse),
        #[cfg(feature = "dynamodb")]
        "dynamodb://" => Some(dynamodb::parse),
        _ => None,
    }
}
