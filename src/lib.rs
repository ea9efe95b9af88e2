//! tollgate: a reverse proxy that gives sign-in forms exact limits.
//!
//! An attempt takes a token from a bucket. If the bucket is empty, the answer is `429` with the exact `Retry-After`, and
//! the application never sees the attempt. The folder `docs` is for people who run a gate. This page is for programs:
//! the library serves the binary, the tests and other Rust programs. It does not print and does not read arguments; the
//! binary does.
//!
//! # A program's own limits
//!
//! [`store::Limits`] has the gate's limits without its proxy, over any store:
//!
//! ```
//! use tollgate::bucket::{Continuous, Span, Spec};
//! use tollgate::store::Limits;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // Or "redis://127.0.0.1:6379", or any other value of a gate's `store.url`.
//! let limits = Limits::open(&"memory:".parse()?)?;
//! // Ten tokens in five minutes, into a bucket that holds two.
//! let rate = Continuous::new(10, Span::from_secs(300), 2)?;
//! let logins = limits.limiter("logins", Spec::Continuous(rate))?;
//!
//! assert!(logins.take("anna", 1).await?.is_admitted());
//! assert!(logins.take("anna", 1).await?.is_admitted());
//! let third = logins.take("anna", 1).await?;
//! assert!(!third.is_admitted());
//! // A token comes back every 30 seconds.
//! assert!(third.wait().is_some_and(|wait| wait <= Span::from_secs(30)));
//! assert!(logins.take("bert", 1).await?.is_admitted());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # A gate's file
//!
//! [`config::load`] checks a file as `tollgate check` does, and finds all mistakes at once:
//!
//! ```
//! use tollgate::config::{Sources, load};
//!
//! let file = r#"
//! listen   = "http://[::]:8080"
//! upstream = "http://127.0.0.1:8081"
//!
//! [route.login]
//! match = "POST /login"
//!
//! [limit.address]
//! rate = "10 per 5m"
//! "#;
//! assert!(load(&Sources::from_text("gate.toml", file)).config.is_some());
//!
//! let misspelt = file.replace("rate =", "rte =");
//! let loaded = load(&Sources::from_text("gate.toml", &misspelt));
//! assert!(loaded.config.is_none() && !loaded.diagnostics.is_empty());
//! ```
//!
//! # Where things are
//!
//! - [`bucket`]: the arithmetic of one bucket, without a clock and without a store.
//! - [`policy`]: which requests are attempts, and which buckets they pay from.
//! - [`store`]: buckets in memory and in databases. [`engine`] decides over them.
//! - [`config`]: the file. [`replay`]: what it would have refused, by access logs.
//! - [`net`], [`proxy`], [`observe`], [`app`] and [`cli`]: sockets, HTTP, logs and metrics, the life of a gate, the command
//!   line.
//!
//! Imports between layers point downward only: see `ARCHITECTURE.md`, which a test enforces.

pub mod app;
pub mod cli;
pub mod config;

pub use tollgate_base::time;
pub use tollgate_bucket as bucket;
use tollgate_gate::defences;
pub use tollgate_gate::{engine, event, net, proxy};
pub use tollgate_operate::{observe, replay};
pub use tollgate_policy as policy;
pub use tollgate_store as store;
