//! Sentinels: servers that know which server is the primary now.
//!
//! They are asked before every connection to the primary, one after the other, and the next attempt begins with another
//! one: a Sentinel that was cut off may still name the old primary. The connection that ends with a failover is left to
//! [`node`](super::node).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::Value;
use tokio::time::timeout;

use super::address::{Host, Login};
use super::connection::ask_once;
use super::reply::unexpected;
use crate::compare_and_swap::StoreError;

/// The Sentinels of a primary.
pub(super) struct Sentinels {
    hosts: Vec<Host>,
    /// The name that they have for the primary.
    primary: String,
    next: AtomicUsize,
}

impl Sentinels {
    /// These Sentinels; at least one.
    pub(super) fn new(hosts: &[Host], primary: &str) -> Self {
        Self { hosts: hosts.to_vec(), primary: primary.to_owned(), next: AtomicUsize::new(0) }
    }

    /// The primary that the first Sentinel to answer names.
    pub(super) async fn primary(&self, login: &Login) -> Result<Host, StoreError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut last = StoreError::unreachable("no Sentinel is known");
        for at in 0..self.hosts.len() {
            let host = &self.hosts[first.wrapping_add(at) % self.hosts.len()];
            match timeout(SENTINEL_TIMEOUT, self.ask(host, login)).await {
                Ok(Ok(primary)) => return Ok(primary),
                Ok(Err(error)) => last = error,
                Err(_) => last = StoreError::unreachable(format_args!("the Sentinel {host} does not answer")),
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &Host, login: &Login) -> Result<Host, StoreError> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.primary);
        match ask_once(host, login, &command).await? {
            Value::Array(parts) => read(&parts).ok_or_else(unexpected),
            _ => Err(StoreError::Refused(format!("the Sentinel {host} knows no primary of this name"))),
        }
    }
}

/// Reads a name and a port.
fn read(parts: &[Value]) -> Option<Host> {
    let [Value::BulkString(name), Value::BulkString(port)] = parts else { return None };
    let text = |bytes| str::from_utf8(bytes).ok();
    Some(Host { name: Arc::from(text(name)?), port: text(port)?.parse().ok()? })
}

/// How long one Sentinel may take before another is asked.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(300);
