//! A cluster: the owner of each slot, and a connection to each server.
//!
//! The slots are read again when one has moved or a server cannot be reached. A redirected request is sent again
//! elsewhere, because the server that redirects it has written nothing. Connections are left to [`node`](super::node),
//! the reading of slots to [`slots`](super::slots).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::address::{Host, Login};
use super::connection::RedisConnection;
use super::node::{self, Node, Target};
use super::reply::store_error;
use super::slots::{Slots, redirected, slot};
use crate::compare_and_swap::{ServerEntry, ServerId, StoreError};

/// A cluster.
pub(super) struct Cluster {
    inner: Arc<ClusterInner>,
    /// The result of reading the slots; once they are known, they stay known.
    slots_known: watch::Receiver<Option<Result<(), StoreError>>>,
    task: AbortHandle,
}

struct ClusterInner {
    seeds: Vec<Host>,
    login: Arc<Login>,
    map: Mutex<ClusterMap>,
    stale: Notify,
}

#[derive(Default)]
struct ClusterMap {
    slots: Slots,
    nodes: HashMap<Host, Arc<Node>>,
    /// The numbers of the owners.
    ids: HashMap<Host, ServerId>,
    last_id: u32,
    /// Keys for probes, one that each owner has.
    probe_keys: HashMap<ServerId, Option<String>>,
}

impl Cluster {
    /// Starts to read the slots from these servers.
    pub(super) fn open(seeds: &[Host], login: &Arc<Login>) -> Self {
        let inner = ClusterInner {
            seeds: seeds.to_vec(),
            login: Arc::clone(login),
            map: Mutex::default(),
            stale: Notify::new(),
        };
        let inner = Arc::new(inner);
        let (sender, slots_known) = watch::channel(None);
        let task = tokio::spawn(refresh_loop(Arc::clone(&inner), sender)).abort_handle();
        Self { inner, slots_known, task }
    }

    /// The servers that have slots. The number [`ONLY`](ServerId::ONLY) stands for slots that none has, as far as is
    /// known.
    pub(super) fn servers(&self) -> Vec<ServerEntry> {
        self.inner.map().servers()
    }

    /// The server that has this key.
    pub(super) fn server_of(&self, key: &str) -> ServerId {
        let mut map = self.inner.map();
        let owner = map.slots.owner(slot(key)).cloned();
        owner.map_or(ServerId::ONLY, |owner| map.id_of(owner))
    }

    /// Writes to this server, and returns its time.
    pub(super) async fn probe(&self, server: ServerId, prefix: &str) -> Result<Option<Value>, StoreError> {
        self.await_slots().await?;
        let (target, are_complete) = self.inner.probe_target(server, prefix);
        let Some((node, key)) = target else {
            if server == ServerId::ONLY && are_complete {
                return Ok(None);
            }
            self.inner.stale.notify_one();
            if server == ServerId::ONLY {
                return Err(StoreError::NotConnected("no server of the cluster has these slots".to_owned()));
            }
            return Err(moved("no key for a probe of this server is known"));
        };
        let connection = node.connection().await.inspect_err(|_| self.inner.stale.notify_one())?;
        let time = connection.probe(&key).await.inspect_err(|_| self.inner.stale.notify_one());
        time.map(Some).map_err(|error| match error.code() {
            Some(code @ ("MOVED" | "ASK")) => moved(code),
            _ => store_error(&error),
        })
    }

    /// Runs the script on the server that has this key. Also tells whether that server owns the key's slot: while the
    /// slot is being moved it may be another one.
    pub(super) async fn run(&self, key: String, arguments: &[&[u8]]) -> Result<(Value, bool), StoreError> {
        self.await_slots().await?;
        let slot = slot(&key);
        let keys = [key];
        let mut asking = false;
        let mut node = self.inner.owner(slot)?;
        for _ in 0..MAX_REDIRECTIONS {
            let connection = node.connection().await.inspect_err(|_| self.inner.stale.notify_one())?;
            let error = match connection.run(&keys, arguments, asking).await {
                Ok(value) => return Ok((value, !asking)),
                Err(error) => error,
            };
            (node, asking) =
                self.inner.redirected(slot, &connection, &error).ok_or_else(|| store_error(&error))?;
        }
        Err(StoreError::Refused("its servers redirect a request in a circle".to_owned()))
    }

    /// A connection to each server that has slots and can be reached.
    pub(super) async fn connections(&self) -> Result<Vec<Arc<RedisConnection>>, StoreError> {
        self.await_slots().await?;
        let mut connections = Vec::new();
        for node in self.inner.owners() {
            connections.extend(node.connection().await);
        }
        Ok(connections)
    }

