//! What the black-box tests share: a running gate, an upstream that keeps every byte, a client that sends any byte.
//!
//! Nothing here is a mock: the gate is the built binary in a process of its own, and everything else speaks over
//! real sockets on 127.0.0.0/8. None of it uses an HTTP library, so a bug in the gate's HTTP library cannot hide
//! itself.

#![allow(
    missing_docs,
    clippy::new_without_default,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, and asks the real clock"
)]

pub mod application;
pub mod authority;
pub mod bucket;
mod client;
mod clock;
pub mod decisions;
pub mod dice;
pub mod endpoint;
mod folder;
pub mod frames;
mod gate;
mod own_process;
pub mod policy;
pub mod polite;
mod processor;
pub mod program;
pub mod servers;
mod signals;
pub mod sites;
mod strict;
mod upstream;

use std::time::{Duration, Instant};

pub use client::{Answer, Client, Encrypted, read_some};
pub use clock::{Clocks, Shift};
pub use folder::{Folder, Said};
pub use gate::{Gate, Launch, Stdout, check_file, free_port, new_directory};
pub use own_process::in_own_process;
pub use processor::time_of_threads;
pub use program::{binary, compile, copy_program, installed, root};
pub use servers::{Server, started};
pub use signals::{signal, signal_group};
pub use strict::{Ambiguity, Recorded, Request, parse};
pub use upstream::{Reply, Upstream};

/// One attempt an hour at the sign-in form of each client: a bucket that one POST drains for good.
pub const ONE_AN_HOUR: &str = r#"
[route.login]
match = "POST /login"

[limit.address]
rate = "1 per 1h"
"#;

/// Asks until it is so, or until the time is over; for what another process does in its own time.
pub fn eventually(at_most: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + at_most;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        // There is nothing to wait on: the state of another process is asked for.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A POST of a form with this body to this target.
pub fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: app.test\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A POST without a body and with these header lines (each ended by CRLF).
pub fn post_with(target: &str, lines: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: app.test\r\n{lines}Content-Length: 0\r\n\r\n")
}

/// A GET with these header lines (each ended by CRLF).
pub fn get_with(target: &str, lines: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: app.test\r\n{lines}\r\n")
}

/// No word about the program or about the place where it runs.
pub fn assert_clean(answer: &Answer, secrets: &[&str]) {
    assert_eq!(
        (answer.header("server"), answer.header("x-powered-by"), answer.header("via")),
        (None, None, None)
    );
    let shown = format!("{:?} {}", answer.headers, answer.text());
    for word in secrets.iter().copied().chain(["hyper", "panicked", "backtrace", env!("CARGO_PKG_VERSION")]) {
        assert!(!shown.contains(word), "{word:?} in {shown}");
    }
}
