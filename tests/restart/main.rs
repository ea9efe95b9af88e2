//! One gate after the other: no request fails, no token is given back, whatever is restarted or read again meanwhile.
//!
//! Everything is real: processes, signals, sockets that are handed on, clients that know nothing of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "and say what they saw")]

#[path = "../tls/authority.rs"]
#[allow(dead_code, reason = "the tests of TLS use the rest")]
mod authority;
#[path = "../http2/frames.rs"]
#[allow(dead_code, reason = "the tests of HTTP/2 use the rest")]
mod frames;
#[path = "../support/mod.rs"]
mod support;

mod encrypted;
mod failures;
mod generations;
mod handover;
mod load;
mod notify;
mod sockets;
mod under_load;
mod units;
