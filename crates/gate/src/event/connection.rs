//! What happens to connections of clients.

use std::net::IpAddr;

/// A connection of a client, from the first packet to the last.
#[derive(Debug)]
pub enum ConnectionEvent<'a> {
    /// A client connected.
    Opened,
    /// A client's connection ended.
    Closed,
    /// A client's connection was rejected.
    Rejected {
        /// The client's address, if it has one.
        peer: Option<IpAddr>,
        /// The reason.
        reason: RejectReason,
    },
    /// An idle connection was closed, because connection slots, descriptors or memory were short.
    Evicted,
    /// `accept` failed; the listener tries again.
    AcceptFailed(&'a std::io::Error),
}

/// Why a connection was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// `connections`: all slots are taken, and the idle connections belong to clients with fewer connections.
    Connections,
    /// `client_max`: the client's prefix has that many connections already.
    ClientMax,
    /// `client_rate`: the client's prefix opens connections too fast.
    ClientRate,
    /// The TLS handshake failed or was not completed.
    Handshake,
    /// The listener demands a PROXY header, and the peer is not a trusted proxy.
    UntrustedProxy,
    /// The listener demands a PROXY header, and the connection did not begin with one.
    ProxyHeader,
    /// Memory is short: the gate uses most of its limit.
    Memory,
    /// Descriptors are short: the rest is reserved for upstream connections and files.
    Descriptors,
}
