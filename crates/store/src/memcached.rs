//! Buckets in memcached: `memcached://host:port,host:port`, each key on one of the servers.
//!
//! Attempts that take tokens are appended to the record, so that none of them loses a race (`journal`); all else is
//! compared and swapped. It speaks the meta commands over one connection to each server. No proxy may be between,
//! because a connection has to end when the server does. memcached forgets: buckets that it evicts when its memory is
//! full, or loses when it restarts, are full from then on.

mod connection;
mod handshake;
mod journal;
mod reconnect;
mod request;
pub mod response;
mod servers;
mod stats;

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};

use self::connection::{MAX_WAITING, PendingRequest};
use self::journal::{Journal, Taken, Takes};
use self::request::{MemcachedReply, MemcachedRequest, MemcachedValue};
use self::servers::MemcachedServer;
use self::stats::Stats;
use super::address::{BadStoreAddress, Remote};
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, ServerEntry, ServerId, StoreClock, StoreError,
    StoreFuture, StoreRecord, Stored, Swap, SwapRequest, SwapResults,
};
use super::step_program::{StepProgram, StepShape};
use tollgate_bucket::{Key, Time};

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, BadStoreAddress> {
    Ok(Arc::new(MemcachedAddress(servers::parse(url)?)))
}

struct MemcachedAddress(Vec<MemcachedServer>);

struct Memcached {
    /// The names of the servers, from which the scores of keys are computed.
    names: Vec<String>,
    /// The request queue of each server.
    senders: Vec<mpsc::Sender<PendingRequest>>,
    /// Keys with so many entries that their sum must be written before more are appended.
    long: Mutex<HashSet<Key>>,
}

impl Remote for MemcachedAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(StoreError::unreachable)?;
        let senders = self.0.iter().map(|server| {
            let (sender, requests) = mpsc::channel(MAX_WAITING);
            runtime.spawn(reconnect::reconnect_loop(server.clone(), namespace.clone(), requests));
            sender
        });
        let names = self.0.iter().map(ToString::to_string).collect();
        Ok(Arc::new(Memcached { names, senders: senders.collect(), long: Mutex::default() }))
    }
}

impl CompareAndSwap for Memcached {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move { Ok(Clocked::without_clock(self.load_value(key).await?)) })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move { Ok(Clocked::without_clock(self.swap_value(key, old, new).await?)) })
    }

    fn can_step(&self, _shape: &StepShape) -> bool {
        true
    }

    /// Appends, whatever version is expected. An attempt that comes late takes tokens that no client gets, which errs on the
    /// strict side.
    fn swap_or_step(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: StepProgram,
    ) -> StoreFuture<'_, Swap> {
        Box::pin(async move { Ok(Clocked::without_clock(self.take_or_swap(key, old, new, program).await?)) })
    }

    fn can_swap_together(&self, keys: &[Key]) -> bool {
        keys.windows(2).all(|pair| self.position_of(pair[0]) == self.position_of(pair[1]))
    }

    fn swap_all(&self, swaps: Vec<SwapRequest>) -> StoreFuture<'_, SwapResults> {
        Box::pin(async move {
            let results = all_of(swaps.into_iter().map(|swap| self.swap_one(swap))).await;
            Ok(Clocked::without_clock(results))
        })
    }

    fn servers(&self) -> Vec<ServerEntry> {
        let entry = |(id, name): (u32, &String)| {
            // One alone is the store, and needs no name.
            let name = if self.names.len() > 1 { &name[..] } else { "" };
            ServerEntry { id: ServerId(id), name: name.into() }
        };
        (0..).zip(&self.names).map(entry).collect()
    }

    fn server_of(&self, key: Key) -> ServerId {
        ServerId(u32::try_from(self.position_of(key)).unwrap_or_default())
    }

    fn probe(&self, ServerId(server): ServerId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let server = usize::try_from(server).unwrap_or_default().min(self.names.len() - 1);
            let (stats, written) =
                (self.send(server, MemcachedRequest::Stats), self.send(server, MemcachedRequest::Probe));
            let clock = match await_reply(stats).await? {
                MemcachedReply::Stats(stats) => stats.clock(),
                _ => return Err(wrong_reply()),
            };
            match await_reply(written).await? {
                MemcachedReply::Written(_) => {}
                _ => return Err(wrong_reply()),
            }
            Ok(Clocked { value: (), clock: clock.map(StoreClock::Seconds) })
        })
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let all = self.all_stats().await?;
            let warnings = all.iter().flat_map(|(name, stats)| stats.warnings(name)).collect();
            Ok(Clocked::without_clock(warnings))
        })
    }
}

