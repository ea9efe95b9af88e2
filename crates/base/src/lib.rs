//! What a gate and its stores share: the [clock](time), trusted roots, streams to other servers, and HTTP/1.1 over them.
//!
//! It knows nothing of limits. What only one crate needs does not belong here.

#[cfg(feature = "http")]
pub mod download;
#[cfg(feature = "http")]
pub mod http_client;
#[cfg(feature = "net")]
pub mod stream;
pub mod time;
#[cfg(feature = "net")]
pub mod tls;
