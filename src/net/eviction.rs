//! Chooses the idle connection to close when connection slots, descriptors or memory run short.
//!
//! It picks the one that has been idle longest, first among the clients that hold most. It closes nothing: it sends a
//! request, and closing is left to the connection's own task, which alone knows whether it is idle. One scan of all
//! connections finds several candidates, so a new connection pays for a few of them and not for all.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Waker};

use crate::time::{Clock, Span, Time};

/// All connections that may be evicted.
#[derive(Debug)]
pub(super) struct Evictions {
    table: Mutex<EvictionTable>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct EvictionTable {
    next: u64,
    all: HashMap<u64, Arc<Evictable>>,
    /// What the last scan found, the first to be evicted last.
    candidates: Vec<Candidate>,
    scanned: Time,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Evictable {
    /// The connections of its client's prefix; `None` where they are not counted.
    prefix_connections: Option<Arc<AtomicUsize>>,
    /// Since when it is idle, in nanoseconds; 0 while it serves a request.
    idle_since: AtomicU64,
    /// The value of `idle_since` for which it was asked to close.
    requested: AtomicU64,
    waker: OnceLock<Waker>,
}

/// The registration of a connection, as long as it lives.
#[derive(Debug)]
pub(super) struct EvictionEntry {
    evictions: Arc<Evictions>,
    number: u64,
    connection: Arc<Evictable>,
}

#[derive(Debug)]
struct Candidate {
    connection: Arc<Evictable>,
    since: u64,
    /// How many connections its prefix holds once those that are idle for longer have closed.
    prefix_rank: usize,
}

/// The result of an eviction.
#[derive(Debug)]
pub(super) enum EvictOutcome {
    /// This connection was asked to close.
    Requested(EvictionRequest),
    /// The idle connections belong to prefixes that hold fewer than the new client's.
    Denied,
    /// No connection is idle.
    Nothing,
}

/// A connection that was asked to close.
#[derive(Debug)]
pub(super) struct EvictionRequest(Arc<Evictable>);

impl EvictionRequest {
    pub(super) fn has_gone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Evictions {
    pub(super) fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), clock: clock.clone() })
    }

    pub(super) fn register(self: &Arc<Self>, prefix_connections: Option<Arc<AtomicUsize>>) -> EvictionEntry {
        let (idle_since, requested, waker) = Default::default();
        let connection = Arc::new(Evictable { prefix_connections, idle_since, requested, waker });
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.all.insert(number, Arc::clone(&connection));
        EvictionEntry { evictions: Arc::clone(self), number, connection }
    }

    /// Asks one connection to close for a client whose prefix holds this many.
    pub(super) fn evict(&self, connections: usize) -> EvictOutcome {
        let now = self.clock.now();
        let mut table = self.table();
        if now.since(table.scanned) > STALE {
            table.candidates.clear();
        }
        for may_scan in [true, false] {
            while let Some(candidate) = table.candidates.pop() {
                if !candidate.is_still_idle() {
                    continue;
                }
                if candidate.prefix_rank < connections {
                    table.candidates.push(candidate);
                    return EvictOutcome::Denied;
                }
                return EvictOutcome::Requested(candidate.request());
            }
            // If no connection is idle, another scan so soon would find none either.
            if may_scan && now.since(table.scanned) >= MIN_SCAN_INTERVAL {
                table.scan(now);
            }
        }
        EvictOutcome::Nothing
    }

    fn table(&self) -> MutexGuard<'_, EvictionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvictionTable {
    fn scan(&mut self, now: Time) {
        let idle = self.all.values().filter_map(|connection| {
            let since = connection.idle_since.load(Acquire);
            let is_candidate =
                since != 0 && since <= now.as_nanos() && connection.requested.load(Relaxed) != since;
            is_candidate.then(|| Candidate { connection: Arc::clone(connection), since, prefix_rank: 0 })
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable_by_key(|candidate| (candidate.connection.prefix(), candidate.since));
        for of_one_prefix in
            idle.chunk_by_mut(|one, other| one.connection.prefix() == other.connection.prefix())
        {
            let connections =
                of_one_prefix.first().map_or(0, |candidate| candidate.connection.prefix_connections());
            for (closed, candidate) in of_one_prefix.iter_mut().enumerate() {
                candidate.prefix_rank = connections.saturating_sub(closed);
            }
        }
        idle.sort_unstable_by_key(|candidate| (candidate.prefix_rank, u64::MAX - candidate.since));
        let count = (self.all.len() / SCAN_SHARE).max(MIN_CANDIDATES).min(idle.len());
        self.candidates = idle.split_off(idle.len() - count);
        self.scanned = now;
    }
}

impl Evictable {
    /// Tells prefixes apart; all connections that are not counted are one.
    fn prefix(&self) -> usize {
        self.prefix_connections.as_ref().map_or(0, |count| Arc::as_ptr(count) as usize)
    }

    fn prefix_connections(&self) -> usize {
        self.prefix_connections.as_ref().map_or(0, |count| count.load(Relaxed))
    }
}

impl Candidate {
    fn is_still_idle(&self) -> bool {
        self.connection.idle_since.load(Acquire) == self.since
    }

    fn request(self) -> EvictionRequest {
        self.connection.requested.store(self.since, Relaxed);
        if let Some(waker) = self.connection.waker.get() {
            waker.wake_by_ref();
        }
        EvictionRequest(self.connection)
    }
}

impl EvictionEntry {
    /// Reports since when the connection is idle; `None` while it serves. Returns whether it is to close. A connection
    /// is one task for its whole life, so its waker never changes.
    pub(super) fn poll_evicted(&self, idle_since: Option<Time>, cx: &Context<'_>) -> bool {
        let since = idle_since.map_or(0, Time::as_nanos);
        self.connection.waker.get_or_init(|| cx.waker().clone());
        // A thread that sees this value finds the waker.
        self.connection.idle_since.store(since, Release);
        since != 0 && self.connection.requested.load(Relaxed) == since
    }
}

impl Drop for EvictionEntry {
    fn drop(&mut self) {
        self.evictions.table().all.remove(&self.number);
    }
}

/// A scan finds this share of all connections: so it bounds the work for each eviction.
const SCAN_SHARE: usize = 16;
const MIN_CANDIDATES: usize = 16;
const STALE: Span = Span::from_secs(1);
const MIN_SCAN_INTERVAL: Span = Span::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    struct Setting {
        clock: Clock,
        evictions: Arc<Evictions>,
    }

    impl Setting {
        fn new() -> Self {
            let clock = Clock::manual(Time::from_nanos(1_800_000_000_000_000_000));
            Self { evictions: Evictions::new(&clock), clock }
        }

        /// Connections of one prefix that became idle one second after the other.
        fn idle(&self, count: u64) -> Vec<EvictionEntry> {
            let connections = Arc::new(AtomicUsize::new(usize::try_from(count).unwrap()));
            let enter = |number| {
                let entry = self.evictions.register(Some(Arc::clone(&connections)));
                let since = self.clock.now().before(Span::from_secs(count - number));
                assert!(!entry.poll_evicted(Some(since), &noop_context()));
                entry
            };
            (0..count).map(enter).collect()
        }

        fn evict(&self, connections: usize) -> EvictOutcome {
            self.clock.set(self.clock.now().after(MIN_SCAN_INTERVAL));
            self.evictions.evict(connections)
        }
    }

    fn noop_context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn is_requested(entry: &EvictionEntry) -> bool {
        entry.connection.requested.load(Relaxed) != 0
    }

    #[test]
    fn the_longest_idle_of_those_who_hold_most_goes_first_until_all_hold_the_same() {
        let setting = Setting::new();
        let (few, many) = (setting.idle(3), setting.idle(5));
        let requested = || [&few, &many].map(|entries| entries.iter().map(is_requested).collect::<Vec<_>>());
        assert!(
            matches!(setting.evict(0), EvictOutcome::Requested(_))
                && matches!(setting.evict(0), EvictOutcome::Requested(_))
        );
        assert_eq!(requested(), [vec![false; 3], vec![true, true, false, false, false]]);
        (0..2).for_each(|_| assert!(matches!(setting.evict(0), EvictOutcome::Requested(_))));
        assert_eq!(requested(), [vec![true, false, false], vec![true, true, true, false, false]]);
    }

    #[test]
    fn a_client_with_more_connections_takes_no_slot_of_idle_clients() {
        let setting = Setting::new();
        let few = setting.idle(2);
        assert!(matches!(setting.evict(3), EvictOutcome::Denied));
        assert!(matches!(setting.evict(2), EvictOutcome::Requested(_)));
        assert!(is_requested(&few[0]) && !is_requested(&few[1]));
    }

    #[test]
    fn who_serves_again_is_left_alone_and_who_leaves_is_forgotten() {
        let setting = Setting::new();
        let mut entries = setting.idle(2);
        let EvictOutcome::Requested(leaving) = setting.evict(0) else { panic!() };
        assert!(!entries[0].poll_evicted(None, &noop_context()), "a request has come");
        assert!(!entries[0].poll_evicted(Some(setting.clock.now()), &noop_context()), "and was answered");
        assert!(!leaving.has_gone());
        drop(entries.remove(0));
        assert!(leaving.has_gone());
        assert!(!entries[0].poll_evicted(None, &noop_context()));
        assert!(matches!(setting.evict(0), EvictOutcome::Nothing));
    }

    #[test]
    fn proxies_in_front_give_way_last() {
        let setting = Setting::new();
        let proxy = setting.evictions.register(None);
        assert!(!proxy.poll_evicted(Some(Time::from_nanos(1)), &noop_context()));
        let other = setting.idle(1);
        assert!(matches!(setting.evict(0), EvictOutcome::Requested(_)));
        assert!(is_requested(&other[0]) && !is_requested(&proxy));
        assert!(matches!(setting.evict(0), EvictOutcome::Requested(_)));
        assert!(is_requested(&proxy));
    }

    #[test]
    fn ten_thousand_that_give_way_cost_a_look_at_a_few_each() {
        let setting = Setting::new();
        let entries = setting.idle(10_000);
        let mut scans = 0;
        for _ in 0..5_000 {
            scans += usize::from(setting.evictions.table().candidates.is_empty());
            assert!(matches!(setting.evict(0), EvictOutcome::Requested(_)));
        }
        // One scan a second besides, which covers a hundred evictions here.
        assert!(scans <= 5_000 / (10_000 / SCAN_SHARE) + 5_000 / 100 + 1, "{scans}");
        assert_eq!(entries.iter().filter(|entry| is_requested(entry)).count(), 5_000);
    }
}
