//! Buckets in memcached: `memcached://host:port,host:port`, each key on one of the servers.
//!
//! Speaks the meta commands over a connection of its own to each server; no proxy may stand between, because a connection
//! has to end when the server does. The surprising thing: memcached forgets. What it drops when its memory is full, or when
//! it is started again, are full buckets from then on.

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
    Clocked, CompareAndSwap, Namespace, RecordVersion, StoreClock, StoreError, StoreFuture, StoreRecord,
    Stored, Swap,
};
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(MemcachedAddress(servers::parse(url)?)))
}

struct MemcachedAddress(Vec<MemcachedServer>);

struct Memcached {
    /// As they bid for keys.
    names: Vec<String>,
    /// To the keeper of each.
    senders: Vec<mpsc::Sender<PendingRequest>>,
}

impl Remote for MemcachedAddress {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|error| StoreError::Unreachable(error.to_string()))?;
        let keepers = self.0.iter().map(|server| {
            let (keeper, questions) = mpsc::channel(MAX_WAITING);
            runtime.spawn(reconnect::reconnect_loop(server.clone(), names.clone(), questions));
            keeper
        });
        let names = self.0.iter().map(ToString::to_string).collect();
        Ok(Arc::new(Memcached { names, senders: keepers.collect() }))
    }
}

impl CompareAndSwap for Memcached {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move { Ok(Clocked::without_clock(self.load_value(key).await?)) })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move {
            let swap = match self.call(self.server_of(key), MemcachedRequest::Swap(key, old, new)).await? {
                MemcachedReply::Written(version) => Swap::Done(version),
                MemcachedReply::Gone => Swap::Conflict(None),
                MemcachedReply::Taken => Swap::Conflict(self.load_value(key).await?),
                _ => return Err(wrong_reply()),
            };
            Ok(Clocked::without_clock(swap))
        })
    }

    /// The clock is that of the first server that answers, in the order that all gates have. A server that is away does not
    /// make all of them unreachable; one that does not say whether it is away is waited for.
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let clock = self.all_stats().await?.first().and_then(|(_, stats)| stats.clock());
            Ok(Clocked { value: (), clock: clock.map(StoreClock::Seconds) })
        })
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let all = self.all_stats().await?;
            let mut warnings: Vec<String> =
                all.iter().flat_map(|(name, stats)| stats.warnings(name)).collect();
            let times = || all.iter().map(|(_, stats)| stats.time);
            let apart = times().max().unwrap_or_default() - times().min().unwrap_or_default();
            if apart > 2 {
                warnings.push(format!("the clocks of the memcached servers are {apart} seconds apart"));
            }
            Ok(Clocked::without_clock(warnings))
        })
    }
}

impl Memcached {
    fn server_of(&self, key: Key) -> usize {
        servers::server_of(&self.names, key)
    }

    async fn load_value(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        match self.call(self.server_of(key), MemcachedRequest::Load(key)).await? {
            MemcachedReply::Loaded(stored) => Ok(stored),
            _ => Err(wrong_reply()),
        }
    }

    /// Of those servers that are there; an error if none is.
    async fn all_stats(&self) -> Result<Vec<(&str, Stats)>, StoreError> {
        let asked: Vec<_> =
            (0..self.names.len()).map(|server| self.send(server, MemcachedRequest::Stats)).collect();
        let mut found = Vec::new();
        let mut missing = None;
        for (name, asked) in self.names.iter().zip(asked) {
            match await_reply(asked).await {
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

    async fn call(&self, server: usize, question: MemcachedRequest) -> Result<MemcachedReply, StoreError> {
        await_reply(self.send(server, question)).await
    }

    fn send(&self, server: usize, question: MemcachedRequest) -> Result<ReplyReceiver, StoreError> {
        let (reply, waiting) = oneshot::channel();
        let sent = self.senders[server].try_send(PendingRequest { request: question, reply });
        let away = |why| StoreError::Unreachable(format!("{}: {why}", self.names[server]));
        sent.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => away("too many questions wait for it"),
            mpsc::error::TrySendError::Closed(_) => away(ENDED),
        })?;
        Ok(waiting)
    }
}

type ReplyReceiver = oneshot::Receiver<Result<MemcachedReply, StoreError>>;

async fn await_reply(asked: Result<ReplyReceiver, StoreError>) -> Result<MemcachedReply, StoreError> {
    asked?.await.unwrap_or_else(|_| Err(StoreError::Unreachable(ENDED.to_owned())))
}

/// A reply that does not belong to its question; the connection would have noticed.
fn wrong_reply() -> StoreError {
    StoreError::UnexpectedResponse("the answer to another question".to_owned())
}

const ENDED: &str = "the runtime that it was opened in has ended";
