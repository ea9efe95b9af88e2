//! A gate's view of a server, and the runtime of its calls.
//!
//! It calls the backend itself, without the layers around it. A backend's background work runs only while a test waits
//! here.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tollgate::bucket::Key;
use tollgate::store::{
    CompareAndSwap, Namespace, RecordVersion, StoreAddress, StoreError, StoreFuture, StoreRecord, Stored,
    Swap,
};

/// A store, opened.
pub(crate) struct Gate {
    runtime: Arc<Runtime>,
    pub(crate) store: Arc<dyn CompareAndSwap>,
}

impl Gate {
    pub(crate) fn new(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self::within_runtime(Arc::new(runtime), url, &Namespace::default())
    }

    /// With the table made, where there is one.
    pub(crate) fn ready(url: &str) -> Self {
        let gate = Self::new(url);
        gate.ask(|store| store.migrate()).unwrap();
        gate
    }

    /// Another one at the same place.
    pub(crate) fn beside(&self, url: &str) -> Self {
        self.of_another(url, "tollgate")
    }

    /// One of the installation with this prefix.
    pub(crate) fn of_another(&self, url: &str, prefix: &str) -> Self {
        Self::within_runtime(Arc::clone(&self.runtime), url, &prefix.parse().unwrap())
    }

    fn within_runtime(runtime: Arc<Runtime>, url: &str, names: &Namespace) -> Self {
        let address: StoreAddress = url.parse().unwrap();
        let store = {
            let _within = runtime.enter();
            address.open(names).unwrap().unwrap()
        };
        Self { runtime, store }
    }

    /// Waits at most five seconds.
    pub(crate) fn ask<T>(
        &self,
        question: impl FnOnce(&dyn CompareAndSwap) -> StoreFuture<'_, T>,
    ) -> Result<T, StoreError> {
        self.within(Duration::from_secs(5), question).expect("an answer in time")
    }

    pub(crate) fn within<T>(
        &self,
        time: Duration,
        question: impl FnOnce(&dyn CompareAndSwap) -> StoreFuture<'_, T>,
    ) -> Option<Result<T, StoreError>> {
        let asking = question(&*self.store);
        let answer = self.block_on(async { tokio::time::timeout(time, asking).await });
        answer.ok().map(|answer| answer.map(|answer| answer.value))
    }

    /// Probes every server; of a cluster, once it is known which there are.
    pub(crate) fn probe(&self) -> Result<(), StoreError> {
        let probe_all = || -> Result<(), StoreError> {
            let mut servers = self.store.servers().into_iter();
            servers.try_for_each(|server| self.ask(|store| store.probe(server.id)))
        };
        probe_all().and_then(|()| probe_all())
    }

    pub(crate) fn load(&self, key: Key) -> Option<Stored> {
        self.ask(|store| store.load(key)).unwrap()
    }

    pub(crate) fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> Swap {
        self.ask(|store| store.swap(key, old, new)).unwrap()
    }

    /// A swap that has to win.
    pub(crate) fn write(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> RecordVersion {
        done(self.swap(key, old, new))
    }

    /// Asks on the runtime, and hands out what will be answered.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        asking: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(asking)
    }

    pub(crate) fn wait<T>(&self, task: JoinHandle<T>) -> T {
        self.block_on(task).unwrap()
    }

    /// Lets what is on its way go on for so long.
    pub(crate) fn rest(&self, time: Duration) {
        self.block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// The version that was written.
pub(crate) fn done(swap: Swap) -> RecordVersion {
    match swap {
        Swap::Done(version) => version,
        other => panic!("{other:?}"),
    }
}
