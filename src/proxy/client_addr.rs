//! Who is the client?

use http::HeaderName;

use crate::policy::key::PrefixLengths;
use crate::policy::network::NetworkSet;

/// What the file says about clients: `[client]`.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings {
    /// Proxies in front of us; nobody else is believed.
    pub trust: NetworkSet,
    /// Whether peers on Unix sockets are believed (`trust = ["unix:"]`).
    pub trust_unix: bool,
    /// Where a trusted proxy says who the client is.
    pub header: IdentityHeader,
    /// Addresses that share this prefix share a bucket, unless a limit says otherwise.
    pub prefixes: PrefixLengths,
}

/// The one header that says who the client is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IdentityHeader {
    /// `X-Forwarded-For`: a list, read from the right over trusted hops.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): likewise, by its `for` parameters.
    Forwarded,
    /// A header that holds one address, such as `X-Real-IP`.
    Single(HeaderName),
}
