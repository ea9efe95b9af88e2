//! The client address: the peer, or the client that a trusted proxy names, read from the right.
//!
//! No peer is trusted by default. An unreadable address never becomes its own key, or a client could mint keys by
//! sending nonsense: the hop that sent it stands for its client, which then belongs to no configured network
//! ([`Client::BehindProxy`]). Values on the left of the client are not read: they came from outside. Keys and prefixes
//! are left to `policy`.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use super::client_cert::CertificateHeader;
use super::forwarded::{self, ForwardedElement};
use super::signature::Monitors;
use crate::net::stream::PeerAddr;
use crate::policy::attempt::Client;
use crate::policy::key::PrefixLengths;
use crate::policy::network::NetworkSet;
use crate::proxy::error::MalformedRequest;
use crate::proxy::headers::FORWARDED_FOR;

/// The settings of `[client]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientSettings {
    /// Networks of trusted proxies.
    pub trust: NetworkSet,
    /// Whether peers on Unix sockets are trusted (`trust = ["unix:"]`).
    pub trust_unix: bool,
    /// The header in which a trusted proxy names the client.
    pub header: IdentityHeader,
    /// Default prefix lengths: addresses with the same prefix share a bucket.
    pub prefixes: PrefixLengths,
    /// The header in which a trusted proxy passes on the client's certificate.
    pub certificate: CertificateHeader,
    /// Who may sign requests; `None` if nobody may.
    pub monitors: Option<Arc<Monitors>>,
}

/// The header that names the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IdentityHeader {
    /// `X-Forwarded-For`: a list, read from the right over trusted hops.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): likewise, by its `for` parameters.
    Forwarded,
    /// A header with one address, such as `X-Real-IP`.
    Single(HeaderName),
}

impl IdentityHeader {
    /// The name of a [`Single`](Self::Single) header.
    #[must_use]
    pub fn name(&self) -> Option<&HeaderName> {
        match self {
            Self::Single(name) => Some(name),
            Self::XForwardedFor | Self::Forwarded => None,
        }
    }
}

impl ClientSettings {
    /// Whether this peer is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: PeerAddr) -> bool {
        match peer {
            PeerAddr::Ip(address) => self.trust.contains(address.ip()),
            PeerAddr::Unix => self.trust_unix,
        }
    }

    /// The prefix for the connection limits; `None` for trusted proxies and Unix sockets, which have no limit per
    /// prefix.
    #[must_use]
    pub fn connection_prefix(&self, peer: PeerAddr) -> Option<IpAddr> {
        match peer {
            PeerAddr::Ip(address) if !self.trusts(peer) => Some(self.prefixes.mask(address.ip())),
            _ => None,
        }
    }

    /// The prefix whose clients count as one where they share what is scarce; `None` without an address.
    #[must_use]
    pub fn prefix_of(&self, client: Client) -> Option<IpAddr> {
        client.ip().map(|ip| self.prefixes.mask(ip))
    }

    /// The client behind a peer.
    ///
    /// # Errors
    /// [`MalformedRequest::BadForwarded`] and [`MalformedRequest::TooManyHops`], for headers of a trusted peer only.
    pub fn client_of(&self, peer: PeerAddr, headers: &HeaderMap) -> Result<Client, MalformedRequest> {
        if self.trusts(peer) { self.named_by(peer, headers) } else { Ok(address_of(peer)) }
    }

    /// The client that a proxy asks about, which has to name it.
    ///
    /// # Errors
    /// Those of [`client_of`](Self::client_of), and [`MalformedRequest::NoClient`].
    pub fn client_behind(&self, asker: PeerAddr, headers: &HeaderMap) -> Result<Client, MalformedRequest> {
        let client = self.named_by(asker, headers)?;
        if client == address_of(asker).unknown() { Err(MalformedRequest::NoClient) } else { Ok(client) }
    }

    fn named_by(&self, peer: PeerAddr, headers: &HeaderMap) -> Result<Client, MalformedRequest> {
        let start = address_of(peer).unknown();
        match &self.header {
            IdentityHeader::XForwardedFor => self.walk(start, x_forwarded_for(headers)),
            IdentityHeader::Forwarded => self.walk(start, forwarded(headers)?.into_iter().rev()),
            IdentityHeader::Single(name) => Ok(single(headers, name).unwrap_or(start)),
        }
    }

    /// The client if the headers cannot be read: the peer itself.
    #[must_use]
    pub fn client_of_peer(&self, peer: PeerAddr) -> Client {
        if self.trusts(peer) { address_of(peer).unknown() } else { address_of(peer) }
    }

    /// Walks from the last hop to the first: the client is the first untrusted address, or the leftmost address if all
    /// are trusted. A hop without a readable address leaves the client unknown.
    fn walk(
        &self,
        start: Client,
        hops: impl Iterator<Item = Option<IpAddr>>,
    ) -> Result<Client, MalformedRequest> {
        let mut client = start;
        for (trusted, hop) in hops.enumerate() {
            let Some(ip) = hop else { return Ok(client.unknown()) };
            client = Client::from_ip(ip);
            if !self.trust.contains(ip) {
                return Ok(client);
            }
            if trusted >= MAX_HOPS {
                return Err(MalformedRequest::TooManyHops);
            }
        }
        Ok(client)
    }
}

