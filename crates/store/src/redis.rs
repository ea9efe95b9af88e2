//! Buckets in Redis or Valkey: one server, or a cluster.
//!
//! A value is a random version (8 bytes) and the record; one script compares, writes or steps, and returns the clock. The redis
//! crate's connection managers and its cluster client are not used, because they let a request wait for a connection
//! and repeat what may have been written. Only the crate's protocol is used, over the streams of [`stream`].

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
use self::reply::ScriptReply;
use super::address::Remote;
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, StoreError, StoreFuture, StoreRecord, Stored, Swap,
};
use super::step_program::{StepProgram, StepShape};
use super::tls;
use tollgate_bucket::Key;

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(RedisAddress::parse(url)?))
}

impl Remote for RedisAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let tls = match &self.tls {
            Some(roots) => Some(Arc::new(tls::client(roots.as_deref())?)),
            None => None,
        };
        let login = Arc::new(Login { tls, credentials: self.credentials.clone(), database: self.database });
        let topology = match &self.hosts[..] {
            [host] if !self.is_cluster => RedisTopology::Single(Node::open(host.clone(), login)),
            hosts => RedisTopology::Cluster(Cluster::open(hosts, &login)),
        };
        Ok(Arc::new(Redis { namespace: namespace.clone(), topology }))
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

    /// Sends a command to every server that has keys, to all at once.
    async fn call_each(&self, command: &'static str) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let connections = match self {
            Self::Single(node) => vec![node.connection().await?],
            Self::Cluster(cluster) => cluster.connections().await?,
        };
        let mut calls = JoinSet::new();
        for connection in connections {
            calls.spawn(async move { connection.call(&redis::cmd(command)).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = calls.join_next().await {
            answers.push(answer.map_err(StoreError::unreachable)?);
        }
        Ok(answers)
    }
}

impl Redis {
    async fn write(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: Option<Vec<u8>>,
    ) -> Result<Clocked<Swap>, StoreError> {
        let version = RecordVersion::random();
        let old = old.map(|RecordVersion(old)| old.to_be_bytes());
        let value = [&version.0.to_be_bytes()[..], &new.bytes].concat();
        let millis = new.ttl.as_nanos().div_ceil(1_000_000).max(1).to_string();
        let mut arguments = vec![old.as_ref().map_or(&[][..], |old| &old[..]), &value, millis.as_bytes()];
        arguments.extend(program.as_deref());
        let Clocked { value, clock } = self.topology.run(&self.namespace.key(key), &arguments).await?;
        let swap = match value {
            ScriptReply::Written => Swap::Done(version),
            ScriptReply::Stepped(found, now) => Swap::Stepped { found, now, version },
            ScriptReply::Found(stored) => Swap::Conflict(stored),
        };
        Ok(Clocked { value: swap, clock })
    }
}

impl CompareAndSwap for Redis {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move {
            let Clocked { value, clock } = self.topology.run(&self.namespace.key(key), &[]).await?;
            let ScriptReply::Found(stored) = value else { return Err(reply::unexpected()) };
            Ok(Clocked { value: stored, clock })
        })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(self.write(key, old, new, None))
    }

    fn can_step(&self, _shape: &StepShape) -> bool {
        true
    }

    fn swap_or_step(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: StepProgram,
    ) -> StoreFuture<'_, Swap> {
        Box::pin(self.write(key, old, new, Some(program.encode())))
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut clock = None;
            // All servers of a cluster must answer: the server that the next request needs is not known yet.
            for time in self.topology.call_each("TIME").await? {
                clock = clock.or(Some(reply::clock(time.map_err(|error| reply::store_error(&error))?)?));
            }
            let clock = clock.ok_or_else(|| StoreError::unreachable("no server of the cluster is known"))?;
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
                    // A server that forbids `INFO` is no fault: there is nothing to report.
                    Err(_) => {}
                }
            }
            sentences.sort();
            sentences.dedup();
            Ok(Clocked::without_clock(sentences))
        })
    }
}
