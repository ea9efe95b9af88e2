//! Proxies in front of the gate and applications behind it, each the real program: nginx, HAProxy, Caddy, Traefik, Envoy, PHP, Python,
//! Node, Java, uWSGI, gunicorn, php-fpm, Tomcat and Dovecot.
//!
//! Each has to be installed, but for a JDK: a test whose program is missing fails, and says which package brings it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so, prints what it saw, and asks the real clock"
)]

mod applications;
mod certificates;
mod dovecot;
mod endpoints;
mod legacy;
mod proxy_protocol;
