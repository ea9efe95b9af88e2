//! The response body sent to the client: generated here, or relayed from an upstream.
//!
//! It streams. The surprising thing: it is where a request ends, so it carries what is to happen then, and who watches for
//! what came of the attempt.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::BodyError;
use super::patience::BodyTimeout;
use super::watch::BodyInspector;
use crate::proxy::upstream::ConnectionLease;

/// An answer's body on its way to the client.
pub struct ResponseBody {
    content: BodySource,
    end: Option<Box<dyn AtEnd>>,
    bytes: u64,
    complete: bool,
}

/// What is to happen when an answer has left, or the client has.
pub trait AtEnd {
    /// `bytes` of the body were handed to the connection; `complete` says whether that is all of it.
    fn ended(&mut self, bytes: u64, complete: bool);
}

enum BodySource {
    Generated(VecDeque<Bytes>),
    Relayed(Box<RelayedBody>),
}

struct RelayedBody {
    incoming: Incoming,
    timeout: BodyTimeout,
    lease: Option<ConnectionLease>,
    /// What was read of it before its head was sent on.
    read_ahead: VecDeque<Bytes>,
    inspector: Option<Box<BodyInspector>>,
}

impl ResponseBody {
    /// An answer of our own.
    #[must_use]
    pub fn generated(bytes: Bytes) -> Self {
        Self::with(BodySource::Generated(Some(bytes).filter(|bytes| !bytes.is_empty()).into_iter().collect()))
    }

    /// An upstream's answer, which has to make some progress within `timeout`. The connection is given back when
    /// the body has come to its end, and closed otherwise. `ahead` was read of it already; whoever watches sees every
    /// piece before the client does.
    #[must_use]
    pub(in crate::proxy) fn relayed(
        incoming: Incoming,
        timeout: Duration,
        lease: ConnectionLease,
        ahead: VecDeque<Bytes>,
        watch: Option<Box<BodyInspector>>,
    ) -> Self {
        if incoming.is_end_stream() {
            lease.give_back();
            drop(watch.map(|watch| watch.settle(true)));
            return Self::with(BodySource::Generated(ahead));
        }
        let patience = BodyTimeout::for_upstream(timeout);
        Self::with(BodySource::Relayed(Box::new(RelayedBody {
            incoming,
            timeout: patience,
            lease: Some(lease),
            read_ahead: ahead,
            inspector: watch,
        })))
    }

    fn with(content: BodySource) -> Self {
        Self { content, end: None, bytes: 0, complete: false }
    }

    fn finish(&mut self, complete: bool) {
        if let Some(mut end) = self.end.take() {
            end.ended(self.bytes, complete);
        }
    }

    /// Does this when the answer has left.
    pub fn at_end(&mut self, end: Box<dyn AtEnd>) {
        self.end = Some(end);
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            BodySource::Generated(pieces) => pieces.pop_front().map(|bytes| Ok(Frame::data(bytes))),
            BodySource::Relayed(relay) => ready!(relay.poll_data(cx)),
        };
        match &frame {
            None => this.complete = true,
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            // Whoever closes the connection has to know before hyper lets go of it.
            Some(Err(_)) => this.finish(false),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BodySource::Generated(pieces) => pieces.is_empty(),
            BodySource::Relayed(relay) => relay.read_ahead.is_empty() && relay.lease.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodySource::Generated(pieces) => SizeHint::with_exact(length(pieces)),
            BodySource::Relayed(relay) => add_to_hint(length(&relay.read_ahead), &relay.incoming.size_hint()),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.finish(self.complete || self.is_end_stream());
    }
}

impl RelayedBody {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(bytes) = self.read_ahead.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let frame = ready!(self.timeout.poll_data(&mut self.incoming, cx));
        let is_last = frame.is_none() || self.incoming.is_end_stream();
        match &frame {
            Some(Err(_)) => drop(self.lease.take().map(ConnectionLease::close)),
            _ if is_last => drop(self.lease.take().map(ConnectionLease::give_back)),
            _ => {}
        }
        if self.inspector.is_some() {
            self.inspect(frame.as_ref(), is_last);
        }
        Poll::Ready(frame)
    }

    /// Before the client can have seen the end of the answer it is settled: whoever signs in and out in a row never waits
    /// for its own tokens.
    fn inspect(&mut self, frame: Option<&Result<Frame<Bytes>, BodyError>>, is_last: bool) {
        let Some(mut watch) = self.inspector.take() else { return };
        match frame {
            // Dropped, and so a failure: what is missing might have said anything.
            Some(Err(_)) => {}
            Some(Ok(frame)) => {
                let has_enough = watch.inspect(frame.data_ref().map_or(&[], |bytes| bytes));
                if has_enough || is_last {
                    let _ = watch.settle(is_last);
                } else {
                    self.inspector = Some(watch);
                }
            }
            None => drop(watch.settle(true)),
        }
    }
}

fn length(pieces: &VecDeque<Bytes>) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The size of what is here already and of what is still to come.
pub(super) fn add_to_hint(here: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(here));
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(here));
    }
    hint
}
