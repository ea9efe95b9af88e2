//! A client's connection that speaks HTTP/2: its bounds, its deadlines, and how it ends.
//!
//! hyper and h2 know the protocol; here stand the numbers, and what they leave open: a connection that is idle, one whose
//! client opens streams only to give them up. Each stream is a task of its own (`stream`). The surprising thing: nothing
//! of [`Phases`](super::Phases) is used but the wish to stop, because many requests are served at once.

mod frames;
mod io;
mod stream;
mod translate;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Instant, Sleep};

use self::frames::Counted;
use self::io::Io;
use self::stream::{Multiplexed, Streams};
use super::Connection;
use crate::net::stream::Stream;
use crate::proxy::service::Service;
use crate::proxy::settings::Settings;
use crate::proxy::turnstile::Ticket;

/// Serves a connection until it ends: by itself, by a deadline, or because the gate stops.
pub(in crate::proxy) async fn serve_http2(
    stream: Stream,
    connection: Arc<Connection>,
    service: Service,
    settings: &Settings,
    ticket: Ticket,
) {
    let streams = Streams::new(service.events(), settings.idle_timeout.to_std());
    let service = Multiplexed::new(service, &streams);
    let io = Io::new(stream, Counted::new(ticket));
    let mut driver = pin!(builder(&streams).serve_connection(TokioIo::new(io), service));
    let mut patience = Patience::new(settings);
    let mut timer = pin!(tokio::time::sleep(patience.left(&streams)));
    let mut closing = false;
    poll_fn(|cx| {
        connection.phases.remember_waker(cx);
        streams.remember_waker(cx);
        loop {
            // It has words of its own for that, which lose nothing.
            if (connection.phases.is_draining() || connection.phases.is_leaving()) && !closing {
                driver.as_mut().graceful_shutdown();
                closing = true;
                patience.closes();
            }
            if driver.as_mut().poll(cx).is_ready() || streams.are_abused() {
                return Poll::Ready(());
            }
            // A client that is told of the end need not agree to it.
            if closing && timer.deadline() > Instant::now() + patience.left(&streams) {
                rewind(timer.as_mut(), patience.left(&streams));
            }
            ready!(timer.as_mut().poll(cx));
            if patience.is_over(&streams) {
                if closing {
                    return Poll::Ready(());
                }
                connection.phases.drain();
            }
            rewind(timer.as_mut(), patience.left(&streams));
        }
    })
    .await;
}

/// How long a connection may be without a stream.
struct Patience {
    /// For the first one.
    first: Duration,
    /// For another one.
    next: Duration,
    /// Since when its end is waited for.
    closing: Option<Instant>,
}

impl Patience {
    fn new(settings: &Settings) -> Self {
        let (first, next) = (settings.header_timeout.to_std(), settings.idle_timeout.to_std());
        Self { first, next, closing: None }
    }

    /// The client is told that nothing more is served, and has a moment to agree.
    fn closes(&mut self) {
        self.closing = Some(Instant::now());
    }

    fn is_over(&self, streams: &Streams) -> bool {
        streams.idle_since().is_some_and(|since| Instant::now() >= since + self.allowed(streams))
    }

    /// When to look again.
    fn left(&self, streams: &Streams) -> Duration {
        let Some(since) = streams.idle_since() else { return self.next };
        let left = (since + self.allowed(streams)).saturating_duration_since(Instant::now());
        // A stream may come and go in a moment, and what is allowed after it may be less.
        left.min(self.next).max(MOMENT)
    }

    fn allowed(&self, streams: &Streams) -> Duration {
        let allowed = if streams.were_there() { self.next } else { self.first };
        match (self.closing, streams.idle_since()) {
            (Some(closing), Some(since)) => closing.saturating_duration_since(since) + GRACE,
            _ => allowed,
        }
    }
}

fn rewind(timer: std::pin::Pin<&mut Sleep>, left: Duration) {
    timer.reset(Instant::now() + left);
}

fn builder(streams: &Rc<Streams>) -> http2::Builder<stream::Local> {
    let mut builder = http2::Builder::new(stream::Local(Rc::clone(streams)));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_PENDING_RESETS)
        .max_local_error_reset_streams(MOST_ERROR_RESETS)
        .max_header_list_size(LONGEST_HEAD)
        .header_table_size(HEADER_TABLE)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

const MOMENT: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(2);
const MOST_STREAMS: u32 = 100;
/// Streams that were given up before they were looked at.
const MOST_PENDING_RESETS: usize = 20;
/// Streams that had to be ended because of what the client sent on them.
const MOST_ERROR_RESETS: usize = 100;
/// Decoded.
const LONGEST_HEAD: u32 = 16 * 1024;
const HEADER_TABLE: u32 = 4 * 1024;
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Of answers, for each stream.
const SEND_BUFFER: usize = 64 * 1024;
