//! Sockets: where connections come from and which of them get in.
//!
//! Nothing here knows HTTP. A connection that is let in is handed to whoever listens; one that is not has cost an
//! accept and a look at a table.

pub mod connector;
mod eviction;
pub mod guard;
pub mod inherited;
pub mod listener;
pub mod places;
pub mod proxy_protocol;
pub mod room;
pub mod shutdown;
pub mod stream;
pub mod tls;
