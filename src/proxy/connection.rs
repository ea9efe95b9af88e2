//! One client's connection: its deadlines, and what happens when it ends badly.
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
use std::task::{Poll, ready};
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use tokio::time::Instant;

pub(super) use self::handshake::shake_hands;
pub(super) use self::http2::serve_http2;
use self::io::Io;
use self::phase::{Deadlines, Overdue};
pub use self::phase::{Phase, Phases};
use super::body::ReplyBody;
use super::settings::Settings;
use crate::net::guard::Pass;
use crate::net::listener::Door;
use crate::net::stream::{Peer, Stream};
use crate::time::Clock;

/// What everybody who works for a connection knows of it.
#[derive(Debug)]
pub struct Connection {
    /// How it came in.
    pub door: Door,
    /// Who is at the other end.
    pub peer: Peer,
    /// The peer's address as a header value; `None` for a Unix socket.
    pub peer_value: Option<HeaderValue>,
    /// Where it stands.
    pub phases: Phases,
    pass: Pass,
}

impl Connection {
    /// A connection that was let in.
    #[must_use]
    pub fn new(door: Door, peer: Peer, pass: Pass, clock: Clock) -> Arc<Self> {
        let peer_value = match peer {
            Peer::Ip(address) => Some(super::headers::address_value(address.ip())),
            Peer::Unix => None,
        };
        Arc::new(Self { door, peer, peer_value, phases: Phases::new(clock), pass })
    }

    /// What counts it among those of its prefix.
    pub(super) fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Whether the peer speaks TLS with us.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.door == Door::Tls
    }
}

/// Serves a connection until it ends: by itself, by a deadline, or because the gate stops.
pub async fn serve<S>(stream: Stream, connection: Arc<Connection>, service: S, settings: &Settings)
where
    S: HttpService<hyper::body::Incoming, ResBody = ReplyBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let deadlines = Deadlines::new(settings);
    let io = Io::new(stream, Arc::clone(&connection));
    let mut driver = pin!(builder().serve_connection(io, service).with_upgrades());
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    timer.as_mut().reset(Instant::now() + deadlines.next(&connection.phases).to_std());
    let (mut closing, mut armed_for, mut registered) = (false, Phase::Head, false);
    poll_fn(|cx| {
        connection.phases.remember_waker(cx);
        loop {
            if connection.phases.is_draining() && !closing {
                driver.as_mut().graceful_shutdown();
                closing = true;
            }
            if driver.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if closing && connection.phases.is_at_rest() {
                return Poll::Ready(());
            }
            // The only change of phase that makes the deadline earlier.
            if connection.phases.now_in() == Phase::Head && armed_for != Phase::Head {
                connection.phases.head_begins();
                timer.as_mut().reset(Instant::now() + deadlines.next(&connection.phases).to_std());
                (armed_for, registered) = (Phase::Head, false);
            }
            // A timer that has registered this task wakes it: until then there is nothing to ask it.
            if registered && !timer.is_elapsed() {
                return Poll::Pending;
            }
            registered = true;
            ready!(timer.as_mut().poll(cx));
            registered = false;
            match deadlines.overdue(&connection.phases) {
                Overdue::Nothing => {}
                Overdue::Head => connection.phases.expire_head(),
                Overdue::Idle => connection.phases.drain(),
                Overdue::Write => return Poll::Ready(()),
            }
            armed_for = connection.phases.now_in();
            timer.as_mut().reset(Instant::now() + deadlines.next(&connection.phases).to_std());
        }
    })
    .await;
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Ours: hyper's allocates a timer for each head.
    builder
        .header_read_timeout(None)
        .max_headers(MOST_HEADERS)
        .max_header_size(LONGEST_HEAD)
        .max_buf_size(LARGEST_BUFFER);
    builder
}

const MOST_HEADERS: usize = 100;
const LONGEST_HEAD: usize = 32 * 1024;
const LARGEST_BUFFER: usize = 64 * 1024;
