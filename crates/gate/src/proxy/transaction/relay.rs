//! Relays an upstream's response to the client.
//!
//! `upstream` returns the connection to the pool at the end of the body. `inspect` settles the attempt.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};

use super::inspect::BodyInspector;
use crate::policy::Pace;
use crate::proxy::body::{BodyError, BodyStart, BodyTimeout, PacedBody, ReadAhead, ResponseBody};
use crate::proxy::headers::trailers::passed_trailers;
use crate::proxy::runtime_config::WorkerConfig;
use crate::proxy::upstream::UpstreamBody;
use crate::time::Clock;

/// A body on its way from an upstream to a client.
pub(super) struct RelayedBody {
    incoming: UpstreamBody,
    timeout: BodyTimeout,
    /// What was read before the head was sent.
    read_ahead: BodyStart,
    inspector: Option<Box<BodyInspector>>,
    /// Why the body ended early, until the client's side is told.
    failure: Option<BodyError>,
    config: Rc<WorkerConfig>,
}

/// By what a body passes, if limits that count bytes apply to it.
pub(super) type Paces = Option<(Box<[Pace]>, Clock)>;

/// The body of an upstream's response, with a time-out for each next piece. `read_ahead` was read already; the inspector
/// gets every piece before the client, and before the piece waits for `paces`.
pub(super) fn relay(
    mut incoming: UpstreamBody,
    config: &Rc<WorkerConfig>,
    mut read_ahead: BodyStart,
    inspector: Option<Box<BodyInspector>>,
    timeout: Duration,
    paces: Paces,
    ahead: impl FnOnce() -> ReadAhead,
) -> ResponseBody {
    read_ahead.filter_trailers(|trailers| passed(config, trailers));
    if incoming.is_end_stream() {
        incoming.end_if_empty();
        drop(inspector.map(|inspector| inspector.settle(true)));
        return match paces {
            Some((paces, clock)) if !read_ahead.is_empty() => {
                ResponseBody::held_back(Box::new(PacedBody::new(read_ahead, paces, clock))).paced()
            }
            _ => ResponseBody::whole(read_ahead),
        };
    }
    let (timeout, config) = (BodyTimeout::for_upstream(timeout), Rc::clone(config));
    let body = RelayedBody { incoming, timeout, read_ahead, inspector, failure: None, config };
    let relayed = match paces {
        Some((paces, clock)) => ResponseBody::relayed(Box::new(PacedBody::new(body, paces, clock))).paced(),
        None => ResponseBody::relayed(Box::new(body)),
    };
    relayed.with_ahead(ahead())
}

impl Body for RelayedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(frame) = this.read_ahead.pop() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(failure) = this.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        let frame = ready!(this.timeout.poll_frame(&mut this.incoming, cx));
        let is_last = frame.is_none() || this.incoming.is_end_stream();
        if this.inspector.is_some() {
            this.inspect(frame.as_ref(), is_last);
        }
        match frame {
            Some(Err(failure)) => {
                this.incoming.close();
                this.failure = Some(failure);
                // Over HTTP/2 a body that fails resets its stream: what came before gets a turn to be written.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Ok(frame)) => Poll::Ready(this.filtered(frame).map(Ok)),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read_ahead.is_empty() && self.failure.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.read_ahead.hint(&self.incoming.size_hint())
    }
}

/// The trailers that a client gets.
fn passed(config: &WorkerConfig, trailers: HeaderMap) -> Option<HeaderMap> {
    let policy = &config.shared.rules.policy;
    let is_hidden = |name: &HeaderName| policy.hidden_headers().any(|hidden| hidden == name);
    passed_trailers(trailers, is_hidden)
}

impl RelayedBody {
    /// A piece, or the trailers that pass.
    fn filtered(&self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        match frame.into_trailers() {
            Err(piece) => Some(piece),
            Ok(trailers) => passed(&self.config, trailers).map(Frame::trailers),
        }
    }

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
