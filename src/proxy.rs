//! The HTTP side: reads a request, lets the engine decide, forwards it or refuses it.
//!
//! The hops of a request are a file each, and `service` tells their story; nothing here decides how often anybody
//! may ask.

pub mod body;
pub mod connection;
pub mod downstream;
pub mod error;
pub mod headers;
pub mod request;
pub mod respond;
pub mod runtime_config;
pub mod settings;
mod tap;
pub mod transaction;
pub mod upstream;
