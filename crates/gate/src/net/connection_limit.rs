//! Limits connections: how many there may be in all and per client prefix, how fast new ones may come, and how many the
//! machine can bear.
//!
//! It decides before a byte is read. Descriptors are not counted: the kernel gives out the lowest free number, so a
//! high one means that all below it are taken. Memory is watched elsewhere, which sets a ceiling here. If slots or
//! resources run short, an idle connection is evicted; if only those of one prefix do, one of that prefix.

mod client_rate;
mod held_refusals;
mod open_connections;

use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustix::process::{Resource, getrlimit};
use tokio::task::yield_now;
use tokio::time::sleep;

pub use self::client_rate::{ClientRateLimiter, ConnectionQuota};
pub use self::held_refusals::HeldRefusal;
use self::held_refusals::HeldRefusals;
use self::open_connections::{Eviction, OpenConnection, OpenConnections};
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::time::{Clock, Time};

/// The limits on connections.
pub struct ConnectionLimit {
    slots: Arc<ConnectionSlots>,
    per_client: AtomicUsize,
    rate: ArcSwapOption<ClientRateLimiter>,
    held_refusals: Arc<HeldRefusals>,
    /// The first descriptor that is reserved for connections to upstreams and stores, for operators and for files.
    reserved_descriptors: RawFd,
    /// The maximum number of connections while memory is short.
    ceiling: AtomicUsize,
    open: Arc<Mutex<OpenConnections>>,
    /// Prefixes with requests at upstreams.
    clients_at_upstreams: Arc<AtomicUsize>,
    clock: Clock,
}

/// An admitted connection; dropping it frees its slot.
#[derive(Debug)]
pub struct Permit {
    // Freed before `connection`, by which an evicting client sees that this one has gone.
    _slot: ConnectionSlot,
    connection: Arc<OpenConnection>,
    number: u64,
    open: Arc<Mutex<OpenConnections>>,
    held_refusals: Arc<HeldRefusals>,
    clients_at_upstreams: Arc<AtomicUsize>,
}

/// The requests that a client has at upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLoad {
    /// The client's prefix.
    pub prefix: IpAddr,
    /// Their number, at least 1.
    pub requests: usize,
    /// Prefixes with such requests, this one among them.
    pub clients: usize,
}

/// Why a client is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitError {
    /// All slots are taken, and the idle connections belong to prefixes that hold fewer.
    Connections,
    /// Too many connections from its prefix.
    ClientMax,
    /// Too many new connections from its prefix.
    ClientRate,
    /// Memory is short.
    Memory,
    /// Descriptors are short.
    Descriptors,
}