impl Memcached {
    fn position_of(&self, key: Key) -> usize {
        servers::server_of(&self.names, key)
    }

    async fn swap_one(
        &self,
        SwapRequest { key, old, new, program }: SwapRequest,
    ) -> Result<Swap, StoreError> {
        match program {
            Some(program) => self.take_or_swap(key, old, new, program).await,
            None => self.swap_value(key, old, new).await,
        }
    }

    async fn take_or_swap(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: StepProgram,
    ) -> Result<Swap, StoreError> {
        let is_late = program.now >= program.until;
        match Takes::of(&new, &program).filter(|_| !is_late && !self.long().contains(&key)) {
            Some(takes) => self.take(key, old.is_some(), &takes, program.now).await,
            None => {
                let ttl = new.ttl.max(journal::lifetime(&program));
                self.swap_value(key, old, StoreRecord { ttl, ..new }).await
            }
        }
    }

    async fn swap_value(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
    ) -> Result<Swap, StoreError> {
        match self.call(self.position_of(key), MemcachedRequest::Swap(key, old, new)).await? {
            MemcachedReply::Written(version) => Ok(Swap::Done(version)),
            MemcachedReply::Gone => Ok(Swap::Conflict(None)),
            MemcachedReply::Taken => Ok(Swap::Conflict(self.load_value(key).await?)),
            _ => Err(wrong_reply()),
        }
    }

    /// Appends takes, to a full bucket if there is none, and reads what became of them: all of it is sent at once.
    async fn take(&self, key: Key, exists: bool, takes: &Takes, now: Time) -> Result<Swap, StoreError> {
        let server = self.position_of(key);
        let insert = || self.send(server, MemcachedRequest::Swap(key, None, takes.full.clone()));
        let inserted = (!exists).then(insert);
        let appended = self.send(server, MemcachedRequest::Append(key, takes.bytes.clone()));
        let read = self.send(server, MemcachedRequest::Load(key));
        if let Some(inserted) = inserted {
            await_reply(inserted).await?;
        }
        let is_gone = await_reply(appended).await? == MemcachedReply::Gone;
        let value = value_of(await_reply(read).await?)?;
        match value {
            value if is_gone => Ok(Swap::Conflict(self.stored(key, value))),
            Some(value) => self.taken(key, value, takes, now).await,
            None => Err(StoreError::WriteConflict),
        }
    }

    /// The result of takes that were appended to this value.
    async fn taken(
        &self,
        key: Key,
        value: MemcachedValue,
        takes: &Takes,
        now: Time,
    ) -> Result<Swap, StoreError> {
        match Journal::read(&value.stored.bytes, Some(takes)).map(|journal| journal.taken) {
            Some(Taken::From(found)) => {
                let version = self.keep(key, value, takes, now).await?;
                Ok(Swap::Stepped { found, now, version })
            }
            // Another gate has written the sum before they were read: what they got is not known.
            Some(Taken::Absent) => Err(StoreError::WriteConflict),
            Some(Taken::Void) | None => Ok(Swap::Conflict(self.stored(key, Some(value)))),
        }
    }

