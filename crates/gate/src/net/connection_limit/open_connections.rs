//! The open connections: how many each client prefix has, and which idle one is to close when slots, descriptors or
//! memory run short.
//!
//! That is the one that has been idle longest, first among the clients that hold most. It is only asked: closing is
//! left to the connection's own task, which alone knows whether it is idle. One scan of all connections finds several of
//! them, so a new connection pays for a few and not for all. A client that holds all that it may yields
//! to itself.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Waker};

use crate::time::{Span, Time};

/// The open connections, and the counters of their clients.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    next: u64,
    /// By prefix and number.
    all: BTreeMap<(Option<IpAddr>, u64), Arc<OpenConnection>>,
    /// Only prefixes with connections.
    clients: HashMap<IpAddr, Arc<ClientCounters>>,
    /// The connections that the last scan found; the next to be evicted is the last one.
    evictable: Vec<IdleConnection>,
    scanned: Time,
}

/// The counters of one client prefix.
#[derive(Debug, Default)]
pub(super) struct ClientCounters {
    /// Changed only by [`OpenConnections`].
    connections: AtomicUsize,
    /// Requests at upstreams.
    pub(super) requests: AtomicUsize,
    /// Refusals that are held before they are sent.
    pub(super) held_refusals: AtomicUsize,
    /// When a scan last found none of them idle, in nanoseconds.
    all_busy: AtomicU64,
}

/// What is known of one connection.
#[derive(Debug, Default)]
pub(super) struct OpenConnection {
    /// The prefix of its client; `None` where it is not counted.
    pub(super) prefix: Option<IpAddr>,
    pub(super) client: Arc<ClientCounters>,
    /// Since when it is idle, in nanoseconds; 0 while it serves a request.
    idle_since: AtomicU64,
    /// The value of `idle_since` for which it was asked to close.
    requested: AtomicU64,
    waker: OnceLock<Waker>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Arc<OpenConnection>,
    since: u64,
    /// How many connections its prefix holds once those that are idle for longer have closed.
    prefix_rank: usize,
}

/// The result of an eviction.
#[derive(Debug)]
pub(super) enum Eviction {
    /// This connection was asked to close.
    Requested(Weak<OpenConnection>),
    /// The idle connections belong to prefixes that hold fewer than the new client's.
    Denied,
    /// No connection is idle.
    Nothing,
}

impl OpenConnections {
    /// Adds a connection that counts for no client. Returns its number, too.
    pub(super) fn register(&mut self) -> (u64, Arc<OpenConnection>) {
        let (number, connection) = (self.next, Arc::default());
        self.next += 1;
        self.all.insert((None, number), Arc::clone(&connection));
        (number, connection)
    }

    /// Counts a connection for the client with this prefix, whose task does not run yet; `None` if it has `max` already.
    pub(super) fn identify(
        &mut self,
        number: u64,
        prefix: IpAddr,
        max: usize,
    ) -> Option<Arc<OpenConnection>> {
        let client = self.clients.entry(prefix).or_default();
        if client.connections.load(Relaxed) >= max {
            return None;
        }
        client.connections.fetch_add(1, Relaxed);
        let client = Arc::clone(client);
        let connection =
            Arc::new(OpenConnection { prefix: Some(prefix), client, ..OpenConnection::default() });
        self.all.remove(&(None, number));
        self.all.insert((Some(prefix), number), Arc::clone(&connection));
        Some(connection)
    }

    /// Removes a connection of a client with this prefix.
    pub(super) fn remove(&mut self, prefix: Option<IpAddr>, number: u64) {
        if let Some(connection) = self.all.remove(&(prefix, number))
            && let Some(prefix) = prefix
            && connection.client.connections.fetch_sub(1, Relaxed) == 1
        {
            self.clients.remove(&prefix);
        }
    }

    /// Asks the connection of this prefix that has been idle longest to close for another one of the same prefix; `None`
    /// if none is idle.
    pub(super) fn evict_own(&mut self, prefix: IpAddr, now: Time) -> Option<Weak<OpenConnection>> {
        let client = self.clients.get(&prefix)?;
        // Another scan so soon would find none either.
        if now.since(Time::from_nanos(client.all_busy.load(Relaxed))) < MIN_SCAN_INTERVAL {
            return None;
        }
        let own = self.all.range((Some(prefix), 0)..=(Some(prefix), u64::MAX));
        let idle = own.filter_map(|(_, connection)| IdleConnection::of(connection, now));
        let oldest = idle.min_by_key(|one| one.since);
        if oldest.is_none() {
            client.all_busy.store(now.as_nanos(), Relaxed);
        }
        oldest.map(IdleConnection::request)
    }

