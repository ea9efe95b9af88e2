//! Buckets in Redis or Valkey: one server, the primary that Sentinels name, or a cluster.
//!
//! A value is a random version (8 bytes) and the record; one script compares, writes or steps, for one key or several, and returns the clock. The redis
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
use super::address::{BadStoreAddress, Remote};
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, ServerEntry, ServerId, StoreClock, StoreError,
    StoreFuture, StoreRecord, Stored, Swap, SwapRequest, SwapResults,
};
use super::step_program::{StepProgram, StepShape};
use tollgate_base::tls::Trust;
use tollgate_bucket::Key;

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, BadStoreAddress> {
    Ok(Arc::new(RedisAddress::parse(url)?))
}

impl Remote for RedisAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let trust = match &self.tls {
            Some(roots) => Some(Trust::from_roots(roots.as_deref())?),
            None => None,
        };
        let login = Arc::new(Login { trust, credentials: self.credentials.clone(), database: self.database });
        let single = |target| RedisTopology::Single(Node::open(target, Arc::clone(&login)));
        let topology = match (&self.kind, &self.hosts[..]) {
            (AddressKind::Single, [host]) => single(Target::Host(host.clone())),
            (AddressKind::Sentinel(primary), hosts) => {
                single(Target::Primary(Sentinels::new(hosts, primary)))
            }
            (_, hosts) => RedisTopology::Cluster(Cluster::open(hosts, &login)),
        };
        Ok(Arc::new(Redis { namespace: namespace.clone(), topology, is_unencrypted: self.is_unencrypted() }))
    }
}

/// The buckets of an installation.
struct Redis {
    namespace: Namespace,
    topology: RedisTopology,
    /// Whether its password can be read on the way.
    is_unencrypted: bool,
}

enum RedisTopology {
    Single(Node),
    Cluster(Cluster),
}

impl RedisTopology {
    /// Runs the script on the server that has this key.
    async fn run(&self, key: String, arguments: &[&[u8]]) -> Result<Clocked<ScriptReply>, StoreError> {
        let (value, is_owner) = match self {
            Self::Single(node) => (run_all(node, &[key], arguments).await?, true),
            Self::Cluster(cluster) => cluster.run(key, arguments).await?,
        };
        let Clocked { mut value, clock } = reply::script_replies(value)?;
        let reply = value.pop().filter(|_| value.is_empty()).ok_or_else(reply::unexpected)?;
        Ok(Clocked { value: reply, clock: clock.filter(|_| is_owner) })
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

/// Runs the script on keys of this server.
async fn run_all(node: &Node, keys: &[String], arguments: &[&[u8]]) -> Result<Value, StoreError> {
    let value = node.connection().await?.run(keys, arguments, false).await;
    value.map_err(|error| reply::store_error(&error))
}

/// What the script is told of one key.
struct ScriptArguments {
    key: String,
    version: RecordVersion,
    /// The expected version, the value, its milliseconds, and the program; empty for none.
    arguments: [Vec<u8>; 4],
}

impl ScriptArguments {
    fn of(SwapRequest { key, old, new, program }: SwapRequest, namespace: &Namespace) -> Self {
        let version = RecordVersion::random();
        let old = old.map_or_else(Vec::new, |RecordVersion(old)| old.to_be_bytes().to_vec());
        let value = [&version.0.to_be_bytes()[..], &new.bytes].concat();
        let millis = new.ttl.as_nanos().div_ceil(1_000_000).max(1).to_string().into_bytes();
        let program = program.map_or_else(Vec::new, |program| program.encode());
        Self { key: namespace.key(key), version, arguments: [old, value, millis, program] }
    }

    fn slices(&self) -> [&[u8]; 4] {
        self.arguments.each_ref().map(|argument| &argument[..])
    }

    fn swap_of(&self, reply: ScriptReply) -> Swap {
        match reply {
            ScriptReply::Written => Swap::Done(self.version),
            ScriptReply::Stepped(found, now) => Swap::Stepped { found, now, version: self.version },
            ScriptReply::Found(stored) => Swap::Conflict(stored),
        }
    }
}

impl Redis {
    async fn write(&self, swap: SwapRequest) -> Result<Clocked<Swap>, StoreError> {
        let asked = ScriptArguments::of(swap, &self.namespace);
        let Clocked { value, clock } = self.topology.run(asked.key.clone(), &asked.slices()).await?;
        Ok(Clocked { value: asked.swap_of(value), clock })
    }

    async fn write_all(&self, swaps: Vec<SwapRequest>) -> Result<Clocked<SwapResults>, StoreError> {
        let RedisTopology::Single(node) = &self.topology else { return Err(reply::unexpected()) };
        let asked: Vec<_> =
            swaps.into_iter().map(|swap| ScriptArguments::of(swap, &self.namespace)).collect();
        let keys: Vec<_> = asked.iter().map(|asked| asked.key.clone()).collect();
        let arguments: Vec<_> = asked.iter().flat_map(ScriptArguments::slices).collect();
        let Clocked { value, clock } = reply::script_replies(run_all(node, &keys, &arguments).await?)?;
        if value.len() != asked.len() {
            return Err(reply::unexpected());
        }
        let swaps = asked.iter().zip(value).map(|(asked, reply)| Ok(asked.swap_of(reply))).collect();
        Ok(Clocked { value: swaps, clock })
    }
}

impl CompareAndSwap for Redis {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move {
            let Clocked { value, clock } = self.topology.run(self.namespace.key(key), &[]).await?;
            let ScriptReply::Found(stored) = value else { return Err(reply::unexpected()) };
            Ok(Clocked { value: stored, clock })
        })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(self.write(SwapRequest { key, old, new, program: None }))
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
        Box::pin(self.write(SwapRequest { key, old, new, program: Some(program) }))
    }

    fn refuses_cheaply(&self) -> bool {
        true
    }

    /// A script of a cluster reaches one slot only, and the keys of an attempt are in several.
    fn can_swap_together(&self, _keys: &[Key]) -> bool {
        matches!(self.topology, RedisTopology::Single(_))
    }

    fn swap_all(&self, swaps: Vec<SwapRequest>) -> StoreFuture<'_, SwapResults> {
        Box::pin(self.write_all(swaps))
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
            let mut sentences = inspect::warn_of_plain_text(self.is_unencrypted);
            for info in self.topology.call_each("INFO").await? {
                match info.and_then(|info| Ok(redis::from_redis_value::<String>(info)?)) {
                    Ok(info) => sentences.extend(inspect::sentences(&info)),
                    Err(error) if error.is_io_error() => return Err(reply::store_error(&error)),
                    // A server that forbids `INFO` is not a fault: there is nothing to report.
                    Err(_) => {}
                }
            }
            sentences.sort();
            sentences.dedup();
            Ok(Clocked::without_clock(sentences))
        })
    }
}