fn address_of(peer: PeerAddr) -> Client {
    match peer {
        PeerAddr::Ip(address) => Client::from_ip(address.ip()),
        PeerAddr::Unix => Client::UnixSocket,
    }
}

/// The hops of all lines from the last to the first, parsed lazily; `None` is not an address. Empty items are skipped.
fn x_forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let items = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
    items.map(<[u8]>::trim_ascii).filter(|item| !item.is_empty()).map(address)
}

/// The last hops, in order; at most one more than [`MAX_HOPS`].
fn forwarded(headers: &HeaderMap) -> Result<VecDeque<Option<IpAddr>>, MalformedRequest> {
    let mut last = VecDeque::new();
    for line in headers.get_all(FORWARDED) {
        let parsed = forwarded::for_each_element(line.as_bytes(), |element| {
            if last.len() > MAX_HOPS {
                last.pop_front();
            }
            last.push_back(element);
        });
        parsed.map_err(|forwarded::MalformedForwarded| MalformedRequest::BadForwarded)?;
    }
    Ok(last.iter().map(ForwardedElement::address).collect())
}

fn single(headers: &HeaderMap, name: &HeaderName) -> Option<Client> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    address(value.as_bytes().trim_ascii()).map(Client::from_ip)
}

/// An address with or without quotes, brackets and port; never a name, never an octal or short form.
fn address(item: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(item).ok()?;
    let text = text.strip_prefix('"').map_or(Some(text), |rest| rest.strip_suffix('"'))?;
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bracketed
        .and_then(|inner| inner.parse().ok().map(IpAddr::V6))
        .or_else(|| text.parse().ok())
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Trusted proxies in one chain. Real chains are shorter.
const MAX_HOPS: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(header: IdentityHeader) -> ClientSettings {
        let trust = ["10.0.0.0/8".parse().unwrap(), "127.0.0.1/32".parse().unwrap()].into_iter().collect();
        ClientSettings { trust, header, ..Default::default() }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        map
    }

    fn peer(ip: &str) -> PeerAddr {
        PeerAddr::Ip(SocketAddr::new(ip.parse().unwrap(), 5))
    }

    fn client(settings: &ClientSettings, from: &str, lines: &[(&'static str, &str)]) -> String {
        match settings.client_of(peer(from), &headers(lines)) {
            Ok(Client::Ip(ip)) => ip.to_string(),
            Ok(Client::BehindProxy(ip)) => format!("behind {ip}"),
            Ok(Client::UnixSocket) => "local".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_untrusted_peer_is_itself_whatever_it_says() {
        let settings = settings(IdentityHeader::XForwardedFor);
        assert_eq!(client(&settings, "192.0.2.1", &[("x-forwarded-for", "198.51.100.1")]), "192.0.2.1");
        assert_eq!(client(&settings, "192.0.2.1", &[("x-real-ip", "198.51.100.1")]), "192.0.2.1");
    }

    #[test]
    fn the_rightmost_untrusted_hop_is_the_client() {
        let settings = settings(IdentityHeader::XForwardedFor);
        for (chain, expected) in [
            ("198.51.100.1", "198.51.100.1"),
            ("6.6.6.6, 198.51.100.1", "198.51.100.1"),
            ("6.6.6.6, 198.51.100.1, 10.0.0.9", "198.51.100.1"),
            ("10.0.0.8, 10.0.0.9", "10.0.0.8"),
            ("198.51.100.1:4711", "198.51.100.1"),
            ("\"[2001:db8::7]:80\"", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("::ffff:198.51.100.1", "198.51.100.1"),
            ("2001:db8::1.2.3.4", "2001:db8::102:304"),
            (",, 198.51.100.1 ,", "198.51.100.1"),
        ] {
            assert_eq!(client(&settings, "127.0.0.1", &[("x-forwarded-for", chain)]), expected, "{chain}");
        }
    }

    #[test]
    fn what_is_not_an_address_stands_for_the_hop_that_said_it() {
        let settings = settings(IdentityHeader::XForwardedFor);
        let nonsense = [
            "unknown",
            "_hidden",
            "0177.0.0.1",
            "127.1",
            "0x7f.1",
            "fe80::1%eth0",
            "1.2.3.4.5",
            "\"1.2.3.4",
            "[1.2.3.4",
        ];
        for chain in nonsense {
            assert_eq!(
                client(&settings, "127.0.0.1", &[("x-forwarded-for", chain)]),
                "behind 127.0.0.1",
                "{chain}"
            );
            let chain = format!("{chain}, 10.0.0.9");
            assert_eq!(
                client(&settings, "127.0.0.1", &[("x-forwarded-for", &chain)]),
                "behind 10.0.0.9",
                "{chain}"
            );
        }
    }

    #[test]
    fn several_lines_are_one_list_and_only_our_own_hops_are_counted() {
        let settings = settings(IdentityHeader::XForwardedFor);
        let lines = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "198.51.100.1, 10.0.0.9")];
        assert_eq!(client(&settings, "127.0.0.1", &lines), "198.51.100.1");
        let flood = vec!["198.51.100.1"; 3_000].join(",");
        assert_eq!(client(&settings, "127.0.0.1", &[("x-forwarded-for", &flood)]), "198.51.100.1");
        for (hops, expected) in [(31, "198.51.100.1"), (32, "198.51.100.1"), (33, "too many")] {
            let chain = format!("junk, 198.51.100.1{}", ", 10.0.0.9".repeat(hops));
            let of_forwarded = format!("for=junk, for=198.51.100.1{}", ", for=10.0.0.9".repeat(hops));
            let by_forwarded = self::settings(IdentityHeader::Forwarded);
            let found = client(&settings, "127.0.0.1", &[("x-forwarded-for", &chain)]);
            assert!(found.contains(expected), "{hops}: {found}");
            assert_eq!(client(&by_forwarded, "127.0.0.1", &[("forwarded", &of_forwarded)]), found);
        }
    }

    #[test]
    fn a_proxy_that_says_nothing_has_clients_that_are_not_known() {
        for header in [
            IdentityHeader::XForwardedFor,
            IdentityHeader::Forwarded,
            IdentityHeader::Single(HeaderName::from_static("x-real-ip")),
        ] {
            assert_eq!(client(&settings(header), "127.0.0.1", &[]), "behind 127.0.0.1");
        }
    }

    #[test]
    fn forwarded_is_read_by_its_for_parameters() {
        let settings = settings(IdentityHeader::Forwarded);
        for (value, expected) in [
            ("for=198.51.100.1;proto=https", "198.51.100.1"),
            ("For=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("for=6.6.6.6, for=198.51.100.1, for=10.0.0.9;by=10.0.0.1", "198.51.100.1"),
            ("for=\"6.6.6.6, for=7.7.7.7\"", "behind 127.0.0.1"),
            ("for=unknown", "behind 127.0.0.1"),
            ("for=198.51.100.1, proto=https", "behind 127.0.0.1"),
            ("for=198.51.100.1;host=\"a\\\", for=8.8.8.8;x=\\\"b\"", "198.51.100.1"),
        ] {
            assert_eq!(client(&settings, "127.0.0.1", &[("forwarded", value)]), expected, "{value}");
        }
        let broken = client(&settings, "127.0.0.1", &[("forwarded", "for=198.51.100.1;for=6.6.6.6")]);
        assert_eq!(broken, MalformedRequest::BadForwarded.to_string());
    }

    #[test]
    fn a_single_address_header_must_be_single() {
        let settings = settings(IdentityHeader::Single(HeaderName::from_static("x-real-ip")));
        assert_eq!(client(&settings, "127.0.0.1", &[("x-real-ip", "198.51.100.1")]), "198.51.100.1");
        let twice = [("x-real-ip", "198.51.100.1"), ("x-real-ip", "6.6.6.6")];
        assert_eq!(client(&settings, "127.0.0.1", &twice), "behind 127.0.0.1");
        assert_eq!(
            client(&settings, "127.0.0.1", &[("x-forwarded-for", "198.51.100.1")]),
            "behind 127.0.0.1"
        );
    }

    #[test]
    fn a_unix_peer_is_local_unless_it_is_trusted() {
        let mut settings = settings(IdentityHeader::XForwardedFor);
        let headers = headers(&[("x-forwarded-for", "198.51.100.1")]);
        assert_eq!(settings.client_of(PeerAddr::Unix, &headers), Ok(Client::UnixSocket));
        settings.trust_unix = true;
        assert_eq!(
            settings.client_of(PeerAddr::Unix, &headers),
            Ok(Client::Ip("198.51.100.1".parse().unwrap()))
        );
    }

    #[test]
    fn clients_behind_a_translator_are_told_apart_by_the_connection_limit() {
        let settings = settings(IdentityHeader::XForwardedFor);
        let prefix = |ip: &str| settings.connection_prefix(peer(ip)).map(|ip| ip.to_string());
        assert_eq!(prefix("64:ff9b::203.0.113.7"), Some("203.0.113.7".into()));
        assert_eq!(prefix("2002:cb00:7107::1"), Some("203.0.113.7".into()));
        assert_eq!(prefix("64:ff9b::10.0.0.1"), Some("64:ff9b::a00:1".into()), "not a trusted proxy");
        assert_eq!(prefix("10.0.0.1"), None);
    }

    proptest! {
        /// L5, L19: a client cannot change its address by the beginning of the list, to which trusted proxies append.
        #[test]
        fn what_stands_before_the_client_changes_nothing(
            before in "([ -~]{0,60}|(10[.]0[.]0[.]1, ?){0,40}|for=10[.]0[.]0[.]1[,;\"\\\\]for=10[.]0[.]0[.]2)",
            same_line in any::<bool>(),
            hops in 0..=32_usize,
        ) {
            let lines = |appended: String| match same_line {
                true => vec![format!("{before}, {appended}")],
                false => vec![before.clone(), appended],
            };
            let appended = format!("203.0.113.7{}", ", 10.0.0.9".repeat(hops));
            let all = lines(appended);
            let all: Vec<_> = all.iter().map(|line| ("x-forwarded-for", line.as_str())).collect();
            prop_assert_eq!(client(&settings(IdentityHeader::XForwardedFor), "127.0.0.1", &all), "203.0.113.7");
            let appended = format!("for=203.0.113.7{}", ", for=10.0.0.9".repeat(hops));
            let all = lines(appended);
            let all: Vec<_> = all.iter().map(|line| ("forwarded", line.as_str())).collect();
            let found = client(&settings(IdentityHeader::Forwarded), "127.0.0.1", &all);
            prop_assert!(found == "203.0.113.7" || found == MalformedRequest::BadForwarded.to_string(), "{}", found);
        }

        #[test]
        fn any_header_is_read_without_a_panic(value in "[ -~]{0,80}") {
            for header in [IdentityHeader::XForwardedFor, IdentityHeader::Forwarded] {
                let lines = [("x-forwarded-for", value.as_str()), ("forwarded", value.as_str())];
                client(&settings(header), "127.0.0.1", &lines);
            }
        }
    }
}
