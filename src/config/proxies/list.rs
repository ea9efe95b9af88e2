//! Lists of a proxy's networks as text: one a line, with a comment that says when the list was current.
//!
//! A network that is wider than any proxy's, or private, makes the whole list wrong: each of its addresses may say who
//! the client is.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::civil::Date;

use crate::config::values::Prefix;

/// The networks of a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkList {
    /// The day on which they were current.
    pub date: Date,
    /// All of them.
    pub networks: BTreeSet<IpNet>,
}

/// Why a text is not such a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkListError {
    /// Not a text at all.
    #[error("it is not UTF-8")]
    NotText,
    /// It does not say when it was current.
    #[error("it has no line `{DATE}2026-01-31`")]
    NoDate,
    /// It names nothing.
    #[error("it has no network")]
    Empty,
    /// A line is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        fault: NetworkFault,
    },
}

/// Why a text is not a network of a proxy. Only its first characters are kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkFault {
    /// Another text.
    #[error("`{0}` is not an address or a prefix")]
    NotPrefix(String),
    /// It has bits beyond its length.
    #[error("`{0}` has bits set beyond its length")]
    HostBits(String),
    /// It has more addresses than any proxy.
    #[error("{0} is too wide: at most /{MAX_WIDTH_V4} and /{MAX_WIDTH_V6}")]
    TooWide(IpNet),
    /// It has addresses that are private, or reserved for another purpose.
    #[error("{0} is not public")]
    NotPublic(IpNet),
}

impl NetworkList {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`NetworkListError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, NetworkListError> {
        let text = std::str::from_utf8(bytes).map_err(|_| NetworkListError::NotText)?;
        let date = Self::date_of(text).ok_or(NetworkListError::NoDate)?;
        Ok(Self { date, networks: Self::networks_of(text)? })
    }

    /// The day on which a text says that it was current.
    #[must_use]
    pub fn date_of(text: &str) -> Option<Date> {
        text.lines().find_map(|line| line.strip_prefix(DATE)?.trim().parse().ok())
    }

    /// The networks of a text, with a date or without. A line without a network is empty or begins with `#`.
    ///
    /// # Errors
    /// See [`NetworkListError`].
    pub fn networks_of(text: &str) -> Result<BTreeSet<IpNet>, NetworkListError> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
        let networks = lines.map(|(line, text)| {
            Self::network_of(text).map_err(|fault| NetworkListError::Line { line, fault })
        });
        let networks: BTreeSet<IpNet> = networks.collect::<Result<_, _>>()?;
        if networks.is_empty() { Err(NetworkListError::Empty) } else { Ok(networks) }
    }

    /// Reads one network.
    ///
    /// # Errors
    /// See [`NetworkFault`].
    pub fn network_of(text: &str) -> Result<IpNet, NetworkFault> {
        let shown = || text.chars().take(MAX_SHOWN).collect();
        let Prefix { net, host_bits } = text.parse().map_err(|_| NetworkFault::NotPrefix(shown()))?;
        if host_bits {
            return Err(NetworkFault::HostBits(shown()));
        }
        let most = if matches!(net, IpNet::V4(_)) { MAX_WIDTH_V4 } else { MAX_WIDTH_V6 };
        match (net.prefix_len() >= most, is_public(net)) {
            (_, false) => Err(NetworkFault::NotPublic(net)),
            (false, _) => Err(NetworkFault::TooWide(net)),
            (true, true) => Ok(net),
        }
    }

    /// The text of a file, with a comment about what it is.
    #[must_use]
    pub fn text(&self, about: &str) -> String {
        let networks: String = self.networks.iter().map(|net| format!("{net}\n")).collect();
        format!("# {about}\n{DATE}{}\n{networks}", self.date)
    }
}

fn meets(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// Whether all addresses of a network may be those of any client: none is private, or reserved for another purpose.
pub fn is_public(net: IpNet) -> bool {
    match net {
        IpNet::V4(net) => !RESERVED_V4.iter().any(|other| meets(*other, net)),
        IpNet::V6(net) => {
            let is_reserved = |other: &Ipv6Net| other.contains(&net) || net.contains(other);
            PUBLIC_V6.contains(&net) && !RESERVED_V6.iter().any(is_reserved)
        }
    }
}

/// The widest network of the five proxies is a /13 of Cloudflare's.
const MAX_WIDTH_V4: u8 = 10;
/// The widest one is a /29 of Cloudflare's.
const MAX_WIDTH_V6: u8 = 24;
/// Characters of a text that is not a network.
const MAX_SHOWN: usize = 60;
/// Begins the line with the date.
const DATE: &str = "# current on: ";
/// The registry of special-purpose addresses (RFC 6890), and multicast.
const RESERVED_V4: &[Ipv4Net] = &[
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 3),
];
/// All that is assigned for use on the Internet (RFC 4291), but for [`RESERVED_V6`].
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0], 3);
const RESERVED_V6: &[Ipv6Net] =
    &[v6([0x2001, 0], 23), v6([0x2001, 0xdb8], 32), v6([0x2002, 0], 16), v6([0x3fff, 0], 20)];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b]: [u16; 2], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_of_proxies_are_public_and_narrow() {
        for text in
            ["8.8.8.0/24", "104.16.0.0/13", "8.8.8.8", "2606:4700::/32", "2a06:98c0::/29", "2606:4700::1"]
        {
            assert!(NetworkList::network_of(text).is_ok(), "{text}");
        }
        for (text, why) in [
            ("0.0.0.0/0", "is not public"),
            ("10.0.0.0/8", "is not public"),
            ("127.0.0.1", "is not public"),
            ("192.0.0.0/10", "is not public"),
            ("100.100.0.0/16", "is not public"),
            ("224.0.0.1", "is not public"),
            ("::/0", "is not public"),
            ("::1", "is not public"),
            ("::ffff:10.0.0.0/104", "is not public"),
            ("fe80::/64", "is not public"),
            ("fd00::/8", "is not public"),
            ("2001:db8:1::/48", "is not public"),
            ("8.0.0.0/9", "is too wide"),
            ("2600::/23", "is too wide"),
            ("8.8.8.8/24", "has bits set"),
            ("<!DOCTYPE html>", "is not an address"),
            ("131.0.72.0/222400:cb00::/32", "is not an address"),
        ] {
            let fault = NetworkList::network_of(text).unwrap_err().to_string();
            assert!(fault.contains(why), "{text}: {fault}");
        }
    }

    #[test]
    fn a_written_list_reads_back() {
        let networks = NetworkList::networks_of("2606:4700::/32\r\n8.8.8.8\n\n# more\n8.8.4.0/24").unwrap();
        let list = NetworkList { date: Date::constant(2026, 11, 28), networks };
        assert_eq!(NetworkList::parse(list.text("of a test").as_bytes()), Ok(list));
    }

    #[test]
    fn a_wrong_line_makes_the_list_wrong() {
        assert_eq!(
            NetworkList::networks_of("8.8.8.8\n<html>").unwrap_err().to_string(),
            "line 2: `<html>` is not an address or a prefix"
        );
        assert_eq!(NetworkList::networks_of("# nothing\n"), Err(NetworkListError::Empty));
        assert_eq!(NetworkList::parse(b"8.8.8.8"), Err(NetworkListError::NoDate));
        assert_eq!(NetworkList::parse(b"# current on: today\n8.8.8.8"), Err(NetworkListError::NoDate));
        assert_eq!(NetworkList::parse(b"\xff"), Err(NetworkListError::NotText));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = NetworkList::parse(text.as_bytes());
        }
    }
}
