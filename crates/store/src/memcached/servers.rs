//! `memcached://host:port,host:port`: the servers, and which of them holds a key.
//!
//! Each server has a score for each key, and the highest score holds it (rendezvous hashing): a server more or less
//! moves the keys of that server and no others. The keys of a server that is down go to no other, because gates would
//! not notice at the same moment and would decide on different buckets.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::address::BadStoreAddress;
use tollgate_bucket::Key;

/// The address of a server, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemcachedServer {
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The servers of an address: at least one, in an order that does not depend on how they were written.
pub(super) fn parse(url: &str) -> Result<Vec<MemcachedServer>, BadStoreAddress> {
    let list = url.strip_prefix("memcached://").unwrap_or(url);
    if list.contains('@') {
        return Err("memcached takes no user and no password here".into());
    }
    if list.contains(['/', '?', '#']) {
        return Err("nothing can follow the servers of memcached".into());
    }
    let mut servers = list.split(',').map(server).collect::<Result<Vec<_>, _>>()?;
    servers.sort();
    if servers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("a server of memcached is named twice".into());
    }
    Ok(servers)
}

/// The position of the server that holds the key; `names` must not be empty.
pub(super) fn server_of(names: &[String], key: Key) -> usize {
    (0..names.len()).max_by_key(|at| (score(&names[*at], key), *at)).unwrap_or_default()
}

/// SipHash without a key: gates have to agree, and `Key` is a keyed hash already.
fn score(name: &str, Key(key): Key) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(name.as_bytes());
    hasher.write(&key.to_be_bytes());
    hasher.finish()
}

fn server(text: &str) -> Result<MemcachedServer, BadStoreAddress> {
    let (host, port) = split(text)?;
    let port = match port {
        None => 11211,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err("a port of memcached is 1 to 65535".into()),
        },
        Some(_) => return Err("a port of memcached is 1 to 65535".into()),
    };
    Ok(MemcachedServer { host: host.to_ascii_lowercase(), port })
}

fn split(text: &str) -> Result<(&str, Option<&str>), BadStoreAddress> {
    if let Some(rest) = text.strip_prefix('[') {
        let wrong = || BadStoreAddress::from("brackets of memcached hold an IPv6 address");
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(wrong()),
        };
    }
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    if port.is_some_and(|port| port.contains(':')) {
        return Err("an IPv6 address of memcached needs brackets".into());
    }
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if host.is_empty() {
        return Err("a server of memcached has no name".into());
    }
    if host.len() > 253 || !host.bytes().all(usual) {
        return Err("the name of a memcached server has invalid characters".into());
    }
    Ok((host, port))
}

impl fmt::Display for MemcachedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(url: &str) -> Vec<String> {
        parse(url).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn servers_are_read_in_any_order_with_or_without_ports() {
        assert_eq!(shown("memcached://one"), ["one:11211"]);
        assert_eq!(shown("memcached://B.test:1,a-b.test"), ["a-b.test:11211", "b.test:1"]);
        assert_eq!(shown("memcached://[2001:DB8::1],[::1]:65535"), ["[2001:db8::1]:11211", "[::1]:65535"]);
    }

    #[test]
    fn a_mistake_is_said_without_repeating_what_was_written() {
        let mistakes = [
            ("", "a server of memcached has no name"),
            ("a,", "a server of memcached has no name"),
            (":1", "a server of memcached has no name"),
            ("a,,b", "a server of memcached has no name"),
            ("a b", "the name of a memcached server has invalid characters"),
            ("a:", "a port of memcached is 1 to 65535"),
            ("a:0", "a port of memcached is 1 to 65535"),
            ("a:65536", "a port of memcached is 1 to 65535"),
            ("a:+1", "a port of memcached is 1 to 65535"),
            ("::1", "an IPv6 address of memcached needs brackets"),
            ("[::1", "brackets of memcached hold an IPv6 address"),
            ("[a]", "brackets of memcached hold an IPv6 address"),
            ("[::1]1", "brackets of memcached hold an IPv6 address"),
            ("a/", "nothing can follow the servers of memcached"),
            ("a?b=c", "nothing can follow the servers of memcached"),
            ("user:secret@a", "memcached takes no user and no password here"),
            ("a,A:11211", "a server of memcached is named twice"),
        ];
        for (list, message) in mistakes {
            assert_eq!(parse(&format!("memcached://{list}")), Err(message.into()), "{list:?}");
        }
    }

    #[test]
    fn the_server_of_a_key_is_that_of_earlier_versions() {
        let names = shown("memcached://a,b,c");
        let owners: Vec<usize> = (0..12).map(|key| server_of(&names, Key(key))).collect();
        assert_eq!(owners, [0, 1, 0, 1, 0, 2, 1, 2, 1, 2, 2, 2]);
    }

    #[test]
    fn servers_share_the_keys_evenly() {
        let names = shown("memcached://a,b,c,d");
        let mut counts = [0; 4];
        for key in 0..4000 {
            counts[server_of(&names, Key(key))] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_server_less_moves_its_own_keys_and_no_others(count in 2_usize..9, gone in 0_usize..9, key: u128) {
            let names: Vec<String> = (0..count).map(|at| format!("10.0.0.{at}:11211")).collect();
            let gone = &names[gone % count];
            let left: Vec<String> = names.iter().filter(|name| *name != gone).cloned().collect();
            let before = &names[server_of(&names, Key(key))];
            if before != gone {
                prop_assert_eq!(before, &left[server_of(&left, Key(key))]);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            if let Ok(servers) = parse(&text) {
                prop_assert!(!servers.is_empty());
            }
        }

        #[test]
        fn what_is_shown_of_a_server_is_read_as_that_server(host in "[a-z0-9.-]{1,20}", port in 1_u16..) {
            let server = MemcachedServer { host, port };
            prop_assert_eq!(parse(&server.to_string()), Ok(vec![server]));
        }
    }
}
