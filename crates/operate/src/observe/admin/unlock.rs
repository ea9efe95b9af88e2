//! What the role `unlock` may exempt: one person at a time, not for good, and against no order of an operator.

use std::net::Ipv6Addr;

use http::StatusCode;
use ipnet::IpNet;

use super::request::AdminProblem;
use crate::policy::key::PrefixLengths;
use crate::time::Span;

/// Whether a role that lets people in may make an exemption: neither of a limit as a whole nor of a network, nor for long.
///
/// # Errors
/// 403 otherwise.
pub(super) fn check_exemption(is_of_one: bool, lasts: Span) -> Result<(), AdminProblem> {
    if is_of_one && lasts <= MAX_UNLOCK {
        return Ok(());
    }
    let detail = "an exemption of other than one address or one account, or one that lasts more than a day, \
                  needs a token with the role `operate`";
    Err(AdminProblem::new(StatusCode::FORBIDDEN, detail))
}

/// The answer where an exemption would lift what an operator decided about a bucket of this limit.
pub(super) fn order_stands(limit: &str) -> AdminProblem {
    let detail = format!(
        "`{limit}` has a rate or a ban for this bucket, which only the role `operate` may replace or end"
    );
    AdminProblem::new(StatusCode::FORBIDDEN, detail)
}

/// Whether a prefix is what an address alone stands for: one IPv4 address, or an IPv6 address with those that share its
/// bucket.
pub(super) fn is_one_client(prefix: IpNet) -> bool {
    let PrefixLengths { ipv4, ipv6 } = PrefixLengths::default();
    match prefix {
        IpNet::V4(net) => net.prefix_len() >= ipv4,
        // One /64 has the addresses of the whole of IPv4 (RFC 6052).
        IpNet::V6(net) if NAT64.segments()[..4] == net.addr().segments()[..4] => net.prefix_len() == 128,
        IpNet::V6(net) => net.prefix_len() >= ipv6,
    }
}

/// How long an exemption lasts at most that is not by an operator with the role `operate`.
const MAX_UNLOCK: Span = Span::from_secs(24 * 3600);
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_ipv4_address_or_the_64_of_an_ipv6_one() {
        let is_one = |text: &str| is_one_client(text.parse().unwrap());
        for one in ["192.0.2.9/32", "2001:db8::/64", "2001:db8::1/128", "64:ff9b::c000:209/128"] {
            assert!(is_one(one), "{one}");
        }
        for many in ["192.0.2.8/31", "10.0.0.0/8", "2001:db8::/63", "64:ff9b::/64", "64:ff9b::/96"] {
            assert!(!is_one(many), "{many}");
        }
    }
}
