//! `"10.0.0.0/8"`, or an address alone for a prefix of full length.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;
use tollgate_grammar::Mistake;

/// An address prefix in canonical form: host bits are zero, IPv4 mapped into IPv6 is IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The prefix.
    pub net: IpNet,
    /// Whether the text has bits set beyond the prefix length: legal, and often a typing error.
    pub host_bits: bool,
}

impl Prefix {
    /// Whether it contains every address of a family.
    #[must_use]
    pub fn is_everybody(&self) -> bool {
        self.net.prefix_len() == 0
    }
}

impl FromStr for Prefix {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::new(format!("`{text}` is not an address or a prefix"), HINT);
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => max,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse::<u8>() {
                Ok(length) if length <= max => length,
                _ => {
                    return Err(Mistake::new(
                        format!("a prefix length of `{digits}` is out of range"),
                        format!("0 to {max}"),
                    ));
                }
            },
            Some(mask) if mask.parse::<Ipv4Addr>().is_ok() => {
                return Err(Mistake::new(
                    format!("`{mask}` is a netmask"),
                    "write the number of leading bits, as in 10.0.0.0/8",
                ));
            }
            Some(_) => return Err(wrong()),
        };
        let net = IpNet::new(address, length).map_err(|_| wrong())?;
        Ok(Self { net: canonical(net.trunc()), host_bits: net != net.trunc() })
    }
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
fn canonical(net: IpNet) -> IpNet {
    match (net.addr().to_canonical(), net) {
        (IpAddr::V4(v4), IpNet::V6(v6)) if v6.prefix_len() >= 96 => {
            IpNet::new(v4.into(), v6.prefix_len() - 96).unwrap_or(net)
        }
        _ => net,
    }
}

const HINT: &str = "write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> String {
        text.parse::<Prefix>().unwrap().net.to_string()
    }

    #[test]
    fn an_address_alone_is_a_prefix_of_full_length() {
        assert_eq!(net("203.0.113.7"), "203.0.113.7/32");
        assert_eq!(net("2001:db8::1"), "2001:db8::1/128");
    }

    #[test]
    fn host_bits_are_cut_off_and_remembered() {
        assert_eq!(net("10.1.2.3/8"), "10.0.0.0/8");
        assert!("10.1.2.3/8".parse::<Prefix>().unwrap().host_bits);
        assert!(!"10.0.0.0/8".parse::<Prefix>().unwrap().host_bits);
    }

    #[test]
    fn mapped_prefixes_are_ipv4() {
        assert_eq!(net("::ffff:10.0.0.0/104"), "10.0.0.0/8");
        assert!("::ffff:0:0/96".parse::<Prefix>().unwrap().is_everybody());
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in [
            "",
            "/",
            "10",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "::/999",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/+8",
            "010.0.0.1",
            "office",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Prefix>();
        }

        #[test]
        fn what_is_written_reads_back(address: IpAddr, length in 0_u8..=128) {
            let length = if address.is_ipv4() { length.min(32) } else { length };
            let prefix: Prefix = format!("{address}/{length}").parse().unwrap();
            prop_assert_eq!(prefix.net.to_string().parse(), Ok(Prefix { host_bits: false, ..prefix }));
        }
    }
}
