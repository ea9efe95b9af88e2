//! Buckets in Redis or Valkey: one server, or a cluster.
//!
//! A value is a version drawn at random (8 bytes) and the record; one script compares, writes, and brings the clock. The
//! surprising thing: the crate's own managers and its cluster client are left out, because they let a question wait for
//! a connection and try again what may have been written; only its protocol is used, over streams of [`stream`].

mod address;
mod cluster;
mod inspect;
mod line;
mod node;
mod pulse;
mod reply;
mod slots;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use redis::{RedisError, Value};
use tokio::task::JoinSet;

use self::address::{Login, Place};
use self::cluster::Cluster;
use self::node::Node;
use self::reply::{Found, unreachable};
use super::address::Remote;
use super::compare_and_swap::{
    Answer, Asking, CompareAndSwap, Namespace, Record, StoreError, Stored, Swap, Version,
};
use super::tls;
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(Place::parse(url)?))
}

impl Remote for Place {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let tls = match &self.tls {
            Some(roots) => Some(Arc::new(tls::client(roots.as_deref())?)),
            None => None,
        };
        let login = Arc::new(Login { tls, credentials: self.credentials.clone(), database: self.database });
        let servers = match &self.hosts[..] {
            [host] if !self.is_cluster => Servers::One(Node::open(host.clone(), login)),
            hosts => Servers::Many(Cluster::open(hosts, &login)),
        };
        Ok(Arc::new(Redis { names: names.clone(), servers }))
    }
}

/// The buckets of an installation.
struct Redis {
    names: Namespace,
    servers: Servers,
}

enum Servers {
    One(Node),
    Many(Cluster),
}

impl Servers {
    /// Runs the script on the server that has this key.
    async fn run(&self, key: &str, arguments: &[&[u8]]) -> Result<Answer<Found>, StoreError> {
        let value = match self {
            Self::One(node) => {
                let answer = node.line().await?.run(key, arguments, false).await;
                answer.map_err(|error| reply::fault(&error))?
            }
            Self::Many(cluster) => cluster.run(key, arguments).await?,
        };
        reply::found(value)
    }

    /// Asks every server that keys are on, all at once.
    async fn each(&self, question: &'static str) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let lines = match self {
            Self::One(node) => vec![node.line().await?],
            Self::Many(cluster) => cluster.lines().await?,
        };
        let mut asked = JoinSet::new();
        for line in lines {
            asked.spawn(async move { line.ask(&redis::cmd(question)).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asked.join_next().await {
            answers.push(answer.map_err(unreachable)?);
        }
        Ok(answers)
    }
}

impl CompareAndSwap for Redis {
    fn load(&self, key: Key) -> Asking<'_, Option<Stored>> {
        Box::pin(async move {
            let Answer { value, clock } = self.servers.run(&self.names.key(key), &[]).await?;
            Ok(Answer { value: value.stored, clock })
        })
    }

    fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Asking<'_, Swap> {
        Box::pin(async move {
            let version = Version::random();
            let old = old.map(|Version(old)| old.to_be_bytes());
            let value = [&version.0.to_be_bytes()[..], &new.bytes].concat();
            let millis = new.ttl.as_nanos().div_ceil(1_000_000).max(1).to_string();
            let arguments = [old.as_ref().map_or(&[][..], |old| &old[..]), &value, millis.as_bytes()];
            let Answer { value, clock } = self.servers.run(&self.names.key(key), &arguments).await?;
            let came = if value.written { Swap::Done(version) } else { Swap::Lost(value.stored) };
            Ok(Answer { value: came, clock })
        })
    }

    fn probe(&self) -> Asking<'_, ()> {
        Box::pin(async move {
            let mut clock = None;
            // Of a cluster all have to answer: whoever tries one key next cannot know where it is.
            for time in self.servers.each("TIME").await? {
                clock = clock.or(Some(reply::clock(time.map_err(|error| reply::fault(&error))?)?));
            }
            let clock = clock.ok_or_else(|| unreachable("no server of the cluster is known"))?;
            Ok(Answer::at((), clock))
        })
    }

    fn inspect(&self) -> Asking<'_, Vec<String>> {
        Box::pin(async move {
            let mut sentences = Vec::new();
            for info in self.servers.each("INFO").await? {
                match info.and_then(|info| Ok(redis::from_redis_value::<String>(info)?)) {
                    Ok(info) => sentences.extend(inspect::sentences(&info)),
                    Err(error) if error.is_io_error() => return Err(reply::fault(&error)),
                    // Not to be allowed to ask is no fault: then there is nothing to say.
                    Err(_) => {}
                }
            }
            sentences.sort();
            sentences.dedup();
            Ok(Answer::timeless(sentences))
        })
    }
}
