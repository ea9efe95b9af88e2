//! The addresses that the name of an upstream had lately.
//!
//! The name is looked up again and again by the application, which tells the answers here. One of DNS holds for a time, and
//! connections go to its addresses; where the answer is another resolver's, or no longer holds, the name is looked up for each
//! connection. An address that has been in no answer for a while is gone: connections to it serve their request to the end,
//! and no other. While the name has no answer, its last addresses are connected to.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Health, UpstreamAddress};
use crate::time::{Span, Time};

/// The addresses of one name.
#[derive(Debug, Default)]
pub(super) struct NameAddresses {
    table: Mutex<AddressTable>,
    /// There is another answer, or there is none.
    changes: Notify,
    turn: AtomicUsize,
}

/// An address of a name, for the connections to it.
#[derive(Debug)]
pub(super) struct NamedAddress {
    pub(super) ip: IpAddr,
    is_gone: AtomicBool,
    /// Whether the last connection to it failed.
    pub(super) has_failed: AtomicBool,
}

/// The answer of a lookup.
#[derive(Debug, Clone, Copy)]
pub struct NameAnswer<'a> {
    /// At least one.
    pub addresses: &'a [IpAddr],
    /// How long it holds; `None` if nobody said.
    pub holds: Option<Span>,
}

#[derive(Debug, Default)]
struct AddressTable {
    /// The latest last.
    seen: Vec<SeenAddress>,
    /// Those of the last answer, until it no longer holds.
    current: Option<(Vec<Arc<NamedAddress>>, Time)>,
    /// Whether the last lookup had no answer.
    is_failing: bool,
    was_looked_up: bool,
}

#[derive(Debug)]
struct SeenAddress {
    address: Arc<NamedAddress>,
    at: Time,
}

impl NamedAddress {
    /// Whether the name no longer has it.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }
}

impl NameAddresses {
    /// A connection to this address was made by the name, which was looked up for it.
    pub(super) fn connected(&self, ip: IpAddr, now: Time) -> Arc<NamedAddress> {
        let mut table = self.lock();
        table.is_failing = false;
        table.see(ip, now)
    }

    /// The addresses of the last answer while it holds, in turn; those that failed last.
    pub(super) fn current(&self, now: Time) -> Option<Vec<Arc<NamedAddress>>> {
        let mut addresses = match &self.lock().current {
            Some((addresses, until)) if now < *until => addresses.clone(),
            _ => return None,
        };
        let turn = self.turn.fetch_add(1, Relaxed);
        let count = addresses.len().max(1);
        addresses.rotate_left(turn % count);
        addresses.sort_by_key(|address| address.has_failed.load(Relaxed));
        Some(addresses)
    }

    /// The addresses of the last answer refuse: it no longer holds.
    pub(super) fn forget_current(&self) {
        self.lock().current = None;
    }

    /// The same of an answer that holds, or of the next one; `None` at once if the last lookup had no answer.
    pub(super) async fn next_current(&self, now: impl Fn() -> Time) -> Option<Vec<Arc<NamedAddress>>> {
        let mut changed = pin!(self.changes.notified());
        changed.as_mut().enable();
        if let Some(current) = self.current(now()) {
            return Some(current);
        }
        if self.lock().is_failing {
            return None;
        }
        changed.await;
        self.current(now())
    }

    /// The addresses that were seen last, the latest first.
    pub(super) fn last(&self) -> Vec<Arc<NamedAddress>> {
        self.lock().seen.iter().rev().map(|seen| Arc::clone(&seen.address)).take(MAX_TRIED).collect()
    }

    /// Whether the last lookup had no answer, and an earlier one had.
    pub(super) fn is_failing(&self) -> bool {
        let table = self.lock();
        table.is_failing && !table.seen.is_empty()
    }

    fn answered(&self, answer: NameAnswer<'_>, now: Time) {
        let mut table = self.lock();
        let addresses = answer.addresses.iter().take(MAX_ADDRESSES).map(|ip| table.see(*ip, now)).collect();
        table.current = answer.holds.map(|holds| (addresses, now.after(holds.plus(LATE))));
        table.is_failing = false;
        let keep =
            answer.holds.map_or(KEEP, |holds| Span::from_nanos(holds.times(3).as_nanos() / 2).min(KEEP));
        let AddressTable { seen, .. } = &mut *table;
        seen.retain(|seen| seen.stays(now, keep));
    }

    fn lock(&self) -> MutexGuard<'_, AddressTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressTable {
    fn see(&mut self, ip: IpAddr, now: Time) -> Arc<NamedAddress> {
        let address = match self.seen.iter().position(|seen| seen.address.ip == ip) {
            Some(at) => self.seen.remove(at).address,
            None => Arc::new(NamedAddress {
                ip,
                is_gone: AtomicBool::new(false),
                has_failed: AtomicBool::new(false),
            }),
        };
        if self.seen.len() >= MAX_ADDRESSES {
            self.seen.remove(0).address.is_gone.store(true, Relaxed);
        }
        self.seen.push(SeenAddress { address: Arc::clone(&address), at: now });
        address
    }
}

impl SeenAddress {
    fn stays(&self, now: Time, keep: Span) -> bool {
        let stays = now.since(self.at) < keep;
        if !stays {
            self.address.is_gone.store(true, Relaxed);
        }
        stays
    }
}

impl Health {
    /// The name that has to be looked up to connect to it; `None` for an address, and for the name of this machine.
    #[must_use]
    pub fn looked_up_name(&self) -> Option<&str> {
        match &self.target.address {
            UpstreamAddress::Tcp { host, .. } | UpstreamAddress::Tls { host, .. } => {
                (host != "localhost" && host.parse::<IpAddr>().is_err()).then_some(host)
            }
            UpstreamAddress::Unix(_) => None,
        }
    }

