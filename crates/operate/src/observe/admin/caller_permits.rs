//! How many callers of one listener are served at once, in all and from one address.
//!
//! A caller from elsewhere may hold a share only, so that it cannot keep the readers of health and metrics out. Callers on
//! this machine share all of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::policy::key::PrefixLengths;

/// The permits of one listener.
#[derive(Debug, Clone)]
pub(super) struct CallerPermits {
    all: Arc<Semaphore>,
    held: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A permit of one caller, free again when it is dropped.
#[derive(Debug)]
pub(super) struct CallerPermit {
    permits: CallerPermits,
    /// The prefix that it counts for.
    prefix: Option<IpAddr>,
    _one_of_all: Option<OwnedSemaphorePermit>,
}

impl CallerPermits {
    /// Waits until a permit is free.
    pub(super) async fn acquire(&self) -> CallerPermit {
        // Never closed, so a permit always comes.
        let one_of_all = Arc::clone(&self.all).acquire_owned().await.ok();
        CallerPermit { permits: self.clone(), prefix: None, _one_of_all: one_of_all }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CallerPermits {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_CALLERS)), held: Arc::default() }
    }
}

impl CallerPermit {
    /// Counts it for this peer; `None` if the peer has its share already.
    pub(super) fn of(mut self, peer: IpAddr) -> Option<Self> {
        if peer.is_loopback() {
            return Some(self);
        }
        let prefix = PrefixLengths::default().mask(peer);
        let mut held = self.permits.held();
        let count = held.entry(prefix).or_default();
        if *count >= MAX_CALLERS_FROM_ONE {
            return None;
        }
        *count += 1;
        drop(held);
        self.prefix = Some(prefix);
        Some(self)
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        let Some(prefix) = self.prefix else { return };
        let mut held = self.permits.held();
        if let Some(count) = held.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                held.remove(&prefix);
            }
        }
    }
}

/// Callers of one listener at once.
pub(super) const MAX_CALLERS: usize = 64;
/// Callers at once from one prefix of another machine.
const MAX_CALLERS_FROM_ONE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caller_from_elsewhere_gets_a_share_and_one_on_this_machine_all() {
        let permits = CallerPermits::default();
        let (far, near) = (IpAddr::from([192, 0, 2, 7]), IpAddr::from([127, 0, 0, 1]));
        let mut taken = Vec::new();
        for _ in 0..MAX_CALLERS_FROM_ONE {
            taken.push(permits.acquire().await.of(far).unwrap());
        }
        assert!(permits.acquire().await.of(far).is_none());
        for _ in MAX_CALLERS_FROM_ONE..MAX_CALLERS {
            taken.push(permits.acquire().await.of(near).unwrap());
        }
        taken.truncate(MAX_CALLERS_FROM_ONE - 1);
        assert!(permits.acquire().await.of(far).is_some());
        taken.clear();
        assert!(permits.held().is_empty());
    }
}
