//! Drives an HTTP/2 client connection: its bounds, its deadlines, and its end.
//!
//! hyper and h2 implement the protocol; this module sets their bounds, and closes connections that are idle or whose
//! client opens streams only to cancel them. Each stream is its own task (`stream`). Of
//! [`ConnectionState`](crate::proxy::connection::ConnectionState) only drain, last response and eviction are used: its
//! phases are those of one request at a time.

mod flood_check;
mod io;
mod stream;

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::StatusCode;
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

/// Serves a connection until it ends: by itself, by a deadline, or by a drain.
pub(super) async fn serve_http2(
    stream: NetStream,
    connection: Rc<DownstreamConnection>,
    service: Service,
    settings: &ProxySettings,
    budget: BudgetHandle,
    windows: FlowWindows,
) {
    let streams = Streams::new(&service, settings.idle_timeout.to_std());
    let (service, begun) = (Rc::new(service), Rc::default());
    let requests = Http2Service::new(&service, &streams);
    let io = Http2Io::new(stream, FloodCheck::new(budget, Rc::clone(&begun)));
    let mut driver = pin!(builder(&streams, windows).serve_connection(TokioIo::new(io), requests));
    let mut deadlines = Http2Deadlines::new(settings);
    let mut timer = pin!(tokio::time::sleep(deadlines.next_check(&streams)));
    let (mut closing, mut begun_before_end) = (false, None);
    let idle = IdleClock { epoch: Instant::now(), began: connection.state.now() };
    let is_ended_by_client = poll_fn(|cx| {
        connection.state.remember_waker(cx);
        streams.remember_waker(cx);
        loop {
            // GOAWAY announces the end of the connection, and no request is lost.
            if (connection.state.is_draining() || connection.state.closes_after_next()) && !closing {
                driver.as_mut().graceful_shutdown();
                closing = true;
                begun_before_end = Some(begun.get());
                deadlines.start_closing();
            }
            if driver.as_mut().poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            if streams.is_abused() || connection.state.was_evicted() {
                return Poll::Ready(false);
            }
            if connection.permit().poll_evicted(idle.since(&streams), cx) {
                // The next pass sends GOAWAY and ends the connection, which frees its slot at once.
                connection.state.evict();
                connection.state.drain();
                continue;
            }
            // A client need not close after a GOAWAY, so the deadline is earlier then.
            if closing && timer.deadline() > Instant::now() + deadlines.next_check(&streams) {
                reset(timer.as_mut(), deadlines.next_check(&streams));
            }
            ready!(timer.as_mut().poll(cx));
            if deadlines.is_overdue(&streams) {
                if closing {
                    return Poll::Ready(false);
                }
                connection.state.drain();
            }
            reset(timer.as_mut(), deadlines.next_check(&streams));
        }
    })
    .await;
    // When the gate ends a connection, requests may wait that h2 has not handed over.
    if is_ended_by_client {
        emit_malformed(&service, begun_before_end.unwrap_or_else(|| begun.get()), &streams);
    }
}

/// h2 resets what is not a request, and what is one too many, and tells nobody of it. `begun` counts the streams before
/// a GOAWAY: what the client begins after it, it sends elsewhere.
fn emit_malformed(service: &Service, begun: u64, streams: &Streams) {
    let malformed = begun.saturating_sub(streams.requests()).min(MAX_MALFORMED);
    (0..malformed).for_each(|_| service.emit_without_request(StatusCode::BAD_REQUEST));
}

/// Converts the instants of streams to times of the connection's clock.
struct IdleClock {
    epoch: Instant,
    began: Time,
}

impl IdleClock {
    /// When the connection became evictable; `None` while it has a stream.
    fn since(&self, streams: &Streams) -> Option<Time> {
        let passed = streams.idle_since()?.saturating_duration_since(self.epoch);
        let since = self.began.after(Span::from_nanos(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)));
        Some(if streams.had_any() { since } else { since.after(NEW_REQUEST_GRACE) })
    }
}

/// Flow control windows: bytes that a client may send before they are read. h2 buffers them outside all other limits.
pub(in crate::proxy) struct FlowWindows {
    stream: u32,
    connection: u32,
}

impl FlowWindows {
    /// The windows for this number of open connections.
    pub(in crate::proxy) fn for_connections(connections: usize) -> Self {
        if connections > MAX_CONNECTIONS_WITH_LARGE_WINDOWS {
            return Self { stream: MIN_WINDOW, connection: MIN_WINDOW };
        }
        Self { stream: STREAM_WINDOW, connection: CONNECTION_WINDOW }
    }
}

/// The time limits of a connection without a stream.
struct Http2Deadlines {
    /// Until the first stream.
    first_stream: Duration,
    /// Between two streams.
    next_stream: Duration,
    /// Start of the graceful close.
    closing_since: Option<Instant>,
}

impl Http2Deadlines {
    fn new(settings: &ProxySettings) -> Self {
        let (first, next) = (settings.header_timeout.to_std(), settings.idle_timeout.to_std());
        Self { first_stream: first, next_stream: next, closing_since: None }
    }

    /// Starts the grace time for the client to close.
    fn start_closing(&mut self) {
        self.closing_since = Some(Instant::now());
    }

    fn is_overdue(&self, streams: &Streams) -> bool {
        streams.idle_since().is_some_and(|since| Instant::now() >= since + self.allowed(streams))
    }

    /// The time until the next check, at least [`MIN_TIMER_STEP`].
    fn next_check(&self, streams: &Streams) -> Duration {
        let Some(since) = streams.idle_since() else { return self.next_stream };
        let left = (since + self.allowed(streams)).saturating_duration_since(Instant::now());
        // A short stream may end before, and the limit after it may be shorter.
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
/// Streams that the client cancelled before they were accepted.
const MAX_PENDING_RESETS: usize = 20;
/// Streams that were reset because of the client's errors.
const MAX_ERROR_RESETS: usize = 100;
/// Lines of one connection in the access log about what was no request: as many as h2 resets before it ends the connection.
const MAX_MALFORMED: u64 = 100;
/// Bytes of a decoded head.
const MAX_HEAD_LEN: u32 = 16 * 1024;
const HEADER_TABLE: u32 = 4 * 1024;
/// Bytes of a body that wait to be read, on a stream and on a connection.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// With more connections than this, all new ones have the minimum window.
const MAX_CONNECTIONS_WITH_LARGE_WINDOWS: usize = 256;
/// The initial window in bytes (RFC 9113, 6.9.2).
const MIN_WINDOW: u32 = 65_535;
/// Bytes of responses, for each stream.
const SEND_BUFFER: usize = 64 * 1024;
