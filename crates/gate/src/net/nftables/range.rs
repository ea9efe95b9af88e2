//! Ranges of addresses, as sets of nf_tables hold them: none of a set may overlap another.

use std::net::IpAddr;

use ipnet::IpNet;

/// Addresses of one family, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    is_ipv4: bool,
    first: u128,
    last: u128,
}

impl From<IpNet> for AddressRange {
    fn from(net: IpNet) -> Self {
        let (is_ipv4, [first, last]) = (net.addr().is_ipv4(), [net.network(), net.broadcast()].map(bits));
        Self { is_ipv4, first, last }
    }
}

impl AddressRange {
    /// From the first to the last address of a family.
    pub(super) fn between(is_ipv4: bool, first: u128, last: u128) -> Self {
        Self { is_ipv4, first, last }
    }

    /// Whether it has IPv4 addresses.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.is_ipv4
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.is_ipv4 == ip.is_ipv4() && (self.first..=self.last).contains(&bits(ip))
    }

    /// Whether all of another range is in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.is_ipv4 == other.is_ipv4 && self.first <= other.first && other.last <= self.last
    }

    /// Whether an address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_ipv4 == other.is_ipv4 && self.first <= other.last && other.first <= self.last
    }

    /// The first address.
    #[must_use]
    pub fn first_address(&self) -> IpAddr {
        match u32::try_from(self.first) {
            Ok(bits) if self.is_ipv4 => IpAddr::V4(bits.into()),
            _ => IpAddr::V6(self.first.into()),
        }
    }

    /// The greatest of all ranges that begin with the last address of this one or before it.
    #[must_use]
    pub fn as_last(&self) -> Self {
        Self { first: self.last, last: u128::MAX, ..*self }
    }

    /// The first address, as the kernel has it.
    pub(super) fn first(&self) -> Vec<u8> {
        self.key(self.first)
    }

    /// The address behind the last one; `None` behind the last of all.
    pub(super) fn end(&self) -> Option<Vec<u8>> {
        let most = if self.is_ipv4 { u128::from(u32::MAX) } else { u128::MAX };
        (self.last < most).then(|| self.key(self.last + 1))
    }

    fn key(&self, bits: u128) -> Vec<u8> {
        let bytes = bits.to_be_bytes();
        if self.is_ipv4 { bytes[12..].to_vec() } else { bytes.to_vec() }
    }
}

/// The same addresses in ranges that do not overlap, in their order.
#[must_use]
pub fn merged(mut ranges: Vec<AddressRange>) -> Vec<AddressRange> {
    ranges.sort_unstable();
    let mut found: Vec<AddressRange> = Vec::new();
    for range in ranges {
        match found.last_mut().filter(|before| before.overlaps(&range) || continues(before, &range)) {
            Some(before) => before.last = before.last.max(range.last),
            None => found.push(range),
        }
    }
    found
}

/// Those of [merged](merged()) ranges that overlap this one.
#[must_use]
pub fn overlapping<'r>(merged: &'r [AddressRange], range: &AddressRange) -> &'r [AddressRange] {
    let is_before = |other: &AddressRange| (other.is_ipv4, other.last) < (range.is_ipv4, range.first);
    let from = merged.get(merged.partition_point(is_before)..).unwrap_or_default();
    let is_not_behind = |other: &AddressRange| other.overlaps(range);
    from.get(..from.partition_point(is_not_behind)).unwrap_or_default()
}