    /// Asks one connection to close for a client with this prefix.
    pub(super) fn evict(&mut self, prefix: Option<IpAddr>, now: Time) -> Eviction {
        let client = prefix.and_then(|prefix| self.clients.get(&prefix));
        let connections = client.map_or(0, |client| client.connections.load(Relaxed));
        if now.since(self.scanned) > STALE {
            self.evictable.clear();
        }
        for may_scan in [true, false] {
            while let Some(idlest) = self.evictable.pop() {
                if !idlest.is_still_idle() {
                    continue;
                }
                if idlest.prefix_rank < connections {
                    self.evictable.push(idlest);
                    return Eviction::Denied;
                }
                return Eviction::Requested(idlest.request());
            }
            // If no connection is idle, another scan so soon would find none either.
            if may_scan && now.since(self.scanned) >= MIN_SCAN_INTERVAL {
                self.scan(now);
            }
        }
        Eviction::Nothing
    }

    fn scan(&mut self, now: Time) {
        let idle = self.all.values().filter_map(|connection| IdleConnection::of(connection, now));
        let mut idle: Vec<_> = idle.collect();
        // All connections that are not counted are of one prefix, which holds none.
        idle.sort_unstable_by_key(|one| (one.connection.prefix, one.since));
        for of_one_prefix in idle.chunk_by_mut(|one, other| one.connection.prefix == other.connection.prefix)
        {
            let connections =
                of_one_prefix.first().map_or(0, |one| one.connection.client.connections.load(Relaxed));
            for (closed, one) in of_one_prefix.iter_mut().enumerate() {
                one.prefix_rank = connections.saturating_sub(closed);
            }
        }
        idle.sort_unstable_by_key(|one| (one.prefix_rank, u64::MAX - one.since));
        let count = (self.all.len() / SCAN_SHARE).max(MIN_CANDIDATES).min(idle.len());
        self.evictable = idle.split_off(idle.len() - count);
        self.scanned = now;
    }
}

impl OpenConnection {
    /// Reports since when the connection is idle; `None` while it serves. Returns whether it is to close. A connection
    /// is one task for its whole life, so its waker never changes.
    pub(super) fn poll_evicted(&self, idle_since: Option<Time>, cx: &Context<'_>) -> bool {
        let since = idle_since.map_or(0, Time::as_nanos);
        self.waker.get_or_init(|| cx.waker().clone());
        // A thread that sees this value finds the waker.
        self.idle_since.store(since, Release);
        since != 0 && self.requested.load(Relaxed) == since
    }
}

impl IdleConnection {
    /// `None` if the connection is not idle, or was asked to close already.
    fn of(connection: &Arc<OpenConnection>, now: Time) -> Option<Self> {
        let since = connection.idle_since.load(Acquire);
        let is_evictable =
            since != 0 && since <= now.as_nanos() && connection.requested.load(Relaxed) != since;
        is_evictable.then(|| Self { connection: Arc::clone(connection), since, prefix_rank: 0 })
    }

    fn is_still_idle(&self) -> bool {
        self.connection.idle_since.load(Acquire) == self.since
    }

    fn request(self) -> Weak<OpenConnection> {
        self.connection.requested.store(self.since, Relaxed);
        if let Some(waker) = self.connection.waker.get() {
            waker.wake_by_ref();
        }
        Arc::downgrade(&self.connection)
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
        now: Time,
        open: OpenConnections,
    }

    /// A client that has connections already, and is of another prefix than all others.
    const NEWCOMER: u8 = 255;

