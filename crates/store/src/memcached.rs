//! Buckets in memcached: `memcached://host:port,host:port`, each key on one of the servers.
//!
//! It speaks the meta commands over one connection to each server. No proxy may stand between, because a connection has
//! to end when the server does. memcached forgets: buckets that it evicts when its memory is full, or loses when it
//! restarts, are full from then on.

mod connection;
mod handshake;
mod reconnect;
mod request;
pub mod response;
mod servers;
mod stats;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use self::connection::{MAX_WAITING, PendingRequest};
use self::request::{MemcachedReply, MemcachedRequest};
use self::servers::MemcachedServer;
use self::stats::Stats;
use super::address::Remote;
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, ServerEntry, ServerId, StoreClock, StoreError,
    StoreFuture, StoreRecord, Stored, Swap,
};
use tollgate_bucket::Key;

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(MemcachedAddress(servers::parse(url)?)))
}

struct MemcachedAddress(Vec<MemcachedServer>);

struct Memcached {
    /// The names of the servers, from which the scores of keys are computed.
    names: Vec<String>,
    /// The request queue of each server.
    senders: Vec<mpsc::Sender<PendingRequest>>,
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
        Ok(Arc::new(Memcached { names, senders: senders.collect() }))
    }
}

impl CompareAndSwap for Memcached {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move { Ok(Clocked::without_clock(self.load_value(key).await?)) })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move {
            let swap = match self.call(self.position_of(key), MemcachedRequest::Swap(key, old, new)).await? {
                MemcachedReply::Written(version) => Swap::Done(version),
                MemcachedReply::Gone => Swap::Conflict(None),
                MemcachedReply::Taken => Swap::Conflict(self.load_value(key).await?),
                _ => return Err(wrong_reply()),
            };
            Ok(Clocked::without_clock(swap))
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

    async fn load_value(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        match self.call(self.position_of(key), MemcachedRequest::Load(key)).await? {
            MemcachedReply::Loaded(stored) => Ok(stored),
            _ => Err(wrong_reply()),
        }
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
        let unreachable = |why| StoreError::unreachable(format_args!("{}: {why}", self.names[server]));
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

/// The error of a reply that does not belong to its request; the connection should have noticed.
fn wrong_reply() -> StoreError {
    StoreError::UnexpectedResponse("the response to another request".to_owned())
}

const ENDED: &str = "the runtime that it was opened in has ended";
