//! The maintenance thread of a store: it probes, purges and inspects.
//!
//! A probe tells whether a server takes writes, what time it is there and whether it has lost its records, a purge removes expired records, an inspection
//! warns the operator of bad settings. Each server is probed by its own task. While a server is down, the probe is
//! its only call, one at a time, so a server that comes back meets no burst. Requests are left to [`batch`](super::batch).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::leases::Leases;
use super::queue::RequestQueue;
use super::recent_buckets::RecentBuckets;
use super::server::StoreServer;
use super::servers::StoreServers;
use super::trips::StoreTrips;
use super::{AvailabilityChange, MAX_DRAINED, MAX_ORDERED, SharedStore, StoreObserver, StoreOptions};
use crate::{CompareAndSwap, Namespace, StoreAddress, StoreError};
use tollgate_base::time::Clock;

/// Why a store cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StoreStartError {
    /// The system gives no thread or runtime.
    #[error("cannot start the store's thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The address is the memory of the process.
    #[error("this store is not shared")]
    NotShared,
    /// The backend cannot be opened.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// The thread ended before the backend was open.
    #[error("the store's thread ended")]
    Ended,
}

/// New requests come first, and the connection that sends them after them: it sends all in one write.
fn store_runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().global_queue_interval(1).enable_all().build()
}

