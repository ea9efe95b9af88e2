//! The HTTP side: reads a request, lets the engine decide, forwards it or refuses it.
//!
//! The hops of a request are a file each, and `service` tells their story; nothing here decides how often anybody
//! may ask.

pub mod answering;
pub mod body;
pub mod client_addr;
pub mod connection;
mod drain;
pub mod error;
mod exchange;
mod forward;
mod forwarded;
pub mod framed;
pub mod header_filter;
pub mod headers;
pub mod ids;
mod pending;
pub mod pulse;
mod readable;
pub mod redirect;
pub mod respond;
pub mod scheme;
pub mod service;
pub mod settings;
pub mod site;
pub mod strict;
pub mod target;
mod tunnel;
mod turnstile;
pub mod upstream;
mod veil;
mod visit;
mod watched;
pub mod worker;
