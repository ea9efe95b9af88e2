//! Connections to the upstreams.

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
    /// `unix:/path`.
    Unix(PathBuf),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "http://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "http://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