impl ConnectionLimit {
    /// Limits of `connections` in all, `per_client` from one prefix, and new ones at this rate; and the descriptors
    /// that this process may have now.
    #[must_use]
    pub fn new(connections: usize, per_client: usize, rate: Option<ConnectionQuota>, clock: &Clock) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let reserve = (descriptors / RESERVED_SHARE).min(MAX_RESERVE);
        Self {
            slots: ConnectionSlots::new(connections),
            per_client: AtomicUsize::new(per_client),
            rate: ArcSwapOption::new(limiter(rate, clock)),
            held_refusals: Arc::new(HeldRefusals::new(connections, per_client)),
            reserved_descriptors: RawFd::try_from(descriptors - reserve).unwrap_or(RawFd::MAX),
            ceiling: AtomicUsize::new(usize::MAX),
            open: Arc::default(),
            clients_at_upstreams: Arc::default(),
            clock: clock.clone(),
        }
    }

    /// Changes the limits. Open connections stay. If the rate changes, each prefix has its whole burst again.
    pub fn reconfigure(&self, connections: usize, per_client: usize, rate: Option<ConnectionQuota>) {
        self.slots.resize(connections);
        self.per_client.store(per_client, Relaxed);
        self.held_refusals.reconfigure(connections, per_client);
        if self.rate.load().as_ref().map(|limiter| limiter.quota) != rate {
            self.rate.store(limiter(rate, &self.clock));
        }
    }

    /// Limits the connections while memory is short; `None` leaves only `proxy.connections`. Open connections stay.
    pub fn set_ceiling(&self, ceiling: Option<usize>) {
        self.ceiling.store(ceiling.unwrap_or(usize::MAX), Relaxed);
    }

    /// Open connections, and those that are being admitted.
    #[must_use]
    pub fn active(&self) -> usize {
        self.slots.taken()
    }

    /// Admits an accepted connection or rejects it. If no slot is free, an idle connection is evicted; if none is idle,
    /// this waits. Meanwhile each listener holds back at most one client, and the listen backlog the others.
    ///
    /// The limits of clients apply per `prefix`; `None` is a client without limits: one on a Unix socket, a proxy in
    /// front of us that speaks for many, or one that is [identified](Self::identify) later.
    ///
    /// # Errors
    /// Why it is rejected.
    pub async fn admit(&self, socket: &impl AsRawFd, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        let slot = self.take_slot(prefix).await?;
        self.check_resources(socket, prefix).await?;
        let (number, connection) = self.open().register();
        let (open, held_refusals) = (Arc::clone(&self.open), Arc::clone(&self.held_refusals));
        let clients_at_upstreams = Arc::clone(&self.clients_at_upstreams);
        let permit = Permit { _slot: slot, connection, number, open, held_refusals, clients_at_upstreams };
        self.identify(permit, prefix).await
    }

    /// Applies the limits of a client to a connection whose client is known now. If its prefix holds all connections that
    /// it may, an idle one of them is evicted.
    ///
    /// # Errors
    /// [`AdmitError::ClientRate`] and [`AdmitError::ClientMax`].
    pub async fn identify(&self, mut permit: Permit, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        let Some(prefix) = prefix else { return Ok(permit) };
        if self.rate.load().as_ref().is_some_and(|rate| !rate.allows(prefix)) {
            return Err(AdmitError::ClientRate);
        }
        let identify = || self.open().identify(permit.number, prefix, self.per_client.load(Relaxed));
        let mut identified = identify();
        if identified.is_none() {
            let leaving = self.open().evict_own(prefix, self.clock.now());
            if has_gone(&leaving.ok_or(AdmitError::ClientMax)?).await {
                identified = identify();
            }
        }
        permit.connection = identified.ok_or(AdmitError::ClientMax)?;
        Ok(permit)
    }

    async fn take_slot(&self, prefix: Option<IpAddr>) -> Result<ConnectionSlot, AdmitError> {
        if let Some(slot) = self.slots.try_take() {
            return Ok(slot);
        }
        let mut slot = pin!(self.slots.take());
        loop {
            if let Eviction::Denied = self.evict_for(prefix) {
                return Err(AdmitError::Connections);
            }
            tokio::select! {
                biased;
                slot = &mut slot => return Ok(slot),
                () = sleep(EVICT_RETRY) => {}
            }
        }
    }

    /// Checks that the machine can bear this connection, which has its slot already.
    async fn check_resources(&self, socket: &impl AsRawFd, prefix: Option<IpAddr>) -> Result<(), AdmitError> {
        let Some(shortage) = self.shortage(socket) else { return Ok(()) };
        match self.evict_for(prefix) {
            Eviction::Requested(leaving) if has_gone(&leaving).await => match shortage {
                // This connection keeps its high descriptor, and the next one gets the freed one.
                AdmitError::Descriptors => Ok(()),
                _ => self.shortage(socket).map_or(Ok(()), Err),
            },
            _ => Err(shortage),
        }
    }

    fn shortage(&self, socket: &impl AsRawFd) -> Option<AdmitError> {
        if socket.as_raw_fd() >= self.reserved_descriptors {
            return Some(AdmitError::Descriptors);
        }
        let ceiling = self.ceiling.load(Relaxed);
        (ceiling < usize::MAX && self.slots.taken() > ceiling).then_some(AdmitError::Memory)
    }

    fn evict_for(&self, prefix: Option<IpAddr>) -> Eviction {
        self.open().evict(prefix, self.clock.now())
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Reports since when the connection is idle; `None` while it serves. Returns whether it is to close, as long as it
    /// stays idle. To be called by the connection's own task, which is woken when the result changes.
    pub fn poll_evicted(&self, idle_since: Option<Time>, cx: &Context<'_>) -> bool {
        self.connection.poll_evicted(idle_since, cx)
    }

    /// Counts a request of this client's prefix at an upstream; `None` if they are not counted.
    pub fn request_begins(&self) -> Option<ClientLoad> {
        let prefix = self.connection.prefix?;
        let requests = self.connection.client.requests.fetch_add(1, Relaxed) + 1;
        let is_first = usize::from(requests == 1);
        let clients = self.clients_at_upstreams.fetch_add(is_first, Relaxed) + is_first;
        Some(ClientLoad { prefix, requests, clients })
    }

    /// A place for a refusal that is held before it is sent; `None` if this client, or all of them, hold as many as they
    /// may.
    pub fn hold_refusal(&self) -> Option<HeldRefusal> {
        self.held_refusals.hold(self.connection.prefix.map(|_| &self.connection.client))
    }

    /// Counts the end of such a request.
    pub fn request_ends(&self) {
        if self.connection.prefix.is_some() && self.connection.client.requests.fetch_sub(1, Relaxed) == 1 {
            self.clients_at_upstreams.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(self.connection.prefix, self.number);
    }
}

impl std::fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionLimit").field("free", &self.slots.free()).finish_non_exhaustive()
    }
}

