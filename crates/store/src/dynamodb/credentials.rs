//! The keys that requests are signed with: where they come from, and how they are renewed before they end.
//!
//! The order is Amazon's: the address, the environment, the shared file, the container's endpoint, the instance's
//! metadata service. Keys are fetched in a separate task, so a caller that gives up does not cancel the fetch.
//! While the present keys are valid, no request waits for new ones. Signing is left to [`sign`](super::sign).

mod chain;
mod file;
mod metadata;

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(super) use self::chain::KeySourceChain;
use self::metadata::KeyServiceError;
use super::address::BadServerUrl;
use super::sign::AwsKeys;
use crate::StoreError;
use tollgate_base::time::Clock;
use tollgate_bucket::{Span, Time};

/// Keys from a source.
#[derive(Clone, PartialEq, Eq)]
struct FoundKeys {
    keys: Arc<AwsKeys>,
    /// When they end; `None`: never.
    until: Option<Time>,
    /// When to renew them.
    renew: Option<Time>,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
enum CredentialsError {
    #[error(
        "there are no credentials: neither in the address, nor AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
         nor a shared file, nor a role"
    )]
    NoSource,
    #[error(transparent)]
    Source(#[from] WrongKeySource),
    #[error("the shared file of credentials: {0}")]
    File(io::Error),
    #[error("the shared file of credentials has no keys for the profile `{0}`")]
    NoKeys(String),
    #[error("the profile `{0}` of the shared file has no aws_access_key_id and aws_secret_access_key")]
    IncompleteKeys(String),
    #[error("the container's endpoint of credentials: {0}")]
    Container(KeyServiceError),
    #[error("there are no credentials elsewhere, and the machine's metadata service: {0}")]
    Instance(KeyServiceError),
}

/// What is wrong with the environment that sets up a source.
#[derive(Debug, Clone, thiserror::Error)]
enum WrongKeySource {
    #[error("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SESSION_TOKEN contains invalid characters")]
    Keys,
    #[error("AWS_CONTAINER_CREDENTIALS_FULL_URI: {0}")]
    Container(BadServerUrl),
    #[error(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI: http:// is for addresses of this machine and of Amazon's endpoints"
    )]
    ContainerWithoutTls,
    /// The roots by which to check the container's endpoint.
    #[error("{0}")]
    Roots(String),
    #[error("AWS_EC2_METADATA_SERVICE_ENDPOINT: {0}")]
    Instance(BadServerUrl),
}

/// The keys that are valid now.
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
    /// The server has rejected them.
    is_invalidated: bool,
    failed: String,
    /// The earliest time of the next refresh.
    next: Time,
}

impl FoundKeys {
    /// Keys that do not end.
    fn lasting(keys: AwsKeys) -> Self {
        Self { keys: Arc::new(keys), until: None, renew: None }
    }

    /// Keys that end, found at `now`: renewed five minutes before their end, or in the middle of a short life.
    fn ending(keys: AwsKeys, now: Time, until: Time) -> Self {
        let half = now.after(Span::from_nanos(until.since(now).as_nanos() / 2));
        Self { keys: Arc::new(keys), until: Some(until), renew: Some(half.max(until.before(AHEAD))) }
    }
}

impl AwsKeyCache {
    pub(super) fn new(chain: KeySourceChain, clock: Clock) -> Arc<Self> {
        Arc::new(Self { chain, clock, state: Mutex::default(), changed: Notify::new() })
    }

    /// Keys that are valid now.
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

    /// The server has rejected the keys: they are fetched again.
    pub(super) fn invalidate(&self) {
        self.state().is_invalidated = true;
    }

    /// `None` while keys are being fetched.
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

async fn refresh(cache: Arc<AwsKeyCache>) {
    let found = cache.chain.find(&cache.clock).await;
    {
        let mut state = cache.state();
        state.is_refreshing = false;
        match found {
            Ok(found) => state.found = Some(found),
            Err(why) => state.failed = why.to_string(),
        }
    }
    cache.changed.notify_waiters();
}

/// How long before their end keys are renewed.
const AHEAD: Span = Span::from_secs(300);
/// Between two refreshes.
const PAUSE: Span = Span::from_secs(1);

#[cfg(test)]
mod tests;
