//! Servers of DNS, and the names that are looked up there for services.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use tollgate_grammar::{Mistake, Syntax};

use super::authority::{host_and_port, is_host};
use crate::config::features::{self, DNS};

/// An entry of `proxy.resolver`: an address, with port 53 if it names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsServer(pub SocketAddr);

impl FromStr for DnsServer {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        need_dns()?;
        let not_one = || Mistake::new(format!("`{text}` is not the address of a server"), SERVER);
        let (ip, port) = match text.parse::<IpAddr>() {
            Ok(ip) => (ip, 53),
            Err(_) => {
                let (host, port) = host_and_port(text, text, "53", SERVER)?;
                (host.parse().map_err(|_| not_one())?, port)
            }
        };
        match port != 0 && !text.ends_with('/') && !ip.is_unspecified() {
            true => Ok(Self(SocketAddr::new(ip, port))),
            false => Err(not_one()),
        }
    }
}

impl Syntax for DnsServer {
    fn pattern() -> Option<String> {
        Some(r"^([0-9.]+(:[0-9]+)?|[0-9A-Fa-f:.]+|\[[0-9A-Fa-f:.]+\](:[0-9]+)?)$".to_owned())
    }
}

/// A name that can have SRV records, in lower case.
pub(super) fn service_name(text: &str, authority: &str) -> Result<String, Mistake> {
    need_dns()?;
    let name = authority.strip_suffix('/').unwrap_or(authority);
    if name.contains(':') && !name.contains(['[', '/']) {
        return Err(Mistake::new(
            format!("`{text}` has a port"),
            "the SRV records of the name have the ports",
        ));
    }
    let labels = || name.strip_suffix('.').unwrap_or(name).split('.');
    let is_name = is_host(name) && name.parse::<IpAddr>().is_err();
    match is_name && labels().all(|label| (1..=63).contains(&label.len())) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(Mistake::new(format!("`{name}` cannot have SRV records"), SERVICE)),
    }
}

fn need_dns() -> Result<(), Mistake> {
    DNS.missing().map_or(Ok(()), |missing| Err(Mistake::new(missing, features::HINT)))
}

const SERVER: &str = "as in \"127.0.0.1\" or \"[::1]:5353\"";
const SERVICE: &str = "write it as \"srv+http://_http._tcp.app.example.org\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_an_address_and_perhaps_a_port() {
        let read = |text: &str| text.parse().map(|DnsServer(address)| address.to_string());
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5353", "127.0.0.1:5353"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(address));
        }
        for text in
            ["", "dns.example", "127.0.0.1:0", "127.0.0.1:53/", "udp://127.0.0.1", "0.0.0.0", "127.0.0.1:x"]
        {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
