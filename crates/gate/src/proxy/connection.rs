//! A client connection: peer, listener, state and deadlines. `downstream` drives it.

pub(super) mod state;

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::task::Context;

use http::HeaderValue;

pub use self::state::{ConnectionState, Phase};
use crate::net::connection_limit::Permit;
use crate::net::listener::{Callers, ListenerKind};
use crate::net::stream::PeerAddr;
use crate::policy::attempt::TlsClient;
use crate::proxy::headers::address_value;
use crate::proxy::headers::received_head::ReceivedHead;
use crate::time::Clock;

/// A client connection, shared by its socket, its driver and its service.
#[derive(Debug)]
pub struct DownstreamConnection {
    /// The kind of listener that accepted it.
    pub listener_kind: ListenerKind,
    /// Whether a client made it, or a proxy that asks.
    pub callers: Callers,
    /// The address of the other end.
    pub peer: PeerAddr,
    /// The peer's address, written when the first request is forwarded.
    peer_value: OnceCell<HeaderValue>,
    /// Phase and deadlines.
    pub state: ConnectionState,
    /// What the peer showed in the handshake of TLS.
    pub tls: OnceCell<Box<TlsClient>>,
    /// The head of the latest request as it was received; empty over HTTP/2.
    pub head: RefCell<ReceivedHead>,
    /// A value that lives as long as the connection, set by the module that needs it.
    pub attached: OnceCell<Rc<dyn Any>>,
    /// Interim responses that were not sent yet; nobody sends them over HTTP/2.
    pub interim: RefCell<Vec<u8>>,
    permit: Permit,
}

impl DownstreamConnection {
    /// An admitted connection.
    #[must_use]
    pub fn new(
        listener_kind: ListenerKind,
        callers: Callers,
        peer: PeerAddr,
        permit: Permit,
        clock: Clock,
    ) -> Rc<Self> {
        let state = ConnectionState::new(clock);
        let (peer_value, attached) = (OnceCell::new(), OnceCell::new());
        let (tls, head, interim) = (OnceCell::new(), RefCell::default(), RefCell::default());
        Rc::new(Self {
            listener_kind,
            callers,
            peer,
            peer_value,
            state,
            tls,
            head,
            attached,
            interim,
            permit,
        })
    }

    /// The peer's address as a header value; `None` for a Unix socket.
    pub(super) fn peer_value(&self) -> Option<&HeaderValue> {
        match self.peer {
            PeerAddr::Ip(address) => Some(self.peer_value.get_or_init(|| address_value(address.ip()))),
            PeerAddr::Unix => None,
        }
    }

    /// The permit that counts the connection for its prefix.
    pub(super) fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Whether the connection is idle and has to give its slot to another client.
    pub(super) fn should_evict(&self, cx: &Context<'_>) -> bool {
        self.permit.poll_evicted(self.state.idle_since(), cx) && !self.state.was_evicted()
    }

    /// Whether the peer speaks TLS with us.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.listener_kind == ListenerKind::Tls
    }
}
