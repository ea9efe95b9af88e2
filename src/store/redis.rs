//! Buckets in Redis or Valkey: one server, or a cluster.
//!
//! A value is a version drawn at random (8 bytes) and the record; one script compares, writes, and brings the clock. The
//! surprising thing: the crate's own managers and its cluster client are left out, because they let a question wait for
//! a connection and try again what may have been written; only its protocol is used, over streams of [`stream`].

mod address;
mod cluster;
mod connection;
mod inspect;
mod liveness;
mod node;
mod reply;
mod slots;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use redis::{RedisError, Value};
use tokio::task::JoinSet;

use self::address::{Login, RedisAddress};
use self::cluster::Cluster;
use self::node::Node;
use self::reply::{ScriptReply, unreachable};
use super::address::Remote;
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, StoreError, StoreFuture, StoreRecord, Stored, Swap,
};
use super::tls;
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(RedisAddress::parse(url)?))
}

impl Remote for RedisAddress {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let tls = match &self.tls {
            Some(roots) => Some(Arc::new(tls::client(roots.as_deref())?)),
            None => None,
        };
        let login = Arc::new(Login { tls, credentials: self.credentials.clone(), database: self.database });
        let servers = match &self.hosts[..] {
            [host] if !self.is_cluster => RedisTopology::Single(Node::open(host.clone(), login)),
            hosts => RedisTopology::Cluster(Cluster::open(hosts, &login)),
        };
        Ok(Arc::new(Redis { namespace: names.clone(), topology: servers }))
    }
}

/// The buckets of an installation.
struct Redis {
    namespace: Namespace,
    topology: RedisTopology,
}

enum RedisTopology {
    Single(Node),
    Cluster(Cluster),
}

impl RedisTopology {
    /// Runs the script on the server that has this key.
    async fn run(&self, key: &str, arguments: &[&[u8]]) -> Result<Clocked<ScriptReply>, StoreError> {
        let value = match self {
            Self::Single(node) => {
                let answer = node.connection().await?.run(key, arguments, false).await;
                answer.map_err(|error| reply::store_error(&error))?
            }
            Self::Cluster(cluster) => cluster.run(key, arguments).await?,
        };
        reply::script_reply(value)
    }

    /// Asks every server that keys are on, all at once.
    async fn call_each(&self, question: &'static str) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let lines = match self {
            Self::Single(node) => vec![node.connection().await?],
            Self::Cluster(cluster) => cluster.connections().await?,
        };
        let mut asked = JoinSet::new();
        for line in lines {
            asked.spawn(async move { line.call(&redis::cmd(question)).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asked.join_next().await {
            answers.push(answer.map_err(unreachable)?);
        }
        Ok(answers)
    }
}

impl CompareAndSwap for Redis {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move {
            let Clocked { value, clock } = self.topology.run(&self.namespace.key(key), &[]).await?;
            Ok(Clocked { value: value.stored, clock })
        })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move {
            let version = RecordVersion::random();
            let old = old.map(|RecordVersion(old)| old.to_be_bytes());
            let value = [&version.0.to_be_bytes()[..], &new.bytes].concat();
            let millis = new.ttl.as_nanos().div_ceil(1_000_000).max(1).to_string();
            let arguments = [old.as_ref().map_or(&[][..], |old| &old[..]), &value, millis.as_bytes()];
            let Clocked { value, clock } = self.topology.run(&self.namespace.key(key), &arguments).await?;
            let came = if value.written { Swap::Done(version) } else { Swap::Conflict(value.stored) };
            Ok(Clocked { value: came, clock })
        })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut clock = None;
            // Of a cluster all have to answer: whoever tries one key next cannot know where it is.
            for time in self.topology.call_each("TIME").await? {
                clock = clock.or(Some(reply::clock(time.map_err(|error| reply::store_error(&error))?)?));
            }
            let clock = clock.ok_or_else(|| unreachable("no server of the cluster is known"))?;
            Ok(Clocked::with_clock((), clock))
        })
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let mut sentences = Vec::new();
            for info in self.topology.call_each("INFO").await? {
                match info.and_then(|info| Ok(redis::from_redis_value::<String>(info)?)) {
                    Ok(info) => sentences.extend(inspect::sentences(&info)),
                    Err(error) if error.is_io_error() => return Err(reply::store_error(&error)),
                    // Not to be allowed to ask is no fault: then there is nothing to say.
                    Err(_) => {}
                }
            }
            sentences.sort();
            sentences.dedup();
            Ok(Clocked::without_clock(sentences))
        })
    }
}
