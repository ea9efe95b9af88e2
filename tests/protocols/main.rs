//! How the gate speaks to clients and upstreams: HTTP/1, HTTP/2, TLS and the PROXY protocol, and what it forwards unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod forwarding;
mod health;
mod http1;
mod http2;
mod moving;
mod passed_certificates;
mod proxy_protocol;
mod slow;
mod tls;
mod without_ipv6;
