//! Where upstreams listen, and by which names they are asked.

use std::fmt;
use std::path::PathBuf;

/// Where an upstream listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// `http://host:port`; a name is resolved at each new connection.
    Tcp {
        /// A name or an address without brackets.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
    /// `https://host:port`: the same over TLS; the server's certificate has to be valid for the host.
    Tls {
        /// A name or an address without brackets.
        host: String,
        /// 1 to 65,535.
        port: u16,
    },
    /// `unix:/path`.
    Unix(PathBuf),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "http://{}", authority(host, *port)),
            Self::Tls { host, port } => write!(f, "https://{}", authority(host, *port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An upstream: where it listens, and whom it is asked as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTarget {
    /// Where it listens.
    pub address: UpstreamAddress,
    /// The name that it goes by; `None` leaves it the `Host` of each request, and over TLS the host of its address.
    pub host: Option<UpstreamHost>,
}

/// `upstream_host` of a route: the `Host` that an upstream gets, and the name that its certificate has to be valid for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamHost {
    /// A name or an address without brackets, in lower case.
    pub name: String,
    /// 1 to 65,535, if `Host` has a port.
    pub port: Option<u16>,
}

impl From<UpstreamAddress> for UpstreamTarget {
    fn from(address: UpstreamAddress) -> Self {
        Self { address, host: None }
    }
}

impl fmt::Display for UpstreamTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => self.address.fmt(f),
            Some(host) => write!(f, "{} as {host}", self.address),
        }
    }
}

/// As in `Host`.
impl fmt::Display for UpstreamHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => f.write_str(&authority(&self.name, port)),
            None if self.name.contains(':') => write!(f, "[{}]", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Host and port as in a URL.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
