//! The servers of a store, by number.
//!
//! A backend knows which servers there are; this keeps what is known of each, from the first call or listing that names
//! it until a listing leaves it out. Probing them is left to [`maintenance`](super::maintenance).

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::server::StoreServer;
use crate::{CompareAndSwap, ServerEntry, ServerId};
use tollgate_bucket::Time;

/// The servers, ordered by number; never empty.
#[derive(Debug)]
pub(super) struct StoreServers {
    list: ArcSwap<Vec<Arc<StoreServer>>>,
    changing: Mutex<()>,
}

impl StoreServers {
    /// The servers that a backend knows.
    pub(super) fn of(backend: &dyn CompareAndSwap) -> Self {
        let list = backend.servers().into_iter().map(|entry| Arc::new(StoreServer::new(entry)));
        Self { list: ArcSwap::from_pointee(list.collect()), changing: Mutex::default() }
    }

    /// All of them.
    pub(super) fn all(&self) -> Arc<Vec<Arc<StoreServer>>> {
        self.list.load_full()
    }

    /// Whether the store has one server only.
    pub(super) fn is_single(&self) -> bool {
        self.list.load().len() == 1
    }

    /// The server of this number, added if it is new.
    pub(super) fn get(&self, id: ServerId, backend: &dyn CompareAndSwap) -> Arc<StoreServer> {
        if let Some(known) = find(&self.list.load(), id) {
            return known;
        }
        let name = backend.servers().into_iter().find(|entry| entry.id == id).map(|entry| entry.name);
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = self.list.load().to_vec();
        // Another thread may have been faster.
        find(&list, id).unwrap_or_else(|| {
            let entry = ServerEntry { id, name: name.unwrap_or_default() };
            let new = Arc::new(StoreServer::new(entry));
            list.push(Arc::clone(&new));
            list.sort_unstable_by_key(|server| server.id);
            self.list.store(Arc::new(list));
            new
        })
    }

    /// Adds and drops servers as listed; returns those that were dropped.
    pub(super) fn update(&self, entries: Vec<ServerEntry>) -> Vec<Arc<StoreServer>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.list.load_full();
        let known =
            |entry: ServerEntry| find(&old, entry.id).unwrap_or_else(|| Arc::new(StoreServer::new(entry)));
        let mut list: Vec<_> = entries.into_iter().map(known).collect();
        list.sort_unstable_by_key(|server| server.id);
        let gone = old.iter().filter(|server| find(&list, server.id).is_none()).cloned().collect();
        if list.len() != old.len() || list.iter().zip(&*old).any(|(new, old)| new.id != old.id) {
            self.list.store(Arc::new(list));
        }
        gone
    }

    /// Whether calls to no server are stopped.
    pub(super) fn are_up(&self) -> bool {
        self.list.load().iter().all(|server| !server.breaker.is_open())
    }

    /// The time of the store as a whole when this process's clock shows `own`: that of the first server whose clock is
    /// known.
    pub(super) fn time(&self, own: Time) -> Time {
        base(&self.list.load()).map_or(own, |base| base.offset.apply(own))
    }

    /// The time at this server when the time of the store as a whole is `now`.
    pub(super) fn time_at(&self, server: &StoreServer, now: Time) -> Time {
        match base(&self.list.load()) {
            Some(base) if server.offset.is_known() => server.offset.convert(now, &base.offset),
            _ => now,
        }
    }
}

fn base(list: &[Arc<StoreServer>]) -> Option<&Arc<StoreServer>> {
    list.iter().find(|server| server.offset.is_known())
}

fn find(list: &[Arc<StoreServer>], id: ServerId) -> Option<Arc<StoreServer>> {
    let at = list.binary_search_by_key(&id, |server| server.id).ok()?;
    Some(Arc::clone(&list[at]))
}
