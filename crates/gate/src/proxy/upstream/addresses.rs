//! The addresses that the name of an upstream had lately.
//!
//! The name is looked up at each new connection, and again and again by the application, which tells the answers here. An address
//! that has been in no answer for a while is gone: connections to it serve their request to the end, and no other. While
//! the name has no answer, its last addresses are connected to.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Health, UpstreamAddress};
use crate::time::{Span, Time};

/// The addresses of one name.
#[derive(Debug, Default)]
pub(super) struct NameAddresses(Mutex<AddressTable>);

/// An address of a name, for the connections to it.
#[derive(Debug)]
pub(super) struct NamedAddress {
    pub(super) ip: IpAddr,
    is_gone: AtomicBool,
}

#[derive(Debug, Default)]
struct AddressTable {
    /// The latest last.
    seen: Vec<SeenAddress>,
    /// Whether the last lookup had no answer.
    is_failing: bool,
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

    /// The addresses that were seen last, the latest first.
    pub(super) fn last(&self) -> Vec<Arc<NamedAddress>> {
        self.lock().seen.iter().rev().map(|seen| Arc::clone(&seen.address)).take(MAX_TRIED).collect()
    }

    /// Whether the last lookup had no answer, and an earlier one had.
    pub(super) fn is_failing(&self) -> bool {
        let table = self.lock();
        table.is_failing && !table.seen.is_empty()
    }

    fn answered(&self, answer: &[IpAddr], now: Time) {
        let mut table = self.lock();
        for ip in answer.iter().take(MAX_ADDRESSES) {
            table.see(*ip, now);
        }
        table.is_failing = false;
        let AddressTable { seen, .. } = &mut *table;
        seen.retain(|seen| seen.stays(now));
    }

    fn lock(&self) -> MutexGuard<'_, AddressTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressTable {
    fn see(&mut self, ip: IpAddr, now: Time) -> Arc<NamedAddress> {
        let address = match self.seen.iter().position(|seen| seen.address.ip == ip) {
            Some(at) => self.seen.remove(at).address,
            None => Arc::new(NamedAddress { ip, is_gone: AtomicBool::new(false) }),
        };
        if self.seen.len() >= MAX_ADDRESSES {
            self.seen.remove(0).address.is_gone.store(true, Relaxed);
        }
        self.seen.push(SeenAddress { address: Arc::clone(&address), at: now });
        address
    }
}

impl SeenAddress {
    fn stays(&self, now: Time) -> bool {
        let stays = now.since(self.at) < KEEP;
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

    /// Takes the answer of a lookup of its name, or that there is none. Returns whether one of both came after the other, for
    /// a name that has addresses.
    pub fn looked_up(&self, answer: Option<&[IpAddr]>) -> bool {
        let was_failing = self.addresses.is_failing();
        match answer {
            Some(answer) => self.addresses.answered(answer, self.clock.now()),
            None => self.addresses.lock().is_failing = true,
        }
        was_failing != self.addresses.is_failing()
    }
}

/// Addresses of a name at most; a new one replaces the one that was not seen for longest.
const MAX_ADDRESSES: usize = 64;
/// Addresses that are tried without an answer.
const MAX_TRIED: usize = 8;
/// How long an address may be in no answer: some servers name a part of all addresses in each.
const KEEP: Span = Span::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn an_address_is_gone_when_it_was_in_no_answer_for_a_while_and_comes_back_as_another_one() {
        let known = NameAddresses::default();
        let first = known.connected(ip(1), at(0));
        known.answered(&[ip(2)], at(14));
        assert!(!first.is_gone(), "servers may name a part of all");
        known.answered(&[ip(2)], at(15));
        assert!(first.is_gone());
        let again = known.connected(ip(1), at(16));
        assert!(first.is_gone() && !again.is_gone());
        let last: Vec<IpAddr> = known.last().iter().map(|address| address.ip).collect();
        assert_eq!(last, [ip(1), ip(2)]);
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
        assert!(!health.looked_up(Some(&[ip(1)])) && !health.addresses.is_failing());
        let connected = health.addresses.connected(ip(1), at(0));
        health.clock.set(at(3600));
        assert!(health.looked_up(None) && !health.looked_up(None), "it is told once");
        assert!(health.addresses.is_failing() && !connected.is_gone());
        assert!(health.looked_up(Some(&[ip(2)])) && connected.is_gone());
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
