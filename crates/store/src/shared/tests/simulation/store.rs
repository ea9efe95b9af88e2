//! A store that executes requests and sometimes loses the reply; its clock and those of the gates.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Dice;
use crate::{
    Clocked, CompareAndSwap, RecordVersion, ServerId, StepProgram, StepShape, StoreError, StoreFuture,
    StoreRecord, Stored, Swap,
};
use tollgate_base::time::Clock;
use tollgate_bucket::Key;
use tollgate_bucket::{Span, Time};

/// The present faults. `late` and `lost` hit one request in that number, or none if zero.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Faults {
    pub(super) away: bool,
    pub(super) silent: bool,
    pub(super) late: u64,
    pub(super) lost: u64,
}

pub(super) struct Store {
    me: Weak<Self>,
    rows: Mutex<HashMap<u128, (Stored, Time)>>,
    pub(super) faults: Mutex<Faults>,
    dice: Mutex<Dice>,
    begun: Instant,
    /// By how many nanoseconds the store's clock is ahead of the true time.
    ahead: AtomicI64,
    clocks: Mutex<Vec<(Clock, i64)>>,
    versions: Mutex<u64>,
    /// Requests so far.
    pub(super) asked: AtomicU64,
}

const BEGINNING: Time = Time::from_nanos(1_800_000_000_000_000_000);

impl Store {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            rows: Mutex::default(),
            faults: Mutex::default(),
            dice: Mutex::new(Dice(seed)),
            begun: Instant::now(),
            ahead: AtomicI64::default(),
            clocks: Mutex::default(),
            versions: Mutex::default(),
            asked: AtomicU64::default(),
        })
    }

    pub(super) fn clock_of_gate(&self, ahead: i64) -> Clock {
        let clock = Clock::manual(self.true_time(ahead));
        self.clocks.lock().unwrap().push((clock.clone(), ahead));
        clock
    }

    /// The store's time.
    pub(super) fn now(&self) -> Time {
        self.true_time(self.ahead.load(Ordering::Relaxed))
    }

    pub(super) fn step(&self, seconds: i64) {
        self.ahead.fetch_add(seconds * 1_000_000_000, Ordering::Relaxed);
    }

    pub(super) fn set_clocks(&self) {
        for (clock, ahead) in &*self.clocks.lock().unwrap() {
            clock.set(self.true_time(*ahead));
        }
    }

    pub(super) async fn rest(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.set_clocks();
    }

    /// Removes a record, or overwrites it with foreign bytes.
    pub(super) fn spoil(&self, Key(key): Key, is_gone: bool) {
        let mut rows = self.rows.lock().unwrap();
        if is_gone {
            rows.remove(&key);
        } else if let Some((stored, _)) = rows.get_mut(&key) {
            *stored = Stored { bytes: b"foreign".to_vec(), version: self.version() };
        }
    }

    fn true_time(&self, ahead: i64) -> Time {
        let time = BEGINNING.after(Span::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap()));
        let by = Span::from_nanos(ahead.unsigned_abs());
        if ahead < 0 { time.before(by) } else { time.after(by) }
    }

    fn version(&self) -> RecordVersion {
        let mut last = self.versions.lock().unwrap();
        *last += 1;
        RecordVersion(*last)
    }

    fn once_in(&self, many: u64) -> bool {
        many > 0 && self.dice.lock().unwrap().below(many) == 0
    }

    async fn way(&self, is_late: bool) {
        let micros = 100 + self.dice.lock().unwrap().below(if is_late { 60_000 } else { 2_000 });
        self.rest(Duration::from_micros(micros)).await;
    }

    /// Runs a request to its end even if the caller has gone.
    fn call<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Self, &mut HashMap<u128, (Stored, Time)>) -> T + Send + 'static,
    ) -> StoreFuture<'_, T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let faults = *self.faults.lock().unwrap();
        if faults.silent {
            return Box::pin(std::future::pending());
        }
        let away = || Err(StoreError::Unreachable("unplugged".to_owned()));
        let Some(store) = self.me.upgrade().filter(|_| !faults.away) else {
            return Box::pin(async move { away() });
        };
        let (is_late, is_lost) = (self.once_in(faults.late), self.once_in(faults.lost));
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            store.way(is_late).await;
            let value = {
                let mut rows = store.rows.lock().unwrap();
                let now = store.now();
                rows.retain(|_, (_, until)| *until > now);
                what(&store, &mut rows)
            };
            let answer = Clocked::with_clock(value, store.now());
            store.way(is_late).await;
            drop(sender.send(if is_lost { away() } else { Ok(answer) }));
        });
        Box::pin(async move { receiver.await.unwrap_or_else(|_| away()) })
    }
}

impl CompareAndSwap for Store {
    fn load(&self, Key(key): Key) -> StoreFuture<'_, Option<Stored>> {
        self.call(move |_, rows| rows.get(&key).map(|(stored, _)| stored.clone()))
    }

    fn swap(&self, Key(key): Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        self.call(move |store, rows| {
            let current = rows.get(&key).map(|(stored, _)| stored.clone());
            if current.as_ref().map(|stored| stored.version) != old {
                return Swap::Conflict(current);
            }
            let version = store.version();
            rows.insert(key, (Stored { bytes: new.bytes, version }, store.now().after(new.ttl)));
            Swap::Done(version)
        })
    }

    fn can_step(&self, shape: &StepShape) -> bool {
        matches!(shape, StepShape::Continuous(_))
    }

    fn swap_or_step(
        &self,
        Key(key): Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        program: StepProgram,
    ) -> StoreFuture<'_, Swap> {
        self.call(move |store, rows| {
            let current = rows.get(&key).map(|(stored, _)| stored.clone());
            let version = store.version();
            if current.as_ref().map(|stored| stored.version) == old {
                rows.insert(key, (Stored { bytes: new.bytes, version }, store.now().after(new.ttl)));
                return Swap::Done(version);
            }
            let Some(Stored { bytes: found, .. }) = current.clone() else { return Swap::Conflict(None) };
            let Some(tat) = stepped(&found, &new.bytes, &program, store.now()) else {
                return Swap::Conflict(current);
            };
            let bytes = [&found[..found.len() - 8], &tat.to_be_bytes()].concat();
            let (now, full_at) = (program.now, Time::from_nanos(tat.unsigned_abs()));
            let ttl = full_at.since(now).max(Span::from_secs(1));
            rows.insert(key, (Stored { bytes, version }, store.now().after(ttl)));
            Swap::Stepped { found, now, version }
        })
    }

    fn probe(&self, _server: ServerId) -> StoreFuture<'_, ()> {
        self.call(|_, _| ())
    }
}

/// The next state of a continuous bucket, as a database with expressions calculates it.
fn stepped(found: &[u8], new: &[u8], program: &StepProgram, now: Time) -> Option<i64> {
    let sum = program.sum()?;
    let (header, state) = found.split_at_checked(found.len().checked_sub(8)?)?;
    let tat = i64::from_be_bytes(state.try_into().ok()?);
    let ahead = (tat - sum.now).max(0);
    let is_in_time = now.as_nanos() >= sum.from.unsigned_abs() && now < program.until;
    let is_ours = found.len() == new.len() && new.starts_with(header) && is_in_time;
    let fits = tat > 0 && ahead <= sum.limit && ahead <= sum.max_ttl;
    (is_ours && fits).then(|| sum.now + (ahead + sum.add).max(sum.floor))
}
