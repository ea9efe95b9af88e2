//! A probe that asks what an attempt asks: of a bucket that no client has.
//!
//! Any other probe finds a database well whose user may not do what attempts do. When it is asked is left to
//! [`shared`](super::shared) and to the commands that look at a store.

use crate::bucket_state::BucketState;
use crate::fleet::FOR_GOOD;
use crate::{CompareAndSwap, RecordVersion, ServerId, StepProgram, StoreError, StoreRecord, Swap};
use tollgate_bucket::{Continuous, Key, Op, Span, Spec, Time, step};

/// Probes a server, then asks what an attempt asks there. `now` is the time at the server, as far as is known.
///
/// # Errors
/// Why attempts cannot use the server.
pub async fn probe_server(
    backend: &dyn CompareAndSwap,
    server: ServerId,
    now: Time,
) -> Result<(), StoreError> {
    backend.probe(server).await?;
    match unused_key(backend, server) {
        Some(key) => backend.probe_attempt(key, now).await.map(drop),
        None => Ok(()),
    }
}

/// A key at this server that no bucket has; `None` if the server holds none, as far as is known.
pub(crate) fn unused_key(backend: &dyn CompareAndSwap, server: ServerId) -> Option<Key> {
    let first = u128::from(RecordVersion::random().0);
    key_at(backend, server, (first..).map(Key))
}

/// The first of these keys that this server has; `None` if the server holds none, as far as is known.
pub(crate) fn key_at(
    backend: &(impl CompareAndSwap + ?Sized),
    server: ServerId,
    keys: impl Iterator<Item = Key>,
) -> Option<Key> {
    // A server that has left its cluster has no key: all of them would be tried.
    let is_known = backend.servers().iter().any(|entry| entry.id == server);
    is_known.then(|| keys.take(MAX_KEYS).find(|key| backend.server_of(*key) == server)).flatten()
}

/// Reads the record of this key, and takes a token there.
pub(crate) async fn probe_attempt(
    backend: &(impl CompareAndSwap + ?Sized),
    key: Key,
    now: Time,
) -> Result<(), StoreError> {
    let old = backend.load(key).await?.value.map(|stored| stored.version);
    let Ok(bucket) = Continuous::new(1, LIFE, 1) else { return Ok(()) };
    let spec = Spec::Continuous(bucket);
    let mut bucket = BucketState::absent(spec);
    // The bucket is full, so the token is there.
    let _ = step(&spec, &mut bucket.state[..spec.words()], now, Op::Take(1));
    let (limit, full_at) = ("probe".into(), bucket.full_at());
    let new = StoreRecord { bytes: bucket.encode(), ttl: LIFE, limit, full_at };
    match StepProgram::new(&spec, [Op::Take(1)], now, now.after(PATIENCE)) {
        Some(program) if backend.can_step(&program.shape) => {
            backend.swap_or_step(key, old, new, program).await.map(drop)
        }
        _ => backend.swap(key, old, new).await.map(drop),
    }
}

/// The version of the record of this key, which is written for good if there is none.
pub(crate) async fn marker(
    backend: &(impl CompareAndSwap + ?Sized),
    key: Key,
) -> Result<RecordVersion, StoreError> {
    if let Some(found) = backend.load(key).await?.value {
        return Ok(found.version);
    }
    let (limit, full_at) = ("marker".into(), Time::default());
    let new = StoreRecord { bytes: b"marker".to_vec(), ttl: FOR_GOOD, limit, full_at };
    match backend.swap(key, None, new).await?.value {
        Swap::Done(version) | Swap::Stepped { version, .. } => Ok(version),
        Swap::Conflict(Some(found)) => Ok(found.version),
        Swap::Conflict(None) => Err(StoreError::WriteConflict),
    }
}

/// How long such a record is needed.
const LIFE: Span = Span::from_millis(1);
/// How late the database may take the token.
const PATIENCE: Span = Span::from_secs(1);
/// More than are needed to find one for a server with a thousandth of the keys.
const MAX_KEYS: usize = 10_000;
