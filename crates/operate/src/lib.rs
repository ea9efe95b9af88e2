//! What a gate tells: metrics, logs, traces, messages and the admin API of what happened, and what the logs of before say that
//! a policy would have refused.
//!
//! It listens to the events of `tollgate-gate` and takes no part in a request. `ARCHITECTURE.md` of `tollgate` says which module
//! may use which.

pub mod observe;
pub mod replay;

use tollgate_base::time;
use tollgate_bucket as bucket;
use tollgate_gate::{defences, engine, event, net};
use tollgate_policy as policy;
use tollgate_store as store;
