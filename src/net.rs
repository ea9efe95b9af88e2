//! Sockets: where connections come from and which of them get in.
//!
//! Nothing here knows HTTP. A connection that is let in is handed to whoever listens; one that is not has cost an
//! accept and a look at a table.

pub mod connection_limit;
pub mod connection_slots;
pub mod connector;
mod eviction;
pub mod inherited;
pub mod listener;
pub mod overload;
pub mod proxy_protocol;
pub mod shutdown;
pub mod stream;
pub mod tls;
pub mod worker_sockets;
