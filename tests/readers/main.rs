//! The readers of requests beside the real ones: PHP, WordPress and hyper; their work is bounded.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

mod bounded_work;
mod graphql;
mod ixr;
mod parsers;
mod php;
mod strict_agrees;