    /// Writes the sum of a value that would be gone before its bucket is full, or that has many entries. Returns the
    /// version.
    async fn keep(
        &self,
        key: Key,
        mut value: MemcachedValue,
        takes: &Takes,
        now: Time,
    ) -> Result<RecordVersion, StoreError> {
        for _ in 0..MAX_TRIES {
            let MemcachedValue { stored: Stored { bytes, version }, ttl } = value;
            // The next reader of foreign bytes overwrites them.
            let Some(journal) = Journal::read(&bytes, None) else { return Ok(version) };
            self.note_length(key, journal.entries);
            let must = journal.outlives(ttl, now);
            if !must && journal.entries < MANY {
                return Ok(version);
            }
            let sum = StoreRecord { bytes: journal.record, full_at: journal.full_at, ..takes.full.clone() };
            let written = self.send(self.position_of(key), MemcachedRequest::Swap(key, Some(version), sum));
            if !must {
                // No attempt waits for it, and others try again.
                tokio::spawn(await_reply(written));
                return Ok(version);
            }
            if let MemcachedReply::Written(version) = await_reply(written).await? {
                return Ok(version);
            }
            match value_of(self.call(self.position_of(key), MemcachedRequest::Load(key)).await?)? {
                Some(newer) => value = newer,
                None => return Ok(version),
            }
        }
        Err(StoreError::WriteConflict)
    }

    async fn load_value(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        let reply = self.call(self.position_of(key), MemcachedRequest::Load(key)).await?;
        Ok(self.stored(key, value_of(reply)?))
    }

    /// The record that a value amounts to.
    fn stored(&self, key: Key, value: Option<MemcachedValue>) -> Option<Stored> {
        let Stored { bytes, version } = value?.stored;
        let Some(journal) = Journal::read(&bytes, None) else { return Some(Stored { bytes, version }) };
        self.note_length(key, journal.entries);
        Some(Stored { bytes: journal.record, version })
    }

    fn note_length(&self, key: Key, entries: usize) {
        let mut long = self.long();
        if entries < TOO_MANY {
            long.remove(&key);
        } else if long.len() < MOST_LONG {
            long.insert(key);
        }
    }

    fn long(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stats of all servers that answer; an error if none does.
    async fn all_stats(&self) -> Result<Vec<(&str, Stats)>, StoreError> {
        let calls: Vec<_> =
            (0..self.names.len()).map(|server| self.send(server, MemcachedRequest::Stats)).collect();
        let mut found = Vec::new();
        let mut missing = None;
        for (name, call) in self.names.iter().zip(calls) {
            match await_reply(call).await {
                Ok(MemcachedReply::Stats(stats)) => found.push((&name[..], stats)),
                Ok(_) => return Err(wrong_reply()),
                Err(error) => missing = Some(error),
            }
        }
        match missing {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    async fn call(&self, server: usize, request: MemcachedRequest) -> Result<MemcachedReply, StoreError> {
        await_reply(self.send(server, request)).await
    }

    fn send(&self, server: usize, request: MemcachedRequest) -> Result<ReplyReceiver, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let sent = self.senders[server].try_send(PendingRequest { request, reply });
        let unreachable = |why| StoreError::NotConnected(format!("{}: {why}", self.names[server]));
        sent.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => unreachable("too many requests are queued"),
            mpsc::error::TrySendError::Closed(_) => unreachable(ENDED),
        })?;
        Ok(receiver)
    }
}

type ReplyReceiver = oneshot::Receiver<Result<MemcachedReply, StoreError>>;

async fn await_reply(sent: Result<ReplyReceiver, StoreError>) -> Result<MemcachedReply, StoreError> {
    sent?.await.unwrap_or_else(|_| Err(StoreError::unreachable(ENDED)))
}

fn value_of(reply: MemcachedReply) -> Result<Option<MemcachedValue>, StoreError> {
    match reply {
        MemcachedReply::Loaded(value) => Ok(value),
        _ => Err(wrong_reply()),
    }
}

/// Runs futures at the same time, each polled once before one is waited for.
async fn all_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// The error of a reply that does not belong to its request; the connection should have noticed.
fn wrong_reply() -> StoreError {
    StoreError::UnexpectedResponse("the response to another request".to_owned())
}

const ENDED: &str = "the runtime that it was opened in has ended";
/// From so many entries on a gate that reads them writes their sum.
const MANY: usize = 16;
/// With so many none is appended before the sum is written: then one of all gates that compare and swap wins each round.
const TOO_MANY: usize = 128;
/// Keys to remember of those.
const MOST_LONG: usize = 1_000;
/// How often a value that must be written is tried, if others keep winning.
const MAX_TRIES: usize = 8;
