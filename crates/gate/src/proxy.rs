//! The HTTP side: reads a request, lets the engine decide, forwards it or refuses it.
//!
//! `transaction::service` runs the steps of a request in order. Rate limits are the engine's.

pub mod body;
mod buffered_socket;
pub mod connection;
pub mod downstream;
pub mod endpoint;
pub mod error;
mod grpc;
pub mod headers;
pub mod request;
pub mod respond;
pub mod runtime_config;
pub mod settings;
mod tap;
pub mod transaction;
pub mod upstream;
