//! Drives an HTTP/2 client connection: its bounds, its deadlines, and its end.
//!
//! hyper and h2 know the protocol; here stand the numbers, and what they leave open: a connection that is idle, one whose
//! client opens streams only to give them up. Each stream is a task of its own (`stream`). The surprising thing: nothing
//! of [`ConnectionState`](super::super::connection::Phases) is used but the wish to stop, because many requests are served at once.

mod flood_check;
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

use self::flood_check::FloodCheck;
use self::io::Http2Io;
use self::stream::{Http2Service, Streams};
use crate::net::stream::NetStream;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::connection::state::NEW_REQUEST_GRACE;
use crate::proxy::downstream::budget::BudgetHandle;
use crate::proxy::settings::ProxySettings;
use crate::proxy::transaction::service::Service;
use crate::time::{Span, Time};

/// Serves a connection until it ends: by itself, by a deadline, or because the gate stops.
pub(super) async fn serve_http2(
    stream: NetStream,
    connection: Arc<DownstreamConnection>,
    service: Service,
    settings: &ProxySettings,
    ticket: BudgetHandle,
    windows: FlowWindows,
) {
    let streams = Streams::new(service.events(), settings.idle_timeout.to_std());
    let service = Http2Service::new(service, &streams);
    let io = Http2Io::new(stream, FloodCheck::new(ticket));
    let mut driver = pin!(builder(&streams, windows).serve_connection(TokioIo::new(io), service));
    let mut patience = Http2Deadlines::new(settings);
    let mut timer = pin!(tokio::time::sleep(patience.next_check(&streams)));
    let mut closing = false;
    let idle = IdleClock { epoch: Instant::now(), began: connection.state.now() };
    poll_fn(|cx| {
        connection.state.remember_waker(cx);
        streams.remember_waker(cx);
        loop {
            // It has words of its own for that, which lose nothing.
            if (connection.state.is_draining() || connection.state.closes_after_next()) && !closing {
                driver.as_mut().graceful_shutdown();
                closing = true;
                patience.start_closing();
            }
            if driver.as_mut().poll(cx).is_ready() || streams.is_abused() || connection.state.was_evicted() {
                return Poll::Ready(());
            }
            if connection.permit().poll_evicted(idle.since(&streams), cx) {
                // It is told, and its place is free at once.
                connection.state.evict();
                continue;
            }
            // A client that is told of the end need not agree to it.
            if closing && timer.deadline() > Instant::now() + patience.next_check(&streams) {
                reset(timer.as_mut(), patience.next_check(&streams));
            }
            ready!(timer.as_mut().poll(cx));
            if patience.is_overdue(&streams) {
                if closing {
                    return Poll::Ready(());
                }
                connection.state.drain();
            }
            reset(timer.as_mut(), patience.next_check(&streams));
        }
    })
    .await;
}

/// Turns the moments of streams into times of our clock.
struct IdleClock {
    epoch: Instant,
    began: Time,
}

impl IdleClock {
    /// Since when another client may have the place of this connection.
    fn since(&self, streams: &Streams) -> Option<Time> {
        let passed = streams.idle_since()?.saturating_duration_since(self.epoch);
        let since = self.began.after(Span::from_nanos(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)));
        Some(if streams.had_any() { since } else { since.after(NEW_REQUEST_GRACE) })
    }
}

/// How much a client may send before it is looked at. h2 keeps it, and nobody else counts it.
pub(in crate::proxy) struct FlowWindows {
    stream: u32,
    connection: u32,
}

impl FlowWindows {
    /// Where so many connections are here.
    pub(in crate::proxy) fn for_connections(connections: usize) -> Self {
        if connections > MAX_CONNECTIONS_WITH_LARGE_WINDOWS {
            return Self { stream: MIN_WINDOW, connection: MIN_WINDOW };
        }
        Self { stream: 128 * 1024, connection: 256 * 1024 }
    }
}

/// How long a connection may be without a stream.
struct Http2Deadlines {
    /// For the first one.
    first_stream: Duration,
    /// For another one.
    next_stream: Duration,
    /// Since when its end is waited for.
    closing_since: Option<Instant>,
}

impl Http2Deadlines {
    fn new(settings: &ProxySettings) -> Self {
        let (first, next) = (settings.header_timeout.to_std(), settings.idle_timeout.to_std());
        Self { first_stream: first, next_stream: next, closing_since: None }
    }

    /// The client is told that nothing more is served, and has a moment to agree.
    fn start_closing(&mut self) {
        self.closing_since = Some(Instant::now());
    }

    fn is_overdue(&self, streams: &Streams) -> bool {
        streams.idle_since().is_some_and(|since| Instant::now() >= since + self.allowed(streams))
    }

    /// When to look again.
    fn next_check(&self, streams: &Streams) -> Duration {
        let Some(since) = streams.idle_since() else { return self.next_stream };
        let left = (since + self.allowed(streams)).saturating_duration_since(Instant::now());
        // A stream may come and go in a moment, and what is allowed after it may be less.
        left.min(self.next_stream).max(MIN_TIMER_STEP)
    }

    fn allowed(&self, streams: &Streams) -> Duration {
        let allowed = if streams.had_any() { self.next_stream } else { self.first_stream };
        match (self.closing_since, streams.idle_since()) {
            (Some(closing), Some(since)) => closing.saturating_duration_since(since) + GRACE,
            _ => allowed,
        }
    }
}

fn reset(timer: std::pin::Pin<&mut Sleep>, left: Duration) {
    timer.reset(Instant::now() + left);
}

fn builder(streams: &Rc<Streams>, windows: FlowWindows) -> http2::Builder<stream::StreamExecutor> {
    let mut builder = http2::Builder::new(stream::StreamExecutor(Rc::clone(streams)));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .max_header_list_size(MAX_HEAD_LEN)
        .header_table_size(HEADER_TABLE)
        .initial_stream_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_send_buf_size(SEND_BUFFER);
    builder
}

const MIN_TIMER_STEP: Duration = Duration::from_millis(5);
const GRACE: Duration = Duration::from_secs(2);
const MAX_STREAMS: u32 = 100;
/// Streams that were given up before they were looked at.
const MAX_PENDING_RESETS: usize = 20;
/// Streams that had to be ended because of what the client sent on them.
const MAX_ERROR_RESETS: usize = 100;
/// Decoded.
const MAX_HEAD_LEN: u32 = 16 * 1024;
const HEADER_TABLE: u32 = 4 * 1024;
/// Connections at once with windows that a long way needs.
const MAX_CONNECTIONS_WITH_LARGE_WINDOWS: usize = 256;
/// What every connection has to have (RFC 9113, 6.9.2).
const MIN_WINDOW: u32 = 65_535;
/// Of answers, for each stream.
const SEND_BUFFER: usize = 64 * 1024;
