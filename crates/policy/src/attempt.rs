//! One request as the policy sees it: method, target, host, client, headers and body.
//!
//! It holds data only; the proxy fills it, and [`charges`](super::Policy::charges) evaluates it. [`AttemptFacts`] are what it finds
//! in addition to the charges.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};

use super::descriptor::Descriptor;

/// The client of a request, as buckets distinguish clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// An address in canonical form: an IPv4 address mapped into IPv6 is an IPv4 address.
    Ip(IpAddr),
    /// A client behind the trusted proxy at this address, which sent no client address, or none that can be read. It is
    /// charged to the proxy's bucket and belongs to no network of the file: rates for the proxies are not meant for
    /// their clients.
    BehindProxy(IpAddr),
    /// A peer on a Unix socket that sent no client address.
    UnixSocket,
}

impl Client {
    /// The client at this address, in canonical form.
    #[must_use]
    pub fn from_ip(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }

    /// The address whose bucket is charged, if there is one.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) | Self::BehindProxy(ip) => Some(ip),
            Self::UnixSocket => None,
        }
    }

    /// The address for look-ups in networks; only for [`Client::Ip`].
    #[must_use]
    pub fn known_ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::BehindProxy(_) | Self::UnixSocket => None,
        }
    }

    /// The same peer as an unknown client: an address becomes [`Client::BehindProxy`].
    #[must_use]
    pub fn unknown(self) -> Self {
        match self {
            Self::Ip(ip) => Self::BehindProxy(ip),
            Self::BehindProxy(_) | Self::UnixSocket => self,
        }
    }
}

/// The body of a request, as far as it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AttemptBody<'a> {
    /// Not read yet.
    Unread,
    /// The whole body without its content coding; empty if there is none.
    Whole(&'a [u8]),
    /// The same, with what was found in it so far. It is not empty.
    Searched(SearchedBody<'a>),
    /// Longer than the policy reads, or not shown to it.
    TooLong,
    /// Not shown, and nobody says whether there is one. Only routes that read bodies take it for one.
    Unsaid,
}

/// A body, and what was found in it so far.
#[derive(Clone, Copy)]
pub struct SearchedBody<'a> {
    /// The whole body without its content coding.
    pub bytes: &'a [u8],
    /// What the same policy found in it: a [`BodySearch`](super::field::BodySearch). Anything else is ignored.
    pub found: &'a (dyn Any + Send + Sync),
}

impl PartialEq for SearchedBody<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && std::ptr::addr_eq(self.found, other.found)
    }
}

impl Eq for SearchedBody<'_> {}

/// One request. Its `Debug` form hides headers and body.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The method as sent; method names are case-sensitive (RFC 9110, 9.1).
    pub method: &'a Method,
    /// The path as sent; it has passed [`canonical::check`](super::canonical::check).
    pub path: &'a str,
    /// The query after the `?`, as sent.
    pub query: Option<&'a str>,
    /// The host in lower case, without port and trailing dot; empty if there is none.
    pub host: &'a str,
    /// The client.
    pub client: Client,
    /// The header lines as sent.
    pub headers: &'a HeaderMap,
    /// The body, as far as it was read.
    pub body: AttemptBody<'a>,
    /// What a rate limit service is told instead of the request; `None` for a request.
    pub descriptor: Option<&'a Descriptor<'a>>,
    /// What the client showed of itself.
    pub tls: Option<&'a TlsClient>,
}

/// What a client showed of itself: in the handshake of TLS with the gate, or with the trusted proxy that passes it on, and
/// by the signature of a request. Its `Debug` form hides it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsClient {
    /// The name in its certificate.
    pub certificate: Option<String>,
    /// The fingerprint of its first message.
    pub fingerprint: Option<String>,
    /// The name of the monitor that signed the request.
    pub monitor: Option<Arc<str>>,
}

impl TlsClient {
    /// Whether it showed nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsClient(hidden)")
    }
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
            Self::Whole(body) | Self::Searched(SearchedBody { bytes: body, .. }) => {
                write!(f, "body of {} bytes", body.len())
            }
            Self::TooLong => f.write_str("body that is too long"),
            Self::Unsaid => f.write_str("body that there may be"),
        }
    }
}

/// Facts of an attempt in addition to its charges, for logs, applications and operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptFacts {
    /// The account, if the attempt names a single one: a keyed hash of 48 bits ([`log_id`](super::key::KeyHasher::log_id)),
    /// never its name.
    pub account: Option<u64>,
    /// Whether its client is known as the owner of that account.
    pub is_owner: bool,
    /// Whether an alarm is on at a route that counts it, so that attempts of strangers cost more.
    pub is_alarmed: bool,
    /// Whether it is at an account that no person uses.
    pub is_of_nobody: bool,
    /// Failures of the account before this attempt: those in a row where `max_failures` counts them, otherwise those that its
    /// limit of failures has not yet refilled; zero for a known owner.
    pub failures_before: u32,
}