    /// Whether no lookup of its name has ended yet, with or without an answer.
    #[must_use]
    pub fn was_never_looked_up(&self) -> bool {
        !self.addresses.lock().was_looked_up
    }

    /// Takes the answer of a lookup of its name, or that there is none. Returns whether one of both came after the other, for
    /// a name that has addresses.
    pub fn looked_up(&self, answer: Option<NameAnswer<'_>>) -> bool {
        let was_failing = self.addresses.is_failing();
        match answer {
            Some(answer) => self.addresses.answered(answer, self.clock.now()),
            None => self.addresses.lock().is_failing = true,
        }
        self.addresses.lock().was_looked_up = true;
        self.addresses.changes.notify_waiters();
        was_failing != self.addresses.is_failing()
    }
}

/// Addresses of a name at most; a new one replaces the one that was not seen for longest.
const MAX_ADDRESSES: usize = 64;
/// Addresses that are tried without an answer.
const MAX_TRIED: usize = 8;
/// How long an address may be in no answer, if a TTL and a half is no shorter: some servers name a part of all addresses in
/// each.
const KEEP: Span = Span::from_secs(15);
/// How long an answer holds beyond its TTL, for the next one to come.
const LATE: Span = Span::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// An answer of which nobody said how long it holds, or of so many seconds.
    fn answer(addresses: &[IpAddr], holds: Option<u64>) -> NameAnswer<'_> {
        NameAnswer { addresses, holds: holds.map(Span::from_secs) }
    }

    fn ips(addresses: &[Arc<NamedAddress>]) -> Vec<IpAddr> {
        addresses.iter().map(|address| address.ip).collect()
    }

    #[test]
    fn an_address_is_gone_when_it_was_in_no_answer_for_a_while_and_comes_back_as_another_one() {
        let known = NameAddresses::default();
        let first = known.connected(ip(1), at(0));
        known.answered(answer(&[ip(2)], None), at(14));
        assert!(!first.is_gone(), "servers may name a part of all");
        known.answered(answer(&[ip(2)], None), at(15));
        assert!(first.is_gone());
        let again = known.connected(ip(1), at(16));
        assert!(first.is_gone() && !again.is_gone());
        assert_eq!(ips(&known.last()), [ip(1), ip(2)]);
        assert!(known.current(at(16)).is_none(), "no answer says how long it holds");
    }

    #[test]
    fn an_answer_is_connected_to_in_turn_while_it_holds_and_an_address_goes_with_the_second_answer_without_it()
     {
        let known = NameAddresses::default();
        known.answered(answer(&[ip(1), ip(2)], Some(4)), at(0));
        let current = known.current(at(5)).unwrap();
        assert_eq!([ips(&current), ips(&known.current(at(5)).unwrap())], [[ip(1), ip(2)], [ip(2), ip(1)]]);
        current[0].has_failed.store(true, Relaxed);
        assert_eq!([(); 2].map(|()| ips(&known.current(at(5)).unwrap())[0]), [ip(2); 2]);
        assert!(known.current(at(6)).is_none());
        known.forget_current();
        assert!(known.current(at(5)).is_none(), "its addresses refused");
        known.answered(answer(&[ip(2)], Some(4)), at(4));
        assert!(!current[0].is_gone() && ips(&known.current(at(4)).unwrap()) == [ip(2)]);
        known.answered(answer(&[ip(2)], Some(4)), at(8));
        assert!(current[0].is_gone());
    }

    #[tokio::test]
    async fn a_first_answer_can_be_waited_for() {
        let known = NameAddresses::default();
        let answers = async {
            known.answered(answer(&[ip(1)], Some(4)), at(0));
            known.changes.notify_waiters();
        };
        let (next, ()) = tokio::join!(known.next_current(|| at(0)), answers);
        assert_eq!(ips(&next.unwrap()), [ip(1)]);
        assert_eq!(ips(&known.next_current(|| at(1)).await.unwrap()), [ip(1)], "at once");
        known.lock().is_failing = true;
        assert!(known.next_current(|| at(9)).await.is_none());
    }

    #[test]
    fn without_an_answer_no_address_goes() {
        let health = Health::new(
            UpstreamAddress::Tcp { host: "app.test".into(), port: 80 },
            1,
            crate::time::Clock::manual(at(0)),
            crate::event::Events::default(),
        );
        assert_eq!(health.looked_up_name(), Some("app.test"));
        assert!(health.was_never_looked_up());
        assert!(!health.looked_up(Some(answer(&[ip(1)], None))) && !health.addresses.is_failing());
        assert!(!health.was_never_looked_up());
        let connected = health.addresses.connected(ip(1), at(0));
        health.clock.set(at(3600));
        assert!(health.looked_up(None) && !health.looked_up(None), "it is told once");
        assert!(health.addresses.is_failing() && !connected.is_gone());
        assert!(health.looked_up(Some(answer(&[ip(2)], None))) && connected.is_gone());
    }

    #[test]
    fn addresses_are_bounded_and_the_longest_unseen_gives_way() {
        let known = NameAddresses::default();
        let first = known.connected(ip(0), at(0));
        let second = known.connected(ip(1), at(0));
        known.connected(ip(0), at(1));
        for last in 2..=64 {
            known.connected(ip(last), at(1));
        }
        assert_eq!(known.lock().seen.len(), 64);
        assert!(second.is_gone() && !first.is_gone());
    }
}