    async fn await_slots(&self) -> Result<(), StoreError> {
        let mut known = self.slots_known.clone();
        let known =
            known.wait_for(Option::is_some).await.map_err(|_| StoreError::unreachable("it was closed"))?;
        known.clone().unwrap_or(Ok(()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ClusterInner {
    fn map(&self) -> MutexGuard<'_, ClusterMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        let mut map = self.map();
        let Some(owner) = map.slots.owner(slot).cloned() else {
            self.stale.notify_one();
            // For a second after a promotion, too: servers hear of it at different times.
            return Err(StoreError::NotConnected(format!("no server of the cluster has slot {slot}")));
        };
        Ok(map.node(owner, &self.login))
    }

    /// The server of this number and a key that it has; and whether every slot has an owner.
    fn probe_target(&self, server: ServerId, prefix: &str) -> (Option<(Arc<Node>, String)>, bool) {
        let mut map = self.map();
        (map.probe_target(server, prefix, &self.login), map.slots.are_complete())
    }

    fn owners(&self) -> Vec<Arc<Node>> {
        let mut map = self.map();
        let owners: HashSet<Host> = map.slots.owners().cloned().collect();
        owners.into_iter().map(|owner| map.node(owner, &self.login)).collect()
    }

    /// The server to ask instead, and whether the key is still being moved there; `None` if the error is no
    /// redirection.
    fn redirected(
        &self,
        slot: u16,
        connection: &RedisConnection,
        error: &RedisError,
    ) -> Option<(Arc<Node>, bool)> {
        let ErrorKind::Server(kind) = error.kind() else {
            self.stale.notify_one();
            return None;
        };
        let host = error.redirect_node().and_then(|(text, _)| redirected(text, connection.host()));
        if kind != ServerErrorKind::Ask {
            self.stale.notify_one();
        }
        let mut map = self.map();
        let node = map.node(host.clone()?, &self.login);
        if kind == ServerErrorKind::Moved {
            map.slots.set_moved(slot, host?);
        }
        Some((node, kind == ServerErrorKind::Ask))
    }

    /// Reads the slots from the first server that answers and knows an owner of each, or else from the first that answers:
    /// servers hear of a promotion at different times.
    async fn refresh(&self) -> Result<(), StoreError> {
        let mut incomplete = None;
        let mut last = StoreError::unreachable("no server of the cluster is known");
        let owners: Vec<Host> = self.map().nodes.keys().cloned().collect();
        let all: Vec<Host> = owners.into_iter().chain(self.seeds.iter().cloned()).collect();
        for host in all {
            let node = self.map().node(host, &self.login);
            match timeout(SLOTS_TIMEOUT, slots_of(&node)).await {
                Ok(Ok(slots)) if slots.are_complete() => {
                    self.replace(slots);
                    return Ok(());
                }
                Ok(Ok(slots)) => incomplete = incomplete.or(Some(slots)),
                Ok(Err(error)) => last = error,
                Err(_) => last = StoreError::unreachable("no reply to CLUSTER SLOTS in time"),
            }
        }
        let slots = incomplete.ok_or(last)?;
        self.replace(slots);
        Ok(())
    }

    fn replace(&self, slots: Slots) {
        let mut map = self.map();
        let needed: HashSet<Host> = slots.owners().chain(&self.seeds).cloned().collect();
        map.nodes.retain(|host, _| needed.contains(host));
        for host in needed {
            map.node(host, &self.login);
        }
        map.slots = slots;
        map.probe_keys.clear();
        let ClusterMap { ids, slots, .. } = &mut *map;
        // A server that comes back gets another number: what was known of it is old.
        let owners: HashSet<&Host> = slots.owners().collect();
        ids.retain(|host, _| owners.contains(host));
    }
}

impl ClusterMap {
    fn node(&mut self, host: Host, login: &Arc<Login>) -> Arc<Node> {
        let node = self.nodes.entry(host.clone());
        Arc::clone(node.or_insert_with(|| Arc::new(Node::open(Target::Host(host), Arc::clone(login)))))
    }

    /// The number of an owner.
    fn id_of(&mut self, owner: Host) -> ServerId {
        *self.ids.entry(owner).or_insert_with(|| {
            self.last_id = self.last_id.saturating_add(1);
            ServerId(self.last_id)
        })
    }

    fn servers(&mut self) -> Vec<ServerEntry> {
        let owners: HashSet<Host> = self.slots.owners().cloned().collect();
        let mut servers: Vec<ServerEntry> = owners
            .into_iter()
            .map(|owner| ServerEntry { name: owner.to_string().into(), id: self.id_of(owner) })
            .collect();
        if !self.slots.are_complete() {
            let name = if servers.is_empty() { "" } else { "slots of no server" };
            servers.push(ServerEntry { id: ServerId::ONLY, name: name.into() });
        }
        servers.sort_unstable_by_key(|server| server.id);
        servers
    }

    /// The server of this number, and a key that it has.
    fn probe_target(
        &mut self,
        server: ServerId,
        prefix: &str,
        login: &Arc<Login>,
    ) -> Option<(Arc<Node>, String)> {
        let owner = self.ids.iter().find(|(_, id)| **id == server)?.0.clone();
        let key = self.probe_keys.entry(server);
        let key = key.or_insert_with(|| self.slots.key_of(&owner, &format!("{prefix}:probe:"))).clone()?;
        Some((self.node(owner, login), key))
    }
}

async fn refresh_loop(inner: Arc<ClusterInner>, known: watch::Sender<Option<Result<(), StoreError>>>) {
    let mut failures = 0;
    loop {
        let answer = inner.refresh().await;
        failures = if answer.is_ok() { 0 } else { failures + 1 };
        known.send_if_modified(|known| {
            let was_known = matches!(known, Some(Ok(())));
            if !was_known {
                *known = Some(answer.clone());
            }
            !was_known
        });
        if answer.is_ok() {
            inner.stale.notified().await;
        }
        sleep(node::pause_after(failures)).await;
    }
}

async fn slots_of(node: &Node) -> Result<Slots, StoreError> {
    let connection = node.connection().await?;
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let answer = connection.call(&command).await.map_err(|error| store_error(&error))?;
    Slots::read(answer, connection.host())
}

/// Attempts that wait for this server are decided by those that have its slots now: they must not end.
fn moved(why: &str) -> StoreError {
    StoreError::NotConnected(format!("{why}: others may have its slots now"))
}

/// A slot that is being moved takes two redirections at worst, one that has moved meanwhile another.
const MAX_REDIRECTIONS: usize = 5;

/// How long one server may take before another is asked for the slots.
const SLOTS_TIMEOUT: Duration = Duration::from_millis(300);
