//! A connection that waits for its next byte without hyper, which holds 8 KiB and more for each of its connections.
//!
//! It rests before its first request, and again when it has been silent for a moment after a response. A rest ends when
//! hyper is needed: to read, to answer a head that does not come, or to close.

use std::task::{Context, Poll, ready};

use super::io::Http1Io;
use super::timer::ConnectionTimer;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::connection::state::Overdue;

/// Ready when the connection needs hyper.
pub(super) fn poll_rest(
    io: &mut Http1Io,
    connection: &DownstreamConnection,
    timer: &mut ConnectionTimer<'_>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let state = &connection.state;
    state.remember_waker(cx);
    if connection.should_evict(cx) {
        state.evict();
    }
    if state.is_draining() || io.poll_readable(cx).is_ready() {
        return Poll::Ready(());
    }
    match ready!(timer.poll(state, cx)) {
        Overdue::Head => state.expire_head(),
        _ => state.drain(),
    }
    Poll::Ready(())
}
