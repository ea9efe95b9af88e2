//! What the gate says of its decisions: the decision log, the summary, the access log, `mode = "observe"`, and the
//! programs that read them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

mod fields;
mod observing;
mod summary;
mod targets;

use std::time::Duration;

use support::{Gate, eventually};

/// Ends the gate, so that everything is written; the messages until then.
fn end(gate: &mut Gate) -> String {
    gate.signal("TERM");
    assert!(gate.exit_status(Duration::from_secs(10)).is_some_and(|status| status.success()));
    // The last words may still be on their way through the pipe.
    eventually(Duration::from_millis(300), || false);
    gate.messages()
}
