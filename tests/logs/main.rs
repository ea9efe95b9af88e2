//! What the gate writes of its decisions, and what `tollgate replay`, `tollgate site report` and `tollgate evidence` make of
//! logs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod decisions;
mod evidence;
mod replay;
mod sites;
