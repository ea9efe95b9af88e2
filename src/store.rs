//! Where buckets live.
//!
//! A store is one atomic read-modify-write of one bucket; what the bucket does is [`bucket::step`](crate::bucket::step)
//! over every store. [`memory`] is the process's own; the others are databases that several gates share, and need to
//! offer nothing but [`CompareAndSwap`]: [`shared`] makes a store of that. The surprising thing: an [`StoreAddress`] is
//! checked without asking anybody, and a store is opened without being there: whether it is shows at the first question.

mod address;
mod compare_and_swap;
#[cfg(feature = "dynamodb")]
mod dynamodb;
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
#[cfg(feature = "tls")]
#[cfg_attr(
    not(any(feature = "redis", feature = "postgres", feature = "dynamodb")),
    allow(dead_code, reason = "the driver of MySQL takes roots only, and makes the rest itself")
)]
mod tls;

pub use self::address::{BadStoreAddress, StoreAddress};
pub use self::compare_and_swap::{
    BadNamespace, Clocked, CompareAndSwap, Namespace, RecordVersion, StoreClock, StoreError, StoreFuture,
    StoreRecord, Stored, Swap,
};

/// How the address of a database is read, by its scheme; `None` if this build knows none of that.
fn parser_of(scheme: &str) -> Option<address::ParseAddress> {
    match scheme {
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis-cluster" => Some(redis::parse),
        #[cfg(feature = "memcached")]
        "memcached" => Some(memcached::parse),
        #[cfg(feature = "postgres")]
        "postgres" => Some(postgres::parse),
        #[cfg(feature = "mysql")]
        "mysql" => Some(mysql::parse),
        #[cfg(feature = "dynamodb")]
        "dynamodb" => Some(dynamodb::parse),
        _ => None,
    }
}
