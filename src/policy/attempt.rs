//! What is known of one request before anybody decides on it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, Method};

/// Who is asking, as far as buckets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// An address in canonical form: an IPv4 address mapped into IPv6 is an IPv4 address.
    Ip(IpAddr),
    /// A peer on a Unix socket that said nothing about the client.
    Local,
}

impl Client {
    /// The client at this address, whichever way it was written.
    #[must_use]
    pub fn from_ip(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }

    /// The address, if there is one.
    #[must_use]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::Local => None,
        }
    }
}

/// One request, as the policy sees it.
#[derive(Debug, Clone, Copy)]
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
    /// The whole body, if it was read.
    pub body: Option<&'a [u8]>,
}

impl Attempt<'_> {
    /// Whether a request that looks like reading could be taken as a write: by a method-override header, a
    /// `_method` parameter, or credentials in the query (PHP's `$_REQUEST` does not care where they stand).
    #[must_use]
    pub fn could_be_a_write(&self) -> bool {
        self.headers.keys().any(overrides_the_method)
            || self.query.is_some_and(|query| super::query::names(query).any(|name| hints_at_write(&name)))
    }
}

/// CGI and PHP read `X_Http_Method_Override` as the real header.
fn overrides_the_method(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_read_as = |known: &str| {
        let mut pairs = known.bytes().zip(name.bytes());
        known.len() == name.len() && pairs.all(|(a, b)| a == b || (a == b'-' && !b.is_ascii_alphanumeric()))
    };
    name.starts_with('x') && OVERRIDES.iter().any(|known| is_read_as(known))
}

/// `user[password]` is a password as well, so the whole name counts.
fn hints_at_write(name: &str) -> bool {
    name == "_method" || name.contains("pass") || name.contains("pwd")
}

const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-method-override", "x-http-method"];
