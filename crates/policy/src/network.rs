//! Sets of networks, and values for the longest matching prefix.
//!
//! Addresses are compared in canonical form, by bits and never by their spelling. An embedded IPv4 address, see
//! [`embedded_ipv4`], counts only if the caller asks for it: never for trust.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

/// A value for each prefix; the longest prefix that contains an address wins.
#[derive(Debug, Clone)]
pub struct NetworkMap<T>(JointPrefixMap<IpNet, T>);

/// A set of prefixes.
pub type NetworkSet = NetworkMap<()>;

impl<T: PartialEq> PartialEq for NetworkMap<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T> Default for NetworkMap<T> {
    fn default() -> Self {
        Self(JointPrefixMap::new())
    }
}

impl<T> NetworkMap<T> {
    /// Adds a prefix; the first value given for a prefix stays.
    pub fn insert(&mut self, prefix: IpNet, value: T) {
        let prefix = canonical(prefix);
        if self.0.get(&prefix).is_none() {
            self.0.insert(prefix, value);
        }
    }

    /// The value of the longest prefix that contains the address.
    #[must_use]
    pub fn find(&self, ip: IpAddr) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_lpm(&IpNet::from(ip.to_canonical())).map(|(_, value)| value)
    }

    /// As [`find`](Self::find), for a client's address: if no prefix contains it, its embedded IPv4 address counts.
    #[must_use]
    pub fn find_translated(&self, ip: IpAddr) -> Option<&T> {
        self.find(ip).or_else(|| self.find(embedded_ipv4(ip)?.into()))
    }

    /// Whether a prefix contains the address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.find(ip).is_some()
    }

    /// All prefixes with their values.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &T)> {
        self.0.iter()
    }

    /// Whether there is no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<IpNet> for NetworkSet {
    fn from_iter<I: IntoIterator<Item = IpNet>>(prefixes: I) -> Self {
        let mut set = Self::default();
        prefixes.into_iter().for_each(|prefix| set.insert(prefix, ()));
        set
    }
}

/// The IPv4 address embedded in a NAT64 (`64:ff9b::/96`, RFC 6052) or 6to4 (`2002::/16`, RFC 3056) address.
///
/// Only public addresses count: RFC 6052, 3.1 and RFC 3056, 2 allow no others, and any client can write `2002:a00:1::`,
/// which must not pass for an address of our own network.
#[must_use]
pub fn embedded_ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = ip else { return None };
    let [_, high, low, _, _, _, last_high, last_low] = v6.segments();
    let (high, low) = match v6 {
        _ if is_6to4(v6) => (high, low),
        _ if is_nat64(v6) => (last_high, last_low),
        _ => return None,
    };
    let inside = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    is_public(inside).then_some(inside)
}

/// Whether it is in `64:ff9b::/96`.
pub(super) fn is_nat64(ip: Ipv6Addr) -> bool {
    matches!(ip.segments(), [0x64, 0xff9b, 0, 0, 0, 0, _, _])
}

/// Whether it is in `2002::/16`.
pub(super) fn is_6to4(ip: Ipv6Addr) -> bool {
    ip.segments()[0] == 0x2002
}

/// Whether it is unicast, and in no private or shared network (RFC 6890).
fn is_public(ip: Ipv4Addr) -> bool {
    let is_shared = matches!(ip.octets(), [100, 64..=127, _, _]);
    let is_local = ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared;
    !is_local && matches!(ip.octets(), [1..=223, ..])
}

