//! What is known of one request before a decision.

use std::net::IpAddr;

use http::{HeaderMap, Method};

/// Who is asking, as far as buckets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// An address in canonical form: an IPv4 address mapped into IPv6 is an IPv4 address.
    Ip(IpAddr),
    /// Somebody behind the trusted proxy at this address, which did not say who, or not so that it can be read. It pays
    /// from the proxy's bucket, and no network of the file holds it: what is meant for the proxies is not meant for
    /// their clients.
    BehindProxy(IpAddr),
    /// A peer on a Unix socket that said nothing about the client.
    UnixSocket,
}

impl Client {
    /// The client at this address, whichever way it was written.
    #[must_use]
    pub fn from_ip(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }

    /// The address that it pays for, if there is one.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) | Self::BehindProxy(ip) => Some(ip),
            Self::UnixSocket => None,
        }
    }

    /// The address by which it belongs to networks: only of a client that is known.
    #[must_use]
    pub fn known_ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::BehindProxy(_) | Self::UnixSocket => None,
        }
    }

    /// The same client as far as its bucket goes, when no more is known of it.
    #[must_use]
    pub fn unknown(self) -> Self {
        match self {
            Self::Ip(ip) => Self::BehindProxy(ip),
            Self::BehindProxy(_) | Self::UnixSocket => self,
        }
    }
}

/// What is known of a request's body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AttemptBody<'a> {
    /// Nothing yet.
    Unread,
    /// All of it; empty if there is none.
    Whole(&'a [u8]),
    /// More than anybody reads.
    TooLong,
}

/// One request, as the policy sees it. Its headers and its body are never shown.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// As sent; method names are case-sensitive (RFC 9110, 9.1).
    pub method: &'a Method,
    /// The path as sent; it has passed [`canonical::check`](super::canonical::check).
    pub path: &'a str,
    /// What follows the `?`, as sent.
    pub query: Option<&'a str>,
    /// The host in lower case, without port and trailing dot; empty if there is none.
    pub host: &'a str,
    /// Who is asking.
    pub client: Client,
    /// The header lines as sent.
    pub headers: &'a HeaderMap,
    /// Its body, as far as it was read.
    pub body: AttemptBody<'a>,
}

impl std::fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, path, host, client, .. } = self;
        write!(f, "Attempt({client:?} {method} {host}{path}, {:?})", self.body)
    }
}

impl std::fmt::Debug for AttemptBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unread => f.write_str("unread body"),
            Self::Whole(body) => write!(f, "body of {} bytes", body.len()),
            Self::TooLong => f.write_str("body that is too long"),
        }
    }
}
