//! The sender of a request.

use std::net::SocketAddr;

use http::Extensions;
use tollgate::net::stream::PeerAddr;
use tollgate::proxy::transaction::in_process::RequestSender;

/// The other end of the connection over which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    address: Option<SocketAddr>,
    is_secure: bool,
}

/// Finds the sender of a request by its extensions.
pub(crate) type SenderOf = dyn Fn(&Extensions) -> Option<Sender> + Send + Sync;

impl Sender {
    /// The other end of a connection over TCP.
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        Self { address: Some(address), is_secure: false }
    }

    /// The other end of a Unix socket. `client.trust = ["unix:"]` lets it name its client.
    #[must_use]
    pub fn unix() -> Self {
        Self { address: None, is_secure: false }
    }

    /// The same over TLS with the program: cookies for browsers are then for TLS alone.
    #[must_use]
    pub fn over_tls(self) -> Self {
        Self { is_secure: true, ..self }
    }

    pub(crate) fn as_request_sender(self) -> RequestSender {
        let peer = self.address.map_or(PeerAddr::Unix, PeerAddr::Ip);
        RequestSender { peer, is_secure: self.is_secure }
    }
}

impl From<SocketAddr> for Sender {
    fn from(address: SocketAddr) -> Self {
        Self::tcp(address)
    }
}
