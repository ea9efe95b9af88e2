//! The single clients that the kernel drops, as the gate knows them, and what changes.
//!
//! No two ranges overlap, because the kernel's sets take no others.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::net::nftables::{AddressRange, NftElement};
use crate::time::Time;

/// Ranges with their ends, and what the kernel was not told yet.
#[derive(Debug, Default)]
pub(super) struct DroppedClients {
    ends: BTreeMap<AddressRange, Time>,
    added: Vec<AddressRange>,
    removed: Vec<AddressRange>,
}

/// What the kernel has to be told.
#[derive(Debug, Default)]
pub(super) struct ElementChanges {
    pub(super) added: Vec<NftElement>,
    pub(super) removed: Vec<NftElement>,
}

impl DroppedClients {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a range. One that is in a wider one waits for the end of that; one that holds others replaces them. Returns
    /// whether there was room.
    pub(super) fn add(&mut self, range: AddressRange, until: Time) -> bool {
        let overlapping = self.overlapping(&range);
        for (other, end) in &overlapping {
            let is_wider = other.covers(&range) && *other != range;
            if is_wider || (*other == range && *end == until) {
                return true;
            }
        }
        if self.ends.len() - overlapping.len() >= MAX_CLIENTS {
            return false;
        }
        overlapping.iter().for_each(|(other, _)| self.remove(other));
        self.ends.insert(range, until);
        self.added.push(range);
        true
    }

    /// Whether an address is in one.
    pub(super) fn holds(&self, ip: IpAddr) -> bool {
        !self.overlapping(&IpNet::from(ip).into()).is_empty()
    }

    /// Removes what an address is in.
    pub(super) fn release(&mut self, ip: IpAddr) -> bool {
        let holding = self.overlapping(&IpNet::from(ip).into());
        holding.iter().for_each(|(range, _)| self.remove(range));
        !holding.is_empty()
    }

    /// Removes what an address is in, unless it is one of these.
    pub(super) fn release_others(&mut self, ip: IpAddr, kept: &[(AddressRange, Time)]) {
        for (range, _) in self.overlapping(&IpNet::from(ip).into()) {
            if !kept.iter().any(|(kept, _)| *kept == range) {
                self.remove(&range);
            }
        }
    }

    /// Removes this range, if it is one of them.
    pub(super) fn let_go(&mut self, range: &AddressRange) {
        if self.ends.contains_key(range) {
            self.remove(range);
        }
    }

    /// Removes what overlaps one of these.
    pub(super) fn spare(&mut self, spared: &[AddressRange]) {
        for range in spared {
            self.overlapping(range).iter().for_each(|(range, _)| self.remove(range));
        }
    }

    /// One address of each range, to look at again.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.ends.keys().map(AddressRange::first_address).collect()
    }

    /// Forgets what is over: the kernel does so by itself.
    pub(super) fn forget_ended(&mut self, now: Time) {
        self.ends.retain(|_, end| *end > now);
    }

    /// What has changed since the last call.
    pub(super) fn take_changes(&mut self, now: Time) -> ElementChanges {
        let (added, removed) = (std::mem::take(&mut self.added), std::mem::take(&mut self.removed));
        let added = added.into_iter().filter_map(|range| Some(element(range, *self.ends.get(&range)?, now)));
        ElementChanges {
            added: added.collect(),
            removed: removed.into_iter().map(|range| element(range, now, now)).collect(),
        }
    }

    /// All of them, and no changes are left.
    pub(super) fn take_all(&mut self, now: Time) -> Vec<NftElement> {
        (self.added, self.removed) = Default::default();
        self.ends.iter().map(|(range, end)| element(*range, *end, now)).collect()
    }

    fn remove(&mut self, range: &AddressRange) {
        self.ends.remove(range);
        match self.added.iter().position(|added| added == range) {
            Some(at) => drop(self.added.swap_remove(at)),
            None => self.removed.push(*range),
        }
    }

    /// Backwards from the last one that begins before the end of the range.
    fn overlapping(&self, range: &AddressRange) -> Vec<(AddressRange, Time)> {
        let up_to = self.ends.range(..=range.as_last());
        let overlapping = up_to.rev().take_while(|(other, _)| other.overlaps(range));
        overlapping.map(|(range, end)| (*range, *end)).collect()
    }
}

