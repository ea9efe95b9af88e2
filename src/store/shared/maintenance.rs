//! The maintenance thread of a store: it probes, purges and inspects.
//!
//! It looks whether the store is there and what time it is, has it cleaned, and says what an operator should know. The
//! surprising thing: while the store answers nobody, this is the only one who asks, one probe at a time, so nothing storms
//! it when it comes back.

use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::breaker::Breaker;
use super::clock_offset::{ClockCorrection, ClockOffset};
use super::queue::RequestQueue;
use super::{CallOutcome, SharedStore, StoreObserver, StoreOptions};
use crate::store::{CompareAndSwap, Namespace, StoreAddress, StoreError};
use crate::time::Clock;

/// Why a store cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum StoreStartError {
    /// The machine gives no thread or runtime.
    #[error("cannot start the store's thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The address is the memory of the process.
    #[error("this store is not shared")]
    NotShared,
    /// What can be known without asking it.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// The thread ended before it began.
    #[error("the store's thread ended")]
    Ended,
}

impl SharedStore {
    /// Opens a store and starts its thread. Whether the store is there shows later: this waits a moment for its first answer,
    /// so that its clock is known before anything is decided, and goes on without.
    ///
    /// # Errors
    /// See [`StoreStartError`].
    pub fn start(
        address: &StoreAddress,
        names: &Namespace,
        manner: StoreOptions,
        clock: Clock,
        witness: Arc<dyn StoreObserver>,
    ) -> Result<Arc<Self>, StoreStartError> {
        let (address, names) = (address.clone(), names.clone());
        let open = move || Ok(address.open(&names).ok_or(StoreStartError::NotShared)??);
        Self::start_on(open, manner, clock, witness)
    }

    /// The same on whatever `open` opens, within the runtime of the store's thread.
    pub(super) fn start_on(
        open: impl FnOnce() -> Result<Arc<dyn CompareAndSwap>, StoreStartError> + Send + 'static,
        manner: StoreOptions,
        clock: Clock,
        witness: Arc<dyn StoreObserver>,
    ) -> Result<Arc<Self>, StoreStartError> {
        let (alive, end) = oneshot::channel();
        let (tell, opened) = mpsc::channel();
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(StoreStartError::Thread(error)))),
            };
            let backend = {
                let _within = runtime.enter();
                open()
            };
            // Whoever waited for it has ended.
            let _ = tell.send(backend.map(|backend| (backend, runtime.handle().clone())));
            // Ends when the other half is dropped.
            let _: Result<(), _> = runtime.block_on(end);
            runtime.shutdown_background();
        };
        thread::Builder::new().name("store".to_owned()).spawn(run)?;
        let (backend, runtime) = opened.recv().map_err(|_| StoreStartError::Ended)??;
        let (shared, first) = Self::start_within(runtime, backend, manner, clock, witness, alive);
        // Nobody says so if it is not there: the gate starts all the same.
        let _ = first.recv_timeout(FIRST_PROBE_TIMEOUT);
        Ok(shared)
    }

    /// The same within this runtime, and whoever is told when it was looked whether the store is there.
    pub(super) fn start_within(
        runtime: Handle,
        backend: Arc<dyn CompareAndSwap>,
        manner: StoreOptions,
        clock: Clock,
        witness: Arc<dyn StoreObserver>,
        alive: oneshot::Sender<()>,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let shared = Arc::new(Self {
            backend,
            options: manner,
            randomness: clock.now().as_nanos().into(),
            clock,
            offset: ClockOffset::default(),
            breaker: Breaker::default(),
            queue: RequestQueue::default(),
            observer: witness,
            runtime: runtime.clone(),
            went_down: Arc::default(),
            enqueued: 0.into(),
            _alive: alive,
        });
        let (answered, first) = mpsc::channel();
        shared.respawn_on_panic(&runtime, move |shared| probe_loop(shared, answered.clone()));
        shared.respawn_on_panic(&runtime, purge_loop);
        (shared, first)
    }

    /// Begins anew what panics: a store that nobody probes for would be away for ever.
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
                        .warned("the upkeep of the store panicked and begins anew: please report this");
                }
                tokio::time::sleep(RESPAWN_PAUSE).await;
            }
        });
    }

    pub(super) async fn probe(&self) {
        let begun = self.clock.now();
        let answer = tokio::time::timeout(self.options.timeout.to_std(), self.backend.probe()).await;
        // What went wrong counts and is told like the failure of any question.
        let _ =
            self.record_outcome(begun, answer.unwrap_or(Err(super::timeout_error())), |()| CallOutcome::Ok);
    }
}

/// Looks whether the store is there: now and then while it is, often while it is not.
async fn probe_loop(shared: Weak<SharedStore>, first: mpsc::Sender<()>) {
    let mut inspected = false;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        shared.probe().await;
        if shared.breaker.has_no_failures() && !inspected {
            inspected = true;
            inspect(&*shared.backend, &*shared.observer).await;
        }
        // Nobody may wait for it any more.
        let _ = first.send(());
        let pause = if shared.breaker.has_no_failures() { PROBE_INTERVAL } else { PROBE_INTERVAL_WHILE_DOWN };
        let pause = pause + shared.jitter(pause);
        if !shared.breaker.has_no_failures() {
            drop(shared);
            tokio::time::sleep(pause).await;
            continue;
        }
        // Not the store itself: it has to end when nobody else holds it.
        let went_away = Arc::clone(&shared.went_down);
        drop(shared);
        let _ = tokio::time::timeout(pause, went_away.notified()).await;
    }
}

async fn inspect(backend: &dyn CompareAndSwap, witness: &dyn StoreObserver) {
    if let Ok(Ok(found)) = tokio::time::timeout(INSPECT_TIMEOUT, backend.inspect()).await {
        found.value.iter().for_each(|what| witness.warned(what));
    }
}

/// Has the store cleaned, batch after batch while there is something left.
async fn purge_loop(shared: Weak<SharedStore>) {
    let mut pause = PURGE_INTERVAL;
    while let Some(after) = shared.upgrade().map(|shared| pause + shared.jitter(pause)) {
        tokio::time::sleep(after).await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.breaker.is_open()) else { continue };
        let cleaned = tokio::time::timeout(INSPECT_TIMEOUT, shared.backend.purge()).await;
        let is_more = matches!(cleaned, Ok(Ok(answer)) if answer.value > 0);
        pause = if is_more { PURGE_INTERVAL_WHILE_BUSY } else { PURGE_INTERVAL };
    }
}

impl std::fmt::Display for ClockCorrection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, side) =
            (self.nanos.unsigned_abs() / 1_000_000_000, if self.nanos < 0 { "behind" } else { "ahead of" });
        write!(f, "the store's clock is {seconds} s {side} this machine's; the store's decides")
    }
}

const FIRST_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
const INSPECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPAWN_PAUSE: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
const PROBE_INTERVAL_WHILE_DOWN: Duration = Duration::from_millis(250);
const PURGE_INTERVAL: Duration = Duration::from_secs(2);
const PURGE_INTERVAL_WHILE_BUSY: Duration = Duration::from_millis(200);
