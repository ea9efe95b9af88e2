//! The keys that requests are signed with: where they come from, and how they are renewed before they end.
//!
//! In Amazon's own order: the address, the environment, the shared file, the container's endpoint, the machine's metadata
//! service. The surprising thing: keys are fetched in a task of their own, so that a caller who gives up does not undo what
//! was begun, and while those at hand still hold nobody waits for the new ones.

mod chain;
mod file;
mod metadata;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(super) use self::chain::KeySourceChain;
use super::sign::AwsKeys;
use crate::store::StoreError;
use crate::time::{Clock, Span, Time};

/// Keys from somewhere.
#[derive(Clone, PartialEq, Eq)]
struct FoundKeys {
    keys: Arc<AwsKeys>,
    /// Not to be used from then on; `None`: they hold.
    until: Option<Time>,
    /// To be looked for again from then on.
    renew: Option<Time>,
}

/// The keys that hold now.
pub(super) struct AwsKeyCache {
    chain: KeySourceChain,
    clock: Clock,
    state: Mutex<KeyCacheState>,
    changed: Notify,
}

#[derive(Default)]
struct KeyCacheState {
    found: Option<FoundKeys>,
    is_refreshing: bool,
    /// The server doubts them.
    is_invalidated: bool,
    failed: String,
    /// When to look again at the earliest.
    next: Time,
}

impl FoundKeys {
    /// Keys that hold until somebody says otherwise.
    fn lasting(keys: AwsKeys) -> Self {
        Self { keys: Arc::new(keys), until: None, renew: None }
    }

    /// Keys that end, found now: renewed five minutes before, or in the middle of a short life.
    fn ending(keys: AwsKeys, now: Time, until: Time) -> Self {
        let half = now.after(Span::from_nanos(until.since(now).as_nanos() / 2));
        Self { keys: Arc::new(keys), until: Some(until), renew: Some(half.max(until.before(AHEAD))) }
    }
}

impl AwsKeyCache {
    pub(super) fn new(chain: KeySourceChain, clock: Clock) -> Arc<Self> {
        Arc::new(Self { chain, clock, state: Mutex::default(), changed: Notify::new() })
    }

    /// Keys that hold now.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Arc<AwsKeys>, StoreError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.try_get()? {
                Some(keys) => return Ok(keys),
                None => changed.await,
            }
        }
    }

    /// The server says that they are not good, or not any more: they are looked for again.
    pub(super) fn invalidate(&self) {
        self.state().is_invalidated = true;
    }

    /// `None` if it is worth waiting.
    fn try_get(self: &Arc<Self>) -> Result<Option<Arc<AwsKeys>>, StoreError> {
        let now = self.clock.now();
        let mut state = self.state();
        let is_due = state.found.as_ref().is_none_or(|found| found.renew.is_some_and(|renew| renew <= now));
        if (is_due || state.is_invalidated) && !state.is_refreshing && now >= state.next {
            state.is_refreshing = true;
            state.is_invalidated = false;
            state.next = now.after(PAUSE);
            tokio::spawn(refresh(Arc::clone(self)));
        }
        match &state.found {
            Some(found) if found.until.is_none_or(|until| now < until) => Ok(Some(Arc::clone(&found.keys))),
            _ if state.is_refreshing => Ok(None),
            _ => Err(StoreError::Refused(state.failed.clone())),
        }
    }

    fn state(&self) -> MutexGuard<'_, KeyCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn refresh(ring: Arc<AwsKeyCache>) {
    let found = ring.chain.find(&ring.clock).await;
    {
        let mut state = ring.state();
        state.is_refreshing = false;
        match found {
            Ok(found) => state.found = Some(found),
            Err(why) => state.failed = why,
        }
    }
    ring.changed.notify_waiters();
}

/// Before keys end, new ones are looked for.
const AHEAD: Span = Span::from_secs(300);
/// Between two looks.
const PAUSE: Span = Span::from_secs(1);

#[cfg(test)]
mod tests;
