//! Prefix lengths: the keys `ipv4` and `ipv6` of `[client]`, of a limit and of known addresses, and their words.

use tollgate_grammar::Findings;
use tollgate_grammar::kind::{Checked as _, Key, Kind, Whole};

use crate::policy::key::PrefixLengths;

/// Bits of an IPv4 prefix.
pub type Ipv4Bits = Whole<u8, 0, 32>;
/// Bits of an IPv6 prefix.
pub type Ipv6Bits = Whole<u8, 0, 128>;

/// Prefix lengths, by default those of `default`.
pub fn prefixes(
    ipv4: &Key<impl Kind<Raw = i64, Value = u8>>,
    ipv6: &Key<impl Kind<Raw = i64, Value = u8>>,
    default: PrefixLengths,
    f: &mut Findings,
) -> PrefixLengths {
    for zero in [ipv4.as_deref(), ipv6.as_deref()].into_iter().flatten().filter(|length| length.value == 0) {
        f.warning(&zero.spot, "all clients share one bucket".to_owned(), "at least 8");
    }
    PrefixLengths {
        ipv4: ipv4.checked(f).unwrap_or(default.ipv4),
        ipv6: longest_network(ipv6, f).unwrap_or(default.ipv6),
    }
}

/// The clients that share a bucket.
pub fn describe_prefix(lengths: PrefixLengths) -> String {
    match (lengths.ipv4, lengths.ipv6) {
        (0, 0) => "all clients, IPv4 and IPv6 apart".to_owned(),
        (32, 64 | 128) => "one address".to_owned(),
        (32, ipv6) => format!("one address (IPv6: one /{ipv6} network)"),
        (ipv4, ipv6) => format!("one /{ipv4} network (IPv6: /{ipv6})"),
    }
}

/// The IPv6 prefix length. A household has a whole /64: with a longer prefix it can choose among many buckets.
fn longest_network(ipv6: &Key<impl Kind<Raw = i64, Value = u8>>, f: &mut Findings) -> Option<u8> {
    let length = ipv6.checked(f)?;
    if let Some(given) = ipv6.as_ref().filter(|_| length > 64) {
        f.warning(&given.spot, format!("one household has 2^{} such networks", length - 64), "64 or less");
    }
    Some(length)
}
