//! Relays an upstream's response to the client.
//!
//! The upstream connection returns to the pool at the end of the body, and closes if the body is incomplete. `inspect`
//! settles the attempt.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::inspect::BodyInspector;
use crate::proxy::body::{BodyError, BodyTimeout, ResponseBody, add_to_hint, length};
use crate::proxy::upstream::ConnectionLease;

/// A body on its way from an upstream to a client.
pub(super) struct RelayedBody {
    incoming: Incoming,
    timeout: BodyTimeout,
    lease: Option<ConnectionLease>,
    /// Pieces that were read before the head was sent.
    read_ahead: VecDeque<Bytes>,
    inspector: Option<Box<BodyInspector>>,
}

/// The body of an upstream's response, with `timeout` for each next piece. `read_ahead` was read already; the inspector
/// gets every piece before the client.
pub(super) fn relay(
    incoming: Incoming,
    timeout: Duration,
    lease: ConnectionLease,
    read_ahead: VecDeque<Bytes>,
    inspector: Option<Box<BodyInspector>>,
) -> ResponseBody {
    if incoming.is_end_stream() {
        lease.give_back();
        drop(inspector.map(|inspector| inspector.settle(true)));
        return ResponseBody::of_pieces(read_ahead);
    }
    let timeout = BodyTimeout::for_upstream(timeout);
    ResponseBody::relayed(Box::new(RelayedBody {
        incoming,
        timeout,
        lease: Some(lease),
        read_ahead,
        inspector,
    }))
}

impl Body for RelayedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(bytes) = this.read_ahead.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let frame = ready!(this.timeout.poll_data(&mut this.incoming, cx));
        let is_last = frame.is_none() || this.incoming.is_end_stream();
        match &frame {
            Some(Err(_)) => drop(this.lease.take().map(ConnectionLease::close)),
            _ if is_last => drop(this.lease.take().map(ConnectionLease::give_back)),
            _ => {}
        }
        if this.inspector.is_some() {
            this.inspect(frame.as_ref(), is_last);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.read_ahead.is_empty() && self.lease.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        add_to_hint(length(&self.read_ahead), &self.incoming.size_hint())
    }
}

impl RelayedBody {
    /// Settles the attempt before the client can see the end of the response, so a client that signs in and out in a
    /// row never waits for its own tokens.
    fn inspect(&mut self, frame: Option<&Result<Frame<Bytes>, BodyError>>, is_last: bool) {
        let Some(mut inspector) = self.inspector.take() else { return };
        match frame {
            // Dropped, and so a failure: the missing part could decide either way.
            Some(Err(_)) => {}
            Some(Ok(frame)) => {
                let has_enough = inspector.inspect(frame.data_ref().map_or(&[], |bytes| bytes));
                if has_enough || is_last {
                    let _ = inspector.settle(is_last);
                } else {
                    self.inspector = Some(inspector);
                }
            }
            None => drop(inspector.settle(true)),
        }
    }
}