/// The canonical form of a prefix: `::ffff:10.0.0.0/104` is `10.0.0.0/8`, and host bits are cleared.
fn canonical(prefix: IpNet) -> IpNet {
    let prefix = prefix.trunc();
    match (prefix.addr().to_canonical(), prefix) {
        (IpAddr::V4(v4), IpNet::V6(v6)) if v6.prefix_len() >= 96 => {
            IpNet::new(v4.into(), v6.prefix_len() - 96).unwrap_or(prefix)
        }
        _ => prefix,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut map = NetworkMap::default();
        map.insert("10.0.0.0/8".parse().unwrap(), "wide");
        map.insert("10.1.0.0/16".parse().unwrap(), "narrow");
        assert_eq!(map.find(ip("10.1.2.3")), Some(&"narrow"));
        assert_eq!(map.find(ip("10.2.2.3")), Some(&"wide"));
        assert_eq!(map.find(ip("11.2.2.3")), None);
    }

    /// The tree is a dependency with unsafe code: it has to agree with a linear search.
    #[test]
    fn a_tree_of_prefixes_agrees_with_a_list_of_them() {
        // Few bits differ, so that prefixes contain each other.
        let address =
            || (any::<bool>(), 0_u32..64, 0_u32..64).prop_map(|(is_v6, high, low)| address(is_v6, high, low));
        let prefix = (address(), 0_u8..=128).prop_map(|(ip, length)| {
            let max = if ip.is_ipv4() { 32 } else { 128 };
            IpNet::new(ip, length.min(max)).unwrap()
        });
        let lists = proptest::collection::vec(prefix, 0..40);
        proptest!(|(prefixes in lists, addresses in proptest::collection::vec(address(), 20))| {
            let mut map = NetworkMap::default();
            prefixes.iter().for_each(|prefix| map.insert(*prefix, prefix.trunc()));
            for ip in addresses {
                let holding = prefixes.iter().filter(|prefix| prefix.contains(&ip));
                let longest = holding.max_by_key(|prefix| prefix.prefix_len()).map(IpNet::trunc);
                prop_assert_eq!(map.find(ip), longest.as_ref());
            }
        });
    }

    fn address(is_v6: bool, high: u32, low: u32) -> IpAddr {
        if is_v6 {
            let high = u128::from(0x2001_0000 + high) << 96;
            Ipv6Addr::from(high | u128::from(low)).into()
        } else {
            Ipv4Addr::from(0x0a00_0000 | high << 20 | low).into()
        }
    }

    #[test]
    fn what_is_inside_counts_only_where_it_is_asked_for() {
        let map: NetworkMap<&str> =
            [("203.0.113.0/24", "v4"), ("64:ff9b::cb00:7100/120", "v6"), ("2002::/16", "all")]
                .into_iter()
                .fold(NetworkMap::default(), |mut map, (prefix, value)| {
                    map.insert(prefix.parse().unwrap(), value);
                    map
                });
        assert_eq!(map.find_translated(ip("203.0.113.7")), Some(&"v4"));
        assert_eq!(map.find_translated(ip("64:ff9b::203.0.113.7")), Some(&"v6"), "as it is written first");
        assert_eq!(map.find_translated(ip("2002:cb00:7107::1")), Some(&"all"));
        let set: NetworkSet =
            ["203.0.113.0/24".parse().unwrap(), "10.0.0.0/8".parse().unwrap()].into_iter().collect();
        for written in ["64:ff9b::203.0.113.7", "2002:cb00:7107::1", "2002:cb00:7107:9::"] {
            assert!(set.find_translated(ip(written)).is_some() && !set.contains(ip(written)), "{written}");
        }
        for written in
            ["64:ff9b::10.0.0.1", "2002:a00:1::", "64:ff9b:1::203.0.113.7", "64:ff9b::1:203.0.113.7"]
        {
            assert!(set.find_translated(ip(written)).is_none(), "{written}");
        }
    }

    #[test]
    fn only_addresses_of_the_whole_internet_stand_for_others() {
        for inside in ["1.0.0.1", "203.0.113.7", "100.63.0.1", "100.128.0.1", "172.32.0.1", "223.255.255.255"]
        {
            let inside: Ipv4Addr = inside.parse().unwrap();
            let [a, b, c, d] = inside.octets();
            let (nat64, by_6to4) =
                (format!("64:ff9b::{inside}"), format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}:1::5"));
            assert_eq!([nat64, by_6to4].map(|text| embedded_ipv4(ip(&text))), [Some(inside); 2]);
        }
        let local =
            ["0.0.0.1", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.1.1", "172.16.0.1", "192.168.0.1"];
        for inside in local.into_iter().chain(["224.0.0.1", "255.255.255.255"]) {
            assert_eq!(embedded_ipv4(ip(&format!("64:ff9b::{inside}"))), None, "{inside}");
        }
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address_it_holds() {
        let set: NetworkSet =
            ["10.0.0.0/8".parse().unwrap(), "::ffff:192.168.0.0/112".parse().unwrap()].into_iter().collect();
        assert!(set.contains(ip("::ffff:10.1.2.3")));
        assert!(set.contains(ip("192.168.4.4")));
        assert!(!set.contains(ip("::10.1.2.3")));
    }
}