pub(super) fn element(range: AddressRange, until: Time, now: Time) -> NftElement {
    NftElement { range, lasts: until.since(now).to_std() }
}

/// Single clients that the kernel drops at most.
const MAX_CLIENTS: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: Time = Time::from_nanos(1_000_000_000_000);

    fn range(net: &str) -> AddressRange {
        net.parse::<IpNet>().unwrap().into()
    }

    fn later(seconds: u64) -> Time {
        NOW.after(crate::time::Span::from_secs(seconds))
    }

    fn changes(clients: &mut DroppedClients) -> [Vec<AddressRange>; 2] {
        let ElementChanges { added, removed } = clients.take_changes(NOW);
        [removed, added].map(|elements| elements.iter().map(|element| element.range).collect())
    }

    #[test]
    fn a_wider_range_replaces_narrower_ones_and_a_narrower_one_waits() {
        let mut clients = DroppedClients::default();
        let [one, two, other, wide] =
            ["192.0.2.1/32", "192.0.2.9/32", "192.0.3.0/32", "192.0.2.0/24"].map(range);
        [two, other, one].iter().for_each(|range| assert!(clients.add(*range, later(60))));
        assert_eq!(changes(&mut clients), [vec![], vec![two, other, one]]);
        assert!(clients.add(wide, later(5)) && clients.add(one, later(90)));
        assert_eq!(changes(&mut clients), [vec![two, one], vec![wide]]);
        assert_eq!(clients.len(), 2);
        clients.forget_ended(later(5));
        assert!(clients.add(one, later(90)));
        assert_eq!(changes(&mut clients), [vec![], vec![one]]);
    }

    #[test]
    fn another_end_is_told() {
        let mut clients = DroppedClients::default();
        let household = range("2001:db8::/64");
        clients.add(household, later(60));
        clients.add(household, later(30));
        assert_eq!(clients.take_changes(NOW).added, [element(household, later(30), NOW)]);
        clients.add(household, later(90));
        let ElementChanges { added, removed } = clients.take_changes(NOW);
        assert_eq!((added, removed.len()), (vec![element(household, later(90), NOW)], 1));
        assert!(clients.release("2001:db8::77".parse().unwrap()));
        assert!(!clients.release("2001:db8::77".parse().unwrap()));
        assert_eq!(changes(&mut clients), [vec![household], vec![]]);
    }

    #[test]
    fn a_wider_range_that_nothing_refuses_any_more_is_let_go() {
        let mut clients = DroppedClients::default();
        let [one, wide] = ["192.0.2.1/32", "192.0.2.0/24"].map(range);
        let ip = "192.0.2.1".parse().unwrap();
        clients.add(wide, later(60));
        assert_eq!(changes(&mut clients), [vec![], vec![wide]]);
        clients.release_others(ip, &[(one, later(30)), (wide, later(60))]);
        assert_eq!(changes(&mut clients), [vec![], vec![]]);
        clients.release_others(ip, &[(one, later(30))]);
        assert_eq!((changes(&mut clients), clients.len()), ([vec![wide], vec![]], 0));
    }

    #[test]
    fn what_comes_and_goes_between_two_looks_is_not_told() {
        let mut clients = DroppedClients::default();
        clients.add(range("192.0.2.1/32"), later(60));
        clients.spare(&[range("192.0.2.0/24")]);
        assert_eq!((changes(&mut clients), clients.len()), ([vec![], vec![]], 0));
    }

    #[test]
    fn there_are_not_more_than_the_most() {
        let mut clients = DroppedClients::default();
        for number in 0..MAX_CLIENTS {
            let ip = Ipv4Addr::from(u32::try_from(number).unwrap());
            assert!(clients.add(IpNet::from(IpAddr::V4(ip)).into(), later(60)));
        }
        assert!(!clients.add(range("192.0.2.1/32"), later(60)));
        assert!(clients.add(range("0.0.0.0/24"), later(60)), "it replaces others");
        assert!(clients.add(range("192.0.2.1/32"), later(60)));
    }
}
