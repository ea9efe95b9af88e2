//! Buckets: what each shape promises, and the table that holds them in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod properties;
mod table;
