//! Sockets: where connections come from and which of them are admitted.
//!
//! HTTP is left to the proxy. An admitted connection is handed to its worker; a rejected one has cost an accept and a
//! look at a table.

pub mod connection_limit;
pub mod connection_slots;
pub mod connector;
pub mod inherited;
pub mod ip_text;
pub mod listener;
pub mod nftables;
pub mod proxy_protocol;
pub mod shutdown;
pub mod socket_file;
pub mod stream;
pub mod tls;
pub mod tls_stream;
pub mod worker_sockets;

pub use tollgate_base::{download, http_client};
