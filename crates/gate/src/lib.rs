//! What decides on a request and forwards it: sockets, HTTP in and out, the engine, and the optional defences.
//!
//! It is given checked settings and listeners for what happens. It reads no file, keeps no log and has no admin API: that is
//! what `tollgate` adds, whose `ARCHITECTURE.md` says which module may use which.

pub mod defences;
pub mod engine;
pub mod event;
pub mod net;
pub mod proxy;

use tollgate_base::time;
use tollgate_bucket as bucket;
use tollgate_policy as policy;
use tollgate_store as store;
