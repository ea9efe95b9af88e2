//! The store's thread: what is done beside the questions of attempts.
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
use super::offset::{Correction, Offset};
use super::queue::Queue;
use super::{Answered, Manner, Shared, Witness};
use crate::store::{Address, CompareAndSwap, Namespace, StoreError};
use crate::time::Clock;

/// Why a store cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
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

impl Shared {
    /// Opens a store and starts its thread. Whether the store is there shows later: this waits a moment for its first answer,
    /// so that its clock is known before anything is decided, and goes on without.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        address: &Address,
        names: &Namespace,
        manner: Manner,
        clock: Clock,
        witness: Arc<dyn Witness>,
    ) -> Result<Arc<Self>, StartError> {
        let (address, names) = (address.clone(), names.clone());
        let open = move || Ok(address.open(&names).ok_or(StartError::NotShared)??);
        Self::start_on(open, manner, clock, witness)
    }

    /// The same on whatever `open` opens, within the runtime of the store's thread.
    pub(super) fn start_on(
        open: impl FnOnce() -> Result<Arc<dyn CompareAndSwap>, StartError> + Send + 'static,
        manner: Manner,
        clock: Clock,
        witness: Arc<dyn Witness>,
    ) -> Result<Arc<Self>, StartError> {
        let (alive, end) = oneshot::channel();
        let (tell, opened) = mpsc::channel();
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(StartError::Thread(error)))),
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
        let (backend, runtime) = opened.recv().map_err(|_| StartError::Ended)??;
        let (shared, first) = Self::within(runtime, backend, manner, clock, witness, alive);
        // Nobody says so if it is not there: the gate starts all the same.
        let _ = first.recv_timeout(FIRST_PATIENCE);
        Ok(shared)
    }

    /// The same within this runtime, and whoever is told when it was looked whether the store is there.
    pub(super) fn within(
        runtime: Handle,
        backend: Arc<dyn CompareAndSwap>,
        manner: Manner,
        clock: Clock,
        witness: Arc<dyn Witness>,
        alive: oneshot::Sender<()>,
    ) -> (Arc<Self>, mpsc::Receiver<()>) {
        let shared = Arc::new(Self {
            backend,
            manner,
            randomness: clock.now().as_nanos().into(),
            clock,
            offset: Offset::default(),
            breaker: Breaker::default(),
            queue: Queue::default(),
            witness,
            runtime: runtime.clone(),
            went_away: Arc::default(),
            told: 0.into(),
            _alive: alive,
        });
        let (answered, first) = mpsc::channel();
        shared.keep_up(&runtime, move |shared| watch(shared, answered.clone()));
        shared.keep_up(&runtime, clean);
        (shared, first)
    }

    /// Begins anew what panics: a store that nobody probes for would be away for ever.
    fn keep_up<F>(self: &Arc<Self>, runtime: &Handle, task: impl Fn(Weak<Self>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Arc::downgrade(self);
        runtime.spawn(async move {
            while tokio::spawn(task(Weak::clone(&shared))).await.is_err_and(|ended| ended.is_panic()) {
                if let Some(shared) = shared.upgrade() {
                    shared
                        .witness
                        .noticed("the upkeep of the store panicked and begins anew: please report this");
                }
                tokio::time::sleep(AFTER_PANIC).await;
            }
        });
    }

    pub(super) async fn probe(&self) {
        let begun = self.clock.now();
        let answer = tokio::time::timeout(self.manner.timeout.to_std(), self.backend.probe()).await;
        // What went wrong counts and is told like the failure of any question.
        let _ = self.hear(begun, answer.unwrap_or(Err(super::out_of_time())), |()| Answered::Ok);
    }
}

/// Looks whether the store is there: now and then while it is, often while it is not.
async fn watch(shared: Weak<Shared>, first: mpsc::Sender<()>) {
    let mut inspected = false;
    loop {
        let Some(shared) = shared.upgrade() else { return };
        shared.probe().await;
        if shared.breaker.is_calm() && !inspected {
            inspected = true;
            inspect(&*shared.backend, &*shared.witness).await;
        }
        // Nobody may wait for it any more.
        let _ = first.send(());
        let pause = if shared.breaker.is_calm() { WATCH } else { WATCH_WHILE_AWAY };
        let pause = pause + shared.jitter(pause);
        if !shared.breaker.is_calm() {
            drop(shared);
            tokio::time::sleep(pause).await;
            continue;
        }
        // Not the store itself: it has to end when nobody else holds it.
        let went_away = Arc::clone(&shared.went_away);
        drop(shared);
        let _ = tokio::time::timeout(pause, went_away.notified()).await;
    }
}

async fn inspect(backend: &dyn CompareAndSwap, witness: &dyn Witness) {
    if let Ok(Ok(found)) = tokio::time::timeout(INSPECTION, backend.inspect()).await {
        found.value.iter().for_each(|what| witness.noticed(what));
    }
}

/// Has the store cleaned, batch after batch while there is something left.
async fn clean(shared: Weak<Shared>) {
    let mut pause = CLEANING;
    while let Some(after) = shared.upgrade().map(|shared| pause + shared.jitter(pause)) {
        tokio::time::sleep(after).await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.breaker.is_open()) else { continue };
        let cleaned = tokio::time::timeout(INSPECTION, shared.backend.tidy()).await;
        let is_more = matches!(cleaned, Ok(Ok(answer)) if answer.value > 0);
        pause = if is_more { CLEANING_ON } else { CLEANING };
    }
}

impl std::fmt::Display for Correction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, side) =
            (self.nanos.unsigned_abs() / 1_000_000_000, if self.nanos < 0 { "behind" } else { "ahead of" });
        write!(f, "the store's clock is {seconds} s {side} this machine's; the store's decides")
    }
}

const FIRST_PATIENCE: Duration = Duration::from_millis(500);
const INSPECTION: Duration = Duration::from_secs(5);
const AFTER_PANIC: Duration = Duration::from_secs(1);
const WATCH: Duration = Duration::from_secs(2);
const WATCH_WHILE_AWAY: Duration = Duration::from_millis(250);
const CLEANING: Duration = Duration::from_secs(2);
const CLEANING_ON: Duration = Duration::from_millis(200);
