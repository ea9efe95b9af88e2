//! One gate after the other: no request fails, no token is given back, whatever is restarted or read again meanwhile.
//!
//! Everything is real: processes, signals, sockets that are handed on, clients that know nothing of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "and say what they saw")]

mod encrypted;
mod failures;
mod generations;
mod handover;
mod load;
mod notify;
mod reload;
mod snapshot;
mod sockets;
mod under_load;
mod units;
