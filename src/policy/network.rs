//! Sets of networks and what belongs to the longest matching prefix.
//!
//! Addresses are compared in canonical form, by bits and never by their spelling.

use std::net::IpAddr;

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

/// A value for each prefix; the longest prefix that holds an address wins.
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

    /// The value of the longest prefix that holds the address.
    #[must_use]
    pub fn find(&self, ip: IpAddr) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_lpm(&IpNet::from(ip.to_canonical())).map(|(_, value)| value)
    }

    /// Whether some prefix holds the address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.find(ip).is_some()
    }

    /// All prefixes with their values.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &T)> {
        self.0.iter()
    }

    /// Whether there is no prefix at all.
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

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`, and host bits are cut off.
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

    /// The tree comes from elsewhere and works with raw memory: it has to agree with what is plainly so.
    #[test]
    fn a_tree_of_prefixes_agrees_with_a_list_of_them() {
        // Few bits differ, so that prefixes lie within each other.
        let address =
            || (any::<bool>(), 0_u32..64, 0_u32..64).prop_map(|(is_v6, high, low)| address(is_v6, high, low));
        let prefix = (address(), 0_u8..=128).prop_map(|(ip, length)| {
            let most = if ip.is_ipv4() { 32 } else { 128 };
            IpNet::new(ip, length.min(most)).unwrap()
        });
        let lists = proptest::collection::vec(prefix, 0..40);
        proptest!(|(prefixes in lists, asked in proptest::collection::vec(address(), 20))| {
            let mut map = NetworkMap::default();
            prefixes.iter().for_each(|prefix| map.insert(*prefix, prefix.trunc()));
            for ip in asked {
                let holding = prefixes.iter().filter(|prefix| prefix.contains(&ip));
                let longest = holding.max_by_key(|prefix| prefix.prefix_len()).map(IpNet::trunc);
                prop_assert_eq!(map.find(ip), longest.as_ref());
            }
        });
    }

    fn address(is_v6: bool, high: u32, low: u32) -> IpAddr {
        if is_v6 {
            let high = u128::from(0x2001_0000 + high) << 96;
            std::net::Ipv6Addr::from(high | u128::from(low)).into()
        } else {
            std::net::Ipv4Addr::from(0x0a00_0000 | high << 20 | low).into()
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
