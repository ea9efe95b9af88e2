//! Buckets in Redis or Valkey: one server, the primary that Sentinels name, or a cluster.
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
mod sentinel;
mod slots;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use redis::{RedisError, Value};
use tokio::task::JoinSet;

use self::address::{AddressKind, Login, RedisAddress};
use self::cluster::Cluster;
use self::node::{Node, Target};
use self::reply::ScriptReply;
use self::sentinel::Sentinels;
use super::address::Remote;
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, ServerEntry, ServerId, StoreClock, StoreError,
    StoreFuture, StoreRecord, Stored, Swap,
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
        let single = |target| RedisTopology::Single(Node::open(target, Arc::clone(&login)));
        let topology = match (&self.kind, &self.hosts[..]) {
            (AddressKind::Single, [host]) => single(Target::Host(host.clone())),
            (AddressKind::Sentinel(primary), hosts) => {
                single(Target::Primary(Sentinels::new(hosts, primary)))
            }
            (_, hosts) => RedisTopology::Cluster(Cluster::open(hosts, &login)),
        };
        Ok(Arc::new(Redis { namespace: namespace.clone(), topology, is_exposed: self.is_exposed() }))
    }
}

/// The buckets of an installation.
struct Redis {
    namespace: Namespace,
    topology: RedisTopology,
    /// Whether its password can be read on the way.
    is_exposed: bool,
}

enum RedisTopology {
    Single(Node),
    Cluster(Cluster),
}

impl RedisTopology {
    /// Runs the script on the server that has this key.
    async fn run(&self, key: &str, arguments: &[&[u8]]) -> Result<Clocked<ScriptReply>, StoreError> {
        let (value, is_owner) = match self {
            Self::Single(node) => {
                let answer = node.connection().await?.run(key, arguments, false).await;
                (answer.map_err(|error| reply::store_error(&error))?, true)
            }
            Self::Cluster(cluster) => cluster.run(key, arguments).await?,
        };
        let reply = reply::script_reply(value)?;
        Ok(Clocked { clock: reply.clock.filter(|_| is_owner), ..reply })
    }

    /// Writes to this server, and returns its time if there is one to tell.
    async fn probe(&self, server: ServerId, prefix: &str) -> Result<Option<Value>, StoreError> {
        match self {
            Self::Single(node) => {
                let time = node.connection().await?.probe(&format!("{prefix}:probe:0")).await;
                time.map(Some).map_err(|error| reply::store_error(&error))
            }
            Self::Cluster(cluster) => cluster.probe(server, prefix).await,
        }
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

    fn servers(&self) -> Vec<ServerEntry> {
        match &self.topology {
            RedisTopology::Single(_) => vec![ServerEntry { id: ServerId::ONLY, name: "".into() }],
            RedisTopology::Cluster(cluster) => cluster.servers(),
        }
    }

    fn server_of(&self, key: Key) -> ServerId {
        match &self.topology {
            RedisTopology::Single(_) => ServerId::ONLY,
            RedisTopology::Cluster(cluster) => cluster.server_of(&self.namespace.key(key)),
        }
    }

    fn probe(&self, server: ServerId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let time = self.topology.probe(server, self.namespace.as_str()).await?;
            let clock = time.map(reply::clock).transpose()?;
            Ok(Clocked { value: (), clock: clock.map(StoreClock::Exact) })
        })
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async move {
            let mut sentences = inspect::exposed(self.is_exposed);
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