impl SharedStore {
    /// Opens a store and starts its thread. Waits a moment for the first answer, so that the store's clock is known
    /// before the first decision, and goes on without one.
    ///
    /// # Errors
    /// See [`StoreStartError`].
    pub fn start(
        address: &StoreAddress,
        namespace: &Namespace,
        options: StoreOptions,
        clock: Clock,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<Arc<Self>, StoreStartError> {
        let (address, namespace) = (address.clone(), namespace.clone());
        let open = move || Ok(address.open(&namespace).ok_or(StoreStartError::NotShared)??);
        Self::start_on(open, options, clock, observer)
    }

    /// The same on the backend that `open` opens, within the runtime of the store's thread.
    pub(super) fn start_on(
        open: impl FnOnce() -> Result<Arc<dyn CompareAndSwap>, StoreStartError> + Send + 'static,
        options: StoreOptions,
        clock: Clock,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<Arc<Self>, StoreStartError> {
        let (alive, end) = oneshot::channel();
        let (sender, opened) = mpsc::channel();
        let run = move || {
            let runtime = match store_runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(sender.send(Err(StoreStartError::Thread(error)))),
            };
            let backend = {
                let _within = runtime.enter();
                open()
            };
            // The receiver is gone if the caller has ended.
            let _ = sender.send(backend.map(|backend| (backend, runtime.handle().clone())));
            // Ends when `alive` is dropped.
            let _: Result<(), _> = runtime.block_on(end);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("store".to_owned()).spawn(run)?;
        let (backend, runtime) = opened.recv().map_err(|_| StoreStartError::Ended)??;
        let (shared, first) = Self::start_within(runtime, backend, options, clock, observer, alive);
        // A store that is down is not an error: the gate starts all the same.
        let end = Instant::now() + FIRST_PROBE_TIMEOUT;
        for _ in &*shared.servers.all() {
            let _ = first.recv_timeout(end.saturating_duration_since(Instant::now()));
        }
        Ok(shared)
    }

    /// The same within this runtime. The receiver gets a message after each probe.
    pub(super) fn start_within(
        runtime: Handle,
        backend: Arc<dyn CompareAndSwap>,
        options: StoreOptions,
        clock: Clock,
        observer: Arc<dyn StoreObserver>,
        alive: oneshot::Sender<()>,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let shared = Arc::new(Self {
            servers: StoreServers::of(&*backend),
            trips: StoreTrips::default(),
            backend,
            options,
            randomness: clock.now().as_nanos().into(),
            clock,
            queue: RequestQueue::default(),
            leases: Leases::default(),
            ordered: RecentBuckets::new(MAX_ORDERED),
            drained: RecentBuckets::new(MAX_DRAINED),
            observer,
            runtime: runtime.clone(),
            is_inspected: false.into(),
            enqueued: 0.into(),
            _alive: alive,
        });
        let (probed, first) = mpsc::channel();
        shared.respawn_on_panic(&runtime, move |shared| watch_servers(shared, probed.clone()));
        shared.respawn_on_panic(&runtime, purge_loop);
        (shared, first)
    }

    /// Restarts a task that panics: without probes a store would stay down for ever.
    fn respawn_on_panic<F>(
        self: &Arc<Self>,
        runtime: &Handle,
        task: impl Fn(Weak<Self>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::downgrade(self);
        runtime.spawn(async move {
            while tokio::spawn(task(Weak::clone(&shared))).await.is_err_and(|ended| ended.is_panic()) {
                if let Some(shared) = shared.upgrade() {
                    shared
                        .observer
                        .warned("the store's maintenance panicked and restarts: please report this");
                }
                tokio::time::sleep(RESPAWN_PAUSE).await;
            }
        });
    }

    /// Follows the backend's list of servers: tells of those that left, and probes those that are new.
    fn update_servers(self: &Arc<Self>, first: &mpsc::Sender<()>) {
        for gone in self.servers.update(self.backend.servers()) {
            let is_store_up = self.is_up();
            self.observer.server_left(&gone.name, is_store_up);
            if gone.is_told_down() {
                let why = "other servers of the store have its buckets now";
                let change = AvailabilityChange { server: &gone.name, up: true, is_store_up, why };
                self.observer.availability_reported(&change);
            }
        }
        for server in self.servers.all().iter().filter(|server| server.begins_probing()) {
            let (server, first) = (Arc::downgrade(server), first.clone());
            let runtime = self.runtime.clone();
            self.respawn_on_panic(&runtime, move |shared| {
                probe_loop(shared, Weak::clone(&server), first.clone())
            });
        }
    }
}

async fn watch_servers(shared: Weak<SharedStore>, first: mpsc::Sender<()>) {
    while let Some(shared) = shared.upgrade() {
        shared.update_servers(&first);
        drop(shared);
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Probes a server as long as the store has it: now and then while it is up, often while it is down.
async fn probe_loop(shared: Weak<SharedStore>, server: Weak<StoreServer>, first: mpsc::Sender<()>) {
    loop {
        let (Some(shared), Some(server)) = (shared.upgrade(), server.upgrade()) else { return };
        shared.probe(&server).await;
        let is_well = server.breaker.has_no_failures();
        if is_well && !shared.is_inspected.swap(true, Ordering::Relaxed) {
            inspect(&*shared.backend, &*shared.observer).await;
        }
        // The receiver may be gone.
        let _ = first.send(());
        if is_well {
            shared.look_for_marker(&server).await;
        }
        let pause = if is_well { PROBE_INTERVAL } else { PROBE_INTERVAL_WHILE_DOWN };
        let pause = pause + shared.jitter(pause);
        // Holds no reference while it waits: the store must end when its last user drops it.
        let to_probe = Arc::clone(&server.to_probe);
        drop((shared, server));
        // The refusals of attempts call for no more probes than a server that is down gets.
        tokio::time::sleep(if is_well { PROBE_INTERVAL_WHILE_DOWN } else { pause }).await;
        if is_well {
            let _ = tokio::time::timeout(pause, to_probe.notified()).await;
        }
    }
}

async fn inspect(backend: &dyn CompareAndSwap, observer: &dyn StoreObserver) {
    if let Ok(Ok(found)) = tokio::time::timeout(INSPECT_TIMEOUT, backend.inspect()).await {
        found.value.iter().for_each(|what| observer.warned(what));
    }
}

/// Purges expired records, batch after batch while there are more.
async fn purge_loop(shared: Weak<SharedStore>) {
    let mut pause = PURGE_INTERVAL;
    while let Some(after) = shared.upgrade().map(|shared| pause + shared.jitter(pause)) {
        tokio::time::sleep(after).await;
        let Some(shared) = shared.upgrade().filter(|shared| shared.is_up()) else { continue };
        let purged = tokio::time::timeout(INSPECT_TIMEOUT, shared.backend.purge()).await;
        let is_more = matches!(purged, Ok(Ok(answer)) if answer.value > 0);
        pause = if is_more { PURGE_INTERVAL_WHILE_BUSY } else { PURGE_INTERVAL };
    }
}

const FIRST_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
const INSPECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPAWN_PAUSE: Duration = Duration::from_secs(1);
/// How soon a server that no call has named yet is probed.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
const PROBE_INTERVAL_WHILE_DOWN: Duration = Duration::from_millis(150);
/// A record stays this much longer than it is needed, and each gate looks this often for what is due.
const PURGE_INTERVAL: Duration = Duration::from_secs(30);
const PURGE_INTERVAL_WHILE_BUSY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn requests_that_wait_are_sent_together() {
        let runtime = store_runtime().unwrap();
        let (request, mut requests) = mpsc::unbounded_channel();
        // As the connection does: it sends what is there whenever it is woken.
        let connection = runtime.spawn(async move {
            let mut sent = Vec::new();
            let mut batch = Vec::new();
            while requests.recv_many(&mut batch, usize::MAX).await > 0 {
                sent.push(std::mem::take(&mut batch).len());
            }
            sent
        });
        for number in 0..16 {
            let request = request.clone();
            runtime.spawn(async move { request.send(number) });
        }
        drop(request);
        assert_eq!(runtime.block_on(connection).unwrap(), [16]);
    }
}
