//! The command line through the built program: what people type, what it prints and writes, and its exit codes.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "these are tests")]

mod bad_configuration;
mod cases;
mod detect;
mod explain;
mod import;
mod init;
mod set_up;
mod site;
mod trust;
mod typed;
