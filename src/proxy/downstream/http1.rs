//! Drives an HTTP/1 client connection: hyper's settings, deadlines and the end.
//!
//! hyper reads and writes. This module adds time-outs for heads and idle connections (hyper's own needs a timer for
//! each request), and [`io`] a lingering close and error pages in place of hyper's empty ones. One timer serves a
//! connection for its whole life. `transaction` serves the requests.

pub(super) mod io;
mod validating_tap;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::HttpService;
use tokio::time::Instant;

use self::io::Http1Io;
use crate::net::stream::NetStream;
use crate::proxy::body::ResponseBody;
use crate::proxy::connection::state::{Deadlines, Overdue};
use crate::proxy::connection::{DownstreamConnection, Phase};
use crate::proxy::settings::ProxySettings;

/// Serves a connection until it ends: by itself, by a deadline, or by a drain.
pub(super) async fn serve<S>(
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
            // Once polled, the timer wakes this task; until then polling it again is useless.
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
    // No header time-out: hyper would allocate a timer for each head. No number of headers: hyper's own is 100, and any
    // other one, even the same, is slower.
    builder.header_read_timeout(None).max_header_size(MAX_HEAD_LEN).max_buf_size(MAX_BUFFER);
    builder
}

const MAX_HEAD_LEN: usize = 32 * 1024;
const MAX_BUFFER: usize = 64 * 1024;
