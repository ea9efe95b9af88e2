//! tollgate: a reverse proxy that gives sign-in forms exact limits.
//!
//! The library serves the binary, the tests and other Rust programs. It does not print and does not read arguments; the
//! binary does. Imports between layers point downward only: see `ARCHITECTURE.md`, which a test enforces.
//!
//! A program that limits its own calls, over any store and without the proxy, begins at [`store::Limits`].

pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
pub mod event;
pub mod net;
pub mod observe;
pub mod proxy;
pub mod replay;

pub use tollgate_bucket as bucket;
pub use tollgate_policy as policy;
pub use tollgate_store as store;
pub use tollgate_store::time;
