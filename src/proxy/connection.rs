//! A client connection: peer, listener, state and deadlines. `downstream` drives it.
//!
//! hyper reads and writes; here stands what it leaves open. Time-outs for heads and idle connections (hyper's own
//! costs a timer for each request), a lingering close so that an early answer is not lost to a reset, and pages of
//! ours in place of its empty error answers. One timer serves a connection for its whole life.

mod checked;
mod handshake;
mod http2;
mod io;
mod linger;
mod phase;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use tokio::time::Instant;

pub(super) use self::handshake::handshake;
pub(super) use self::http2::{FlowWindows, serve_http2};
use self::io::Http1Io;
pub use self::phase::{ConnectionState, Phase};
use self::phase::{Deadlines, Overdue};
use super::body::ResponseBody;
use super::settings::ProxySettings;
use crate::net::guard::Permit;
use crate::net::listener::ListenerKind;
use crate::net::stream::{NetStream, PeerAddr};
use crate::time::Clock;

/// What everybody who works for a connection knows of it.
#[derive(Debug)]
pub struct DownstreamConnection {
    /// How it came in.
    pub listener_kind: ListenerKind,
    /// Who is at the other end.
    pub peer: PeerAddr,
    /// The peer's address as a header value; `None` for a Unix socket.
    pub peer_value: Option<HeaderValue>,
    /// Where it stands.
    pub state: ConnectionState,
    permit: Permit,
}

impl DownstreamConnection {
    /// A connection that was let in.
    #[must_use]
    pub fn new(door: ListenerKind, peer: PeerAddr, pass: Permit, clock: Clock) -> Arc<Self> {
        let peer_value = match peer {
            PeerAddr::Ip(address) => Some(super::headers::address_value(address.ip())),
            PeerAddr::Unix => None,
        };
        Arc::new(Self {
            listener_kind: door,
            peer,
            peer_value,
            state: ConnectionState::new(clock),
            permit: pass,
        })
    }

    /// What counts it among those of its prefix.
    pub(super) fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Whether the connection is idle and another client is to have its place.
    fn should_evict(&self, cx: &Context<'_>) -> bool {
        self.permit.poll_evicted(self.state.idle_since(), cx) && !self.state.was_evicted()
    }

    /// Whether the peer speaks TLS with us.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.listener_kind == ListenerKind::Tls
    }
}

/// Serves a connection until it ends: by itself, by a deadline, or because the gate stops.
pub async fn serve<S>(
    stream: NetStream,
    connection: Arc<DownstreamConnection>,
    service: S,
    settings: &ProxySettings,
) where
    S: HttpService<hyper::body::Incoming, ResBody = ResponseBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let deadlines = Deadlines::new(settings);
    let io = Http1Io::new(stream, Arc::clone(&connection));
    let mut driver = pin!(builder().serve_connection(io, service).with_upgrades());
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    timer.as_mut().reset(Instant::now() + deadlines.next(&connection.state).to_std());
    let (mut closing, mut armed_for, mut registered) = (false, Phase::Head, false);
    poll_fn(|cx| {
        connection.state.remember_waker(cx);
        loop {
            if connection.state.is_draining() && !closing {
                driver.as_mut().graceful_shutdown();
                closing = true;
            }
            if driver.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if closing && connection.state.is_quiet() {
                return Poll::Ready(());
            }
            // The only change of phase that makes the deadline earlier.
            if connection.state.phase() == Phase::Head && armed_for != Phase::Head {
                connection.state.head_begins();
                timer.as_mut().reset(Instant::now() + deadlines.next(&connection.state).to_std());
                (armed_for, registered) = (Phase::Head, false);
            }
            if connection.should_evict(cx) {
                connection.state.evict();
                continue;
            }
            // A timer that has registered this task wakes it: until then there is nothing to ask it.
            if registered && !timer.is_elapsed() {
                return Poll::Pending;
            }
            registered = true;
            ready!(timer.as_mut().poll(cx));
            registered = false;
            match deadlines.overdue(&connection.state) {
                Overdue::Nothing => {}
                Overdue::Head => connection.state.expire_head(),
                Overdue::Idle => connection.state.drain(),
                Overdue::Write => return Poll::Ready(()),
            }
            armed_for = connection.state.phase();
            timer.as_mut().reset(Instant::now() + deadlines.next(&connection.state).to_std());
        }
    })
    .await;
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Ours: hyper's allocates a timer for each head.
    builder
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_LEN)
        .max_buf_size(MAX_BUFFER);
    builder
}

const MAX_HEADERS: usize = 100;
const MAX_HEAD_LEN: usize = 32 * 1024;
const MAX_BUFFER: usize = 64 * 1024;
