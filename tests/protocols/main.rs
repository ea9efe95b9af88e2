//! What clients and upstreams are spoken to in: TLS, HTTP/2 and the PROXY protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod http1;
mod http2;
mod proxy_protocol;
mod slow;
mod tls;
