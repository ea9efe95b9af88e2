//! Buckets in memcached: `memcached://host:port,host:port`, each key on one of the servers.
//!
//! Speaks the meta commands over a connection of its own to each server; no proxy may stand between, because a connection
//! has to end when the server does. The surprising thing: memcached forgets. What it drops when its memory is full, or when
//! it is started again, are full buckets from then on.

pub mod answer;
mod connection;
mod keeper;
mod meeting;
mod question;
mod servers;
mod stats;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use self::connection::{Asked, MOST_WAITING};
use self::question::{Question, Reply};
use self::servers::Server;
use self::stats::Stats;
use super::address::Remote;
use super::compare_and_swap::{
    Answer, Asking, CompareAndSwap, Namespace, Record, StoreClock, StoreError, Stored, Swap, Version,
};
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(Servers(servers::parse(url)?)))
}

struct Servers(Vec<Server>);

struct Memcached {
    /// As they bid for keys.
    names: Vec<String>,
    /// To the keeper of each.
    keepers: Vec<mpsc::Sender<Asked>>,
}

impl Remote for Servers {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|error| StoreError::Unreachable(error.to_string()))?;
        let keepers = self.0.iter().map(|server| {
            let (keeper, questions) = mpsc::channel(MOST_WAITING);
            runtime.spawn(keeper::keep(server.clone(), names.clone(), questions));
            keeper
        });
        let names = self.0.iter().map(ToString::to_string).collect();
        Ok(Arc::new(Memcached { names, keepers: keepers.collect() }))
    }
}

impl CompareAndSwap for Memcached {
    fn load(&self, key: Key) -> Asking<'_, Option<Stored>> {
        Box::pin(async move { Ok(Answer::timeless(self.load_value(key).await?)) })
    }

    fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Asking<'_, Swap> {
        Box::pin(async move {
            let swap = match self.ask(self.keeper(key), Question::Swap(key, old, new)).await? {
                Reply::Written(version) => Swap::Done(version),
                Reply::Gone => Swap::Lost(None),
                Reply::Taken => Swap::Lost(self.load_value(key).await?),
                _ => return Err(mixed_up()),
            };
            Ok(Answer::timeless(swap))
        })
    }

    /// The clock is that of the first server that answers, in the order that all gates have. A server that is away does not
    /// make all of them unreachable; one that does not say whether it is away is waited for.
    fn probe(&self) -> Asking<'_, ()> {
        Box::pin(async move {
            let clock = self.all_stats().await?.first().and_then(|(_, stats)| stats.clock());
            Ok(Answer { value: (), clock: clock.map(StoreClock::Seconds) })
        })
    }

    fn inspect(&self) -> Asking<'_, Vec<String>> {
        Box::pin(async move {
            let all = self.all_stats().await?;
            let mut warnings: Vec<String> =
                all.iter().flat_map(|(name, stats)| stats.warnings(name)).collect();
            let times = || all.iter().map(|(_, stats)| stats.time);
            let apart = times().max().unwrap_or_default() - times().min().unwrap_or_default();
            if apart > 2 {
                warnings.push(format!("the clocks of the memcached servers are {apart} seconds apart"));
            }
            Ok(Answer::timeless(warnings))
        })
    }
}

impl Memcached {
    fn keeper(&self, key: Key) -> usize {
        servers::keeper(&self.names, key)
    }

    async fn load_value(&self, key: Key) -> Result<Option<Stored>, StoreError> {
        match self.ask(self.keeper(key), Question::Load(key)).await? {
            Reply::Loaded(stored) => Ok(stored),
            _ => Err(mixed_up()),
        }
    }

    /// Of those servers that are there; an error if none is.
    async fn all_stats(&self) -> Result<Vec<(&str, Stats)>, StoreError> {
        let asked: Vec<_> = (0..self.names.len()).map(|server| self.send(server, Question::Stats)).collect();
        let mut found = Vec::new();
        let mut missing = None;
        for (name, asked) in self.names.iter().zip(asked) {
            match heard(asked).await {
                Ok(Reply::Stats(stats)) => found.push((&name[..], stats)),
                Ok(_) => return Err(mixed_up()),
                Err(error) => missing = Some(error),
            }
        }
        match missing {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    async fn ask(&self, server: usize, question: Question) -> Result<Reply, StoreError> {
        heard(self.send(server, question)).await
    }

    fn send(&self, server: usize, question: Question) -> Result<Waiting, StoreError> {
        let (reply, waiting) = oneshot::channel();
        let sent = self.keepers[server].try_send(Asked { question, reply });
        let away = |why| StoreError::Unreachable(format!("{}: {why}", self.names[server]));
        sent.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => away("too many questions wait for it"),
            mpsc::error::TrySendError::Closed(_) => away(ENDED),
        })?;
        Ok(waiting)
    }
}

type Waiting = oneshot::Receiver<Result<Reply, StoreError>>;

async fn heard(asked: Result<Waiting, StoreError>) -> Result<Reply, StoreError> {
    asked?.await.unwrap_or_else(|_| Err(StoreError::Unreachable(ENDED.to_owned())))
}

/// A reply that does not belong to its question; the connection would have noticed.
fn mixed_up() -> StoreError {
    StoreError::Garbled("the answer to another question".to_owned())
}

const ENDED: &str = "the runtime that it was opened in has ended";