fn limiter(rate: Option<ConnectionQuota>, clock: &Clock) -> Option<Arc<ClientRateLimiter>> {
    ClientRateLimiter::new(rate?, clock).map(Arc::new)
}

/// Whether an evicted connection has closed, within the moment that it takes.
async fn has_gone(leaving: &Weak<OpenConnection>) -> bool {
    // One of the same worker closes at once.
    yield_now().await;
    for _ in 0..EVICT_POLLS {
        if leaving.strong_count() == 0 {
            return true;
        }
        sleep(EVICT_POLL).await;
    }
    leaving.strong_count() == 0
}

/// A quarter of all descriptors: a connection to an upstream serves clients one after the other, so these need fewer.
const RESERVED_SHARE: u64 = 4;
/// Twice the default of `proxy.upstream_max`.
const MAX_RESERVE: u64 = 1024;
/// Within this time an evicted connection has closed, or has a request to serve.
const EVICT_RETRY: Duration = Duration::from_millis(20);
const EVICT_POLL: Duration = Duration::from_millis(1);
const EVICT_POLLS: usize = 20;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::time::Span;

    struct Numbered(RawFd);

    impl AsRawFd for Numbered {
        fn as_raw_fd(&self) -> RawFd {
            self.0
        }
    }

    fn prefix(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    async fn enter(limit: &ConnectionLimit, prefix: Option<IpAddr>) -> Result<Permit, AdmitError> {
        limit.admit(&Numbered(5), prefix).await
    }

    #[tokio::test]
    async fn a_prefix_may_hold_its_share_and_leaving_frees_it() {
        let limit = ConnectionLimit::new(10, 2, None, &Clock::system());
        let first = enter(&limit, prefix(1)).await.unwrap();
        let _second = enter(&limit, prefix(1)).await.unwrap();
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        assert!(enter(&limit, prefix(2)).await.is_ok());
        drop(first);
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn new_connections_come_at_their_rate_on_our_clock() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = ConnectionQuota { replenish: Span::from_millis(100), burst: 2 };
        let limit = ConnectionLimit::new(10, 10, Some(rate), &clock);
        assert!(enter(&limit, prefix(1)).await.is_ok() && enter(&limit, prefix(1)).await.is_ok());
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        assert!(enter(&limit, prefix(2)).await.is_ok());
        clock.set(clock.now().after(Span::from_millis(100)));
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_proxy_in_front_of_us_has_no_bounds_of_its_own() {
        let limit = ConnectionLimit::new(
            10,
            1,
            Some(ConnectionQuota { replenish: Span::from_secs(9), burst: 1 }),
            &Clock::system(),
        );
        let permits: Vec<_> = [enter(&limit, None).await, enter(&limit, None).await].into();
        assert!(permits.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn no_connection_is_accepted_beyond_all_slots() {
        let limit = ConnectionLimit::new(1, 9, None, &Clock::system());
        let permit = enter(&limit, prefix(1)).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), enter(&limit, None)).await.is_err());
        drop(permit);
        enter(&limit, None).await.unwrap();
    }

    #[tokio::test]
    async fn other_bounds_hold_from_then_on_and_the_same_rate_remembers_who_came() {
        let clock = Clock::manual(Time::from_nanos(1_000_000_000_000));
        let rate = |burst| Some(ConnectionQuota { replenish: Span::from_secs(60), burst });
        let limit = ConnectionLimit::new(10, 10, rate(1), &clock);
        let _first = enter(&limit, prefix(1)).await.unwrap();
        limit.reconfigure(10, 1, rate(1));
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientRate);
        limit.reconfigure(10, 1, rate(9));
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        limit.reconfigure(10, 2, None);
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_client_that_is_identified_later_has_the_same_limits() {
        let limit = ConnectionLimit::new(10, 1, None, &Clock::system());
        let first = limit.identify(enter(&limit, None).await.unwrap(), prefix(1)).await.unwrap();
        let second = enter(&limit, None).await.unwrap();
        assert_eq!(limit.identify(second, prefix(1)).await.unwrap_err(), AdmitError::ClientMax);
        assert_eq!(limit.active(), 1, "the rejected one has left its slot");
        assert_eq!(
            first.request_begins(),
            Some(ClientLoad { prefix: prefix(1).unwrap(), requests: 1, clients: 1 })
        );
    }

    #[tokio::test]
    async fn no_connection_is_admitted_beyond_the_ceiling_until_it_is_lifted() {
        let limit = ConnectionLimit::new(9, 9, None, &Clock::system());
        let _first = enter(&limit, None).await.unwrap();
        limit.set_ceiling(Some(2));
        let second = enter(&limit, None).await.unwrap();
        assert_eq!(enter(&limit, None).await.unwrap_err(), AdmitError::Memory);
        drop(second);
        let _second = enter(&limit, None).await.expect("a closed connection frees its slot");
        limit.set_ceiling(None);
        assert!(enter(&limit, None).await.is_ok());
    }

    #[tokio::test]
    async fn while_memory_is_short_an_idle_connection_gives_way() {
        let limit = ConnectionLimit::new(9, 9, None, &Clock::system());
        let idle = enter(&limit, prefix(1)).await.unwrap();
        assert!(!idle.poll_evicted(Some(Time::from_nanos(1)), &Context::from_waker(Waker::noop())));
        limit.set_ceiling(Some(1));
        let (newcomer, ()) = tokio::join!(enter(&limit, prefix(2)), async {
            assert!(idle.poll_evicted(Some(Time::from_nanos(1)), &Context::from_waker(Waker::noop())));
            drop(idle);
        });
        newcomer.unwrap();
    }

    #[tokio::test]
    async fn a_prefix_that_holds_its_share_replaces_its_own_idle_connection() {
        let limit = ConnectionLimit::new(9, 1, None, &Clock::system());
        let idle = enter(&limit, prefix(1)).await.unwrap();
        assert!(!idle.poll_evicted(Some(Time::from_nanos(1)), &Context::from_waker(Waker::noop())));
        let (newcomer, ()) = tokio::join!(enter(&limit, prefix(1)), async {
            assert!(idle.poll_evicted(Some(Time::from_nanos(1)), &Context::from_waker(Waker::noop())));
            drop(idle);
        });
        let newcomer = newcomer.unwrap();
        assert_eq!(limit.active(), 1);
        assert_eq!(enter(&limit, prefix(1)).await.unwrap_err(), AdmitError::ClientMax, "it serves");
        drop(newcomer);
        assert!(enter(&limit, prefix(1)).await.is_ok());
    }

    #[tokio::test]
    async fn the_last_descriptors_are_not_for_clients() {
        let limit = ConnectionLimit {
            reserved_descriptors: 48,
            ..ConnectionLimit::new(9, 9, None, &Clock::system())
        };
        assert!(limit.admit(&Numbered(47), None).await.is_ok());
        assert_eq!(limit.admit(&Numbered(48), None).await.unwrap_err(), AdmitError::Descriptors);
    }
}