/// Ranges that do not overlap, in their order, with the greatest value of all that cover a part, and none of `spared`,
/// which are [merged](merged()).
#[must_use]
pub fn flattened<T: Copy + Ord>(
    ranges: &[(AddressRange, T)],
    spared: &[AddressRange],
) -> Vec<(AddressRange, T)> {
    let mut found: Vec<(AddressRange, T)> = Vec::new();
    for is_ipv4 in [false, true] {
        let ranges: Vec<_> = ranges.iter().filter(|(range, _)| range.is_ipv4 == is_ipv4).collect();
        let spared_here = ranges.iter().flat_map(|(range, _)| overlapping(spared, range));
        // Between two of these all addresses are alike.
        let all = ranges.iter().map(|(range, _)| range).chain(spared_here);
        let mut starts: Vec<u128> =
            all.flat_map(|range| [Some(range.first), range.last.checked_add(1)]).flatten().collect();
        starts.sort_unstable();
        starts.dedup();
        for (at, &first) in starts.iter().enumerate() {
            let last = starts.get(at + 1).map_or(u128::MAX, |next| next - 1);
            let part = AddressRange { is_ipv4, first, last };
            if !overlapping(spared, &part).is_empty() {
                continue;
            }
            let covering = ranges.iter().filter(|(range, _)| range.covers(&part)).map(|(_, value)| *value);
            let Some(value) = covering.max() else { continue };
            match found.last_mut() {
                Some((before, known)) if *known == value && continues(before, &part) => before.last = last,
                _ => found.push((part, value)),
            }
        }
    }
    found
}

fn continues(before: &AddressRange, part: &AddressRange) -> bool {
    before.is_ipv4 == part.is_ipv4 && before.last.checked_add(1) == Some(part.first)
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(net: &str) -> AddressRange {
        net.parse::<IpNet>().unwrap().into()
    }

    #[test]
    fn a_range_ends_behind_its_last_address() {
        assert_eq!(range("10.0.0.0/8").end(), Some(vec![11, 0, 0, 0]));
        assert_eq!(range("255.255.255.255/32").end(), None);
        assert_eq!(range("0.0.0.0/0").end(), None);
        assert_eq!(range("ff00::/8").end(), None);
        assert_eq!(range("2001:db8::/64").end().map(|end| end[7]), Some(1));
        assert!(!range("0.0.0.0/0").contains("::1".parse().unwrap()));
    }

    #[test]
    fn each_address_has_its_greatest_value_and_no_spared_one_has_any() {
        let net = || {
            (any::<bool>(), 0_u8..=8, any::<u8>()).prop_map(|(is_ipv4, length, low)| {
                let ip = address(is_ipv4, low);
                IpNet::new(ip, if ip.is_ipv4() { 24 + length } else { 120 + length }).unwrap()
            })
        };
        let lists =
            (proptest::collection::vec((net(), 1_u8..5), 0..8), proptest::collection::vec(net(), 0..3));
        proptest!(|((ranges, spared) in lists)| {
            let with_values: Vec<_> = ranges.iter().map(|(net, value)| (AddressRange::from(*net), *value)).collect();
            let without = merged(spared.iter().map(|net| AddressRange::from(*net)).collect());
            let flat = flattened(&with_values, &without);
            prop_assert!(flat.is_sorted() && without.is_sorted());
            for (range, _) in &with_values {
                let expected: Vec<_> = without.iter().filter(|other| other.overlaps(range)).copied().collect();
                prop_assert_eq!(overlapping(&without, range), &expected[..]);
            }
            for (ip, is_spared) in (0..=255).flat_map(|low| [true, false].map(|v4| address(v4, low)))
                .map(|ip| (ip, spared.iter().any(|net| net.contains(&ip))))
            {
                let covering = ranges.iter().filter(|(net, _)| net.contains(&ip)).map(|(_, value)| *value);
                let found: Vec<u8> = flat.iter().filter(|(range, _)| range.contains(ip)).map(|(_, v)| *v).collect();
                let expected = covering.max().filter(|_| !is_spared);
                prop_assert_eq!(found, Vec::from_iter(expected));
            }
        });
    }

    fn address(is_ipv4: bool, low: u8) -> IpAddr {
        if is_ipv4 { [255, 255, 255, low].into() } else { u128::from(low).to_be_bytes().into() }
    }
}
