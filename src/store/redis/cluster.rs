//! A cluster: who has which slot, and a connection to each.
//!
//! It is asked for its slots again when one has moved or a server cannot be reached. The surprising thing: a question
//! that was sent on by a server is asked again elsewhere, since whoever sends on has written nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::address::{Host, Login};
use super::line::Line;
use super::node::{self, Node};
use super::reply::{fault, unreachable};
use super::slots::{Slots, redirected, slot};
use crate::store::compare_and_swap::StoreError;

/// A cluster.
pub(super) struct Cluster {
    shared: Arc<Shared>,
    /// What came of asking for the slots; once they are known, they are never unknown again.
    known: watch::Receiver<Option<Result<(), StoreError>>>,
    keeper: AbortHandle,
}

struct Shared {
    seeds: Vec<Host>,
    login: Arc<Login>,
    map: Mutex<Map>,
    stale: Notify,
}

#[derive(Default)]
struct Map {
    slots: Slots,
    nodes: HashMap<Host, Arc<Node>>,
}

impl Cluster {
    /// Begins to ask these servers for all the others.
    pub(super) fn open(seeds: &[Host], login: &Arc<Login>) -> Self {
        let shared = Shared {
            seeds: seeds.to_vec(),
            login: Arc::clone(login),
            map: Mutex::default(),
            stale: Notify::new(),
        };
        let shared = Arc::new(shared);
        let (sender, known) = watch::channel(None);
        let keeper = tokio::spawn(keep(Arc::clone(&shared), sender)).abort_handle();
        Self { shared, known, keeper }
    }

    /// Runs the script on the server that has this key.
    pub(super) async fn run(&self, key: &str, arguments: &[&[u8]]) -> Result<Value, StoreError> {
        self.known().await?;
        let slot = slot(key);
        let mut asking = false;
        let mut node = self.shared.owner(slot)?;
        for _ in 0..MOST_REDIRECTIONS {
            let line = node.line().await.inspect_err(|_| self.shared.stale.notify_one())?;
            let error = match line.run(key, arguments, asking).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            (node, asking) = self.shared.redirected(slot, &line, &error).ok_or_else(|| fault(&error))?;
        }
        Err(StoreError::Refused("its servers send a question round in a circle".to_owned()))
    }

    /// A connection to each server that has slots.
    pub(super) async fn lines(&self) -> Result<Vec<Line>, StoreError> {
        self.known().await?;
        let mut lines = Vec::new();
        for node in self.shared.owners() {
            lines.push(node.line().await.inspect_err(|_| self.shared.stale.notify_one())?);
        }
        Ok(lines)
    }

    async fn known(&self) -> Result<(), StoreError> {
        let mut known = self.known.clone();
        let known = known.wait_for(Option::is_some).await.map_err(|_| unreachable("it was closed"))?;
        known.clone().unwrap_or(Ok(()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Shared {
    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, slot: u16) -> Result<Arc<Node>, StoreError> {
        let mut map = self.map();
        let Some(owner) = map.slots.owner(slot).cloned() else {
            self.stale.notify_one();
            return Err(StoreError::Refused(format!("no server of the cluster has slot {slot}")));
        };
        Ok(map.node(owner, &self.login))
    }

    fn owners(&self) -> Vec<Arc<Node>> {
        let mut map = self.map();
        let owners: HashSet<Host> = map.slots.owners().cloned().collect();
        owners.into_iter().map(|owner| map.node(owner, &self.login)).collect()
    }

    /// Where to ask instead, and whether the key is only being moved there; `None` if it was not sent on.
    fn redirected(&self, slot: u16, line: &Line, error: &RedisError) -> Option<(Arc<Node>, bool)> {
        let ErrorKind::Server(kind) = error.kind() else {
            self.stale.notify_one();
            return None;
        };
        let host = error.redirect_node().and_then(|(text, _)| redirected(text, line.host()));
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

    /// Asks for the slots, whoever answers first.
    async fn refresh(&self) -> Result<(), StoreError> {
        let mut last = unreachable("no server of the cluster is known");
        let owners: Vec<Host> = self.map().nodes.keys().cloned().collect();
        let all: Vec<Host> = owners.into_iter().chain(self.seeds.iter().cloned()).collect();
        for host in all {
            let node = self.map().node(host, &self.login);
            match timeout(ONE_ANSWER, slots_of(&node)).await {
                Ok(Ok(slots)) => {
                    self.replace(slots);
                    return Ok(());
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = unreachable("it did not say which server has which slots"),
            }
        }
        Err(last)
    }

    fn replace(&self, slots: Slots) {
        let mut map = self.map();
        let needed: HashSet<Host> = slots.owners().chain(&self.seeds).cloned().collect();
        map.nodes.retain(|host, _| needed.contains(host));
        for host in needed {
            map.node(host, &self.login);
        }
        map.slots = slots;
    }
}

impl Map {
    fn node(&mut self, host: Host, login: &Arc<Login>) -> Arc<Node> {
        let node = self.nodes.entry(host.clone());
        Arc::clone(node.or_insert_with(|| Arc::new(Node::open(host, Arc::clone(login)))))
    }
}

async fn keep(shared: Arc<Shared>, known: watch::Sender<Option<Result<(), StoreError>>>) {
    let mut failures = 0;
    loop {
        let answer = shared.refresh().await;
        failures = if answer.is_ok() { 0 } else { failures + 1 };
        known.send_if_modified(|known| {
            let was_known = matches!(known, Some(Ok(())));
            if !was_known {
                *known = Some(answer.clone());
            }
            !was_known
        });
        if answer.is_ok() {
            shared.stale.notified().await;
        }
        sleep(node::pause(failures)).await;
    }
}

async fn slots_of(node: &Node) -> Result<Slots, StoreError> {
    let line = node.line().await?;
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let answer = line.ask(&question).await.map_err(|error| fault(&error))?;
    Slots::read(answer, line.host())
}

/// A slot that is being moved takes two at the worst, one that was moved meanwhile another.
const MOST_REDIRECTIONS: usize = 5;

/// How long one server may take before another is asked for the slots.
const ONE_ANSWER: Duration = Duration::from_millis(300);