    fn prefix(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    impl Setting {
        fn new() -> Self {
            Self { now: Time::from_nanos(1_800_000_000_000_000_000), open: OpenConnections::default() }
        }

        /// Connections of one prefix that serve requests.
        fn enter(&mut self, client: u8, count: u64) -> Vec<(u64, Arc<OpenConnection>)> {
            let enter = |_| {
                let (number, _) = self.open.register();
                (number, self.open.identify(number, prefix(client), usize::MAX).unwrap())
            };
            (0..count).map(enter).collect()
        }

        /// Connections of one prefix that became idle one second after the other.
        fn idle(&mut self, client: u8, count: u64) -> Vec<(u64, Arc<OpenConnection>)> {
            let entered = self.enter(client, count);
            for (at, (_, connection)) in (0..).zip(&entered) {
                let since = self.now.before(Span::from_secs(count - at));
                assert!(!connection.poll_evicted(Some(since), &noop_context()));
            }
            entered
        }

        fn evict(&mut self) -> Eviction {
            self.now = self.now.after(MIN_SCAN_INTERVAL);
            self.open.evict(Some(prefix(NEWCOMER)), self.now)
        }
    }

    fn noop_context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn is_requested((_, connection): &(u64, Arc<OpenConnection>)) -> bool {
        connection.requested.load(Relaxed) != 0
    }

    #[test]
    fn the_longest_idle_of_those_who_hold_most_goes_first_until_all_hold_the_same() {
        let mut setting = Setting::new();
        let (few, many) = (setting.idle(1, 3), setting.idle(2, 5));
        let requested = || [&few, &many].map(|entries| entries.iter().map(is_requested).collect::<Vec<_>>());
        (0..2).for_each(|_| assert!(matches!(setting.evict(), Eviction::Requested(_))));
        assert_eq!(requested(), [vec![false; 3], vec![true, true, false, false, false]]);
        (0..2).for_each(|_| assert!(matches!(setting.evict(), Eviction::Requested(_))));
        assert_eq!(requested(), [vec![true, false, false], vec![true, true, true, false, false]]);
    }

    #[test]
    fn whoever_holds_more_than_those_who_are_idle_takes_no_place_of_theirs() {
        let mut setting = Setting::new();
        let few = setting.idle(1, 2);
        let serving = setting.enter(NEWCOMER, 3);
        assert!(matches!(setting.evict(), Eviction::Denied));
        setting.open.remove(Some(prefix(NEWCOMER)), serving[0].0);
        assert!(matches!(setting.evict(), Eviction::Requested(_)));
        assert!(is_requested(&few[0]) && !is_requested(&few[1]));
    }

    #[test]
    fn who_serves_again_is_left_alone_and_who_leaves_is_forgotten() {
        let mut setting = Setting::new();
        let mut entries = setting.idle(1, 2);
        let Eviction::Requested(leaving) = setting.evict() else { panic!() };
        assert!(!entries[0].1.poll_evicted(None, &noop_context()), "a request has come");
        assert!(!entries[0].1.poll_evicted(Some(setting.now), &noop_context()), "and was answered");
        assert_ne!(leaving.strong_count(), 0);
        let (number, connection) = entries.remove(0);
        setting.open.remove(Some(prefix(1)), number);
        drop(connection);
        assert_eq!(leaving.strong_count(), 0);
        assert!(!entries[0].1.poll_evicted(None, &noop_context()));
        assert!(matches!(setting.evict(), Eviction::Nothing));
        setting.open.remove(Some(prefix(1)), entries[0].0);
        assert!(setting.open.all.is_empty() && setting.open.clients.is_empty());
    }

    #[test]
    fn a_client_gives_way_to_itself_by_what_has_been_idle_longest() {
        let mut setting = Setting::new();
        let (own, others) = (setting.idle(1, 2), setting.idle(2, 9));
        let serving = setting.enter(1, 1);
        let evict = |setting: &mut Setting| setting.open.evict_own(prefix(1), setting.now).is_some();
        assert!(evict(&mut setting));
        assert!(is_requested(&own[0]) && !is_requested(&own[1]));
        assert!(evict(&mut setting) && is_requested(&own[1]));
        assert!(!evict(&mut setting), "the third one serves");
        assert!(!serving[0].1.poll_evicted(Some(setting.now), &noop_context()));
        assert!(!evict(&mut setting), "another scan has to wait");
        setting.now = setting.now.after(MIN_SCAN_INTERVAL);
        assert!(evict(&mut setting));
        assert!(!others.iter().any(is_requested));
    }

    #[test]
    fn proxies_in_front_give_way_last() {
        let mut setting = Setting::new();
        let proxy = setting.open.register();
        assert!(!proxy.1.poll_evicted(Some(Time::from_nanos(1)), &noop_context()));
        let other = setting.idle(1, 1);
        assert!(matches!(setting.evict(), Eviction::Requested(_)));
        assert!(is_requested(&other[0]) && !is_requested(&proxy));
        assert!(matches!(setting.evict(), Eviction::Requested(_)));
        assert!(is_requested(&proxy));
    }

    #[test]
    fn ten_thousand_that_give_way_cost_a_look_at_a_few_each() {
        let mut setting = Setting::new();
        let entries = setting.idle(1, 10_000);
        let mut scans = 0;
        for _ in 0..5_000 {
            scans += usize::from(setting.open.evictable.is_empty());
            assert!(matches!(setting.evict(), Eviction::Requested(_)));
        }
        // In addition one scan a second, which covers a hundred evictions here.
        assert!(scans <= 5_000 / (10_000 / SCAN_SHARE) + 5_000 / 100 + 1, "{scans}");
        assert_eq!(entries.iter().filter(|entry| is_requested(entry)).count(), 5_000);
    }
}
