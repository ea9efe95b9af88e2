//! Drives an HTTP/1 client connection: hyper's settings, deadlines and the end.
//!
//! hyper reads and writes while there is something to read or write; meanwhile a connection [rests](rest) without it.
//! This module adds time-outs for heads and idle connections (hyper's own needs a timer for each request), and [`io`] a
//! lingering close and error pages in place of hyper's empty ones. `transaction` serves the requests.

pub(super) mod io;
mod rest;
mod timer;
mod validating_tap;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;

use self::io::Http1Io;
use self::timer::ConnectionTimer;
use crate::net::stream::NetStream;
use crate::proxy::body::ResponseBody;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::connection::state::{Deadlines, Overdue};
use crate::proxy::settings::ProxySettings;

/// Serves a connection until it ends: by itself, by a deadline, or by a drain.
pub(super) async fn serve<S>(
    stream: NetStream,
    connection: Arc<DownstreamConnection>,
    mut service: S,
    settings: &ProxySettings,
) where
    S: HttpService<Incoming, ResBody = ResponseBody> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let sleep = pin!(tokio::time::sleep(Duration::ZERO));
    let mut timer = ConnectionTimer::new(sleep, Deadlines::new(settings));
    let mut io = Http1Io::new(stream, Arc::clone(&connection));
    loop {
        connection.state.set_resting(true);
        timer.set(&connection.state);
        poll_fn(|cx| rest::poll_rest(&mut io, &connection, &mut timer, cx)).await;
        connection.state.set_resting(false);
        // Boxed: a connection at rest holds nothing of it.
        let served = Box::pin(serve_with_hyper(io, &connection, service, &mut timer)).await;
        let Some(parts) = served else { return };
        (io, service) = parts;
    }
}

/// Serves requests until the connection ends, or rests again: then it returns what goes on.
async fn serve_with_hyper<S>(
    io: Http1Io,
    connection: &DownstreamConnection,
    service: S,
    timer: &mut ConnectionTimer<'_>,
) -> Option<(Http1Io, S)>
where
    S: HttpService<Incoming, ResBody = ResponseBody> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut driver =
        Driver { hyper: builder().serve_connection(io, service).with_upgrades(), closing: false };
    if !poll_fn(|cx| driver.poll(connection, timer, cx)).await {
        return None;
    }
    // Nothing was read since the last request, so nothing can be left; if it were, the connection would have to end.
    let parts = driver.hyper.into_parts().filter(|parts| parts.read_buf.is_empty())?;
    Some((parts.io, parts.service))
}

/// A connection in hyper's hands.
struct Driver<S: HttpService<Incoming>> {
    hyper: http1::UpgradeableConnection<Http1Io, S>,
    closing: bool,
}

impl<S> Driver<S>
where
    S: HttpService<Incoming, ResBody = ResponseBody> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Ready when the connection has ended, or rests: then `true`.
    fn poll(
        &mut self,
        connection: &DownstreamConnection,
        timer: &mut ConnectionTimer<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        let state = &connection.state;
        loop {
            if state.is_draining() && !self.closing {
                Pin::new(&mut self.hyper).graceful_shutdown();
                self.closing = true;
            }
            if Pin::new(&mut self.hyper).poll(cx).is_ready() || self.closing && state.is_quiet() {
                return Poll::Ready(false);
            }
            timer.follow(state);
            if connection.should_evict(cx) {
                state.evict();
                continue;
            }
            match ready!(timer.poll(state, cx)) {
                Overdue::Head => state.expire_head(),
                Overdue::Idle => state.drain(),
                Overdue::Rest => {
                    state.set_resting(true);
                    return Poll::Ready(self.has_left(cx));
                }
                Overdue::Nothing | Overdue::Write => return Poll::Ready(false),
            }
            timer.set(state);
        }
    }

    /// Whether hyper has let go of an idle connection without closing it.
    fn has_left(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.hyper).graceful_shutdown();
        matches!(Pin::new(&mut self.hyper).poll(cx), Poll::Ready(Ok(())))
    }
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
