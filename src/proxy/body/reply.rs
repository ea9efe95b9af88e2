//! An answer's body on its way to the client.
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
use super::patience::Patience;
use super::watch::Watch;
use crate::proxy::upstream::Lease;

/// An answer's body on its way to the client.
pub struct ReplyBody {
    content: Content,
    end: Option<Box<dyn AtEnd>>,
    bytes: u64,
    complete: bool,
}

/// What is to happen when an answer has left, or the client has.
pub trait AtEnd {
    /// `bytes` of the body were handed to the connection; `complete` says whether that is all of it.
    fn ended(&mut self, bytes: u64, complete: bool);
}

enum Content {
    Ours(VecDeque<Bytes>),
    Upstreams(Box<Relay>),
}

struct Relay {
    incoming: Incoming,
    patience: Patience,
    lease: Option<Lease>,
    /// What was read of it before its head was sent on.
    ahead: VecDeque<Bytes>,
    watch: Option<Box<Watch>>,
}

impl ReplyBody {
    /// An answer of our own.
    #[must_use]
    pub fn ours(bytes: Bytes) -> Self {
        Self::with(Content::Ours(Some(bytes).filter(|bytes| !bytes.is_empty()).into_iter().collect()))
    }

    /// An upstream's answer, which has to make some progress within `timeout`. The connection is given back when
    /// the body has come to its end, and closed otherwise. `ahead` was read of it already; whoever watches sees every
    /// piece before the client does.
    #[must_use]
    pub(in crate::proxy) fn upstreams(
        incoming: Incoming,
        timeout: Duration,
        lease: Lease,
        ahead: VecDeque<Bytes>,
        watch: Option<Box<Watch>>,
    ) -> Self {
        if incoming.is_end_stream() {
            lease.give_back();
            drop(watch.map(|watch| watch.settle(true)));
            return Self::with(Content::Ours(ahead));
        }
        let patience = Patience::with_upstream(timeout);
        Self::with(Content::Upstreams(Box::new(Relay {
            incoming,
            patience,
            lease: Some(lease),
            ahead,
            watch,
        })))
    }

    fn with(content: Content) -> Self {
        Self { content, end: None, bytes: 0, complete: false }
    }

    fn ends(&mut self, complete: bool) {
        if let Some(mut end) = self.end.take() {
            end.ended(self.bytes, complete);
        }
    }

    /// Does this when the answer has left.
    pub fn at_end(&mut self, end: Box<dyn AtEnd>) {
        self.end = Some(end);
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            Content::Ours(pieces) => pieces.pop_front().map(|bytes| Ok(Frame::data(bytes))),
            Content::Upstreams(relay) => ready!(relay.poll_data(cx)),
        };
        match &frame {
            None => this.complete = true,
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            // Whoever closes the connection has to know before hyper lets go of it.
            Some(Err(_)) => this.ends(false),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Ours(pieces) => pieces.is_empty(),
            Content::Upstreams(relay) => relay.ahead.is_empty() && relay.lease.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Ours(pieces) => SizeHint::with_exact(length(pieces)),
            Content::Upstreams(relay) => longer_by(length(&relay.ahead), &relay.incoming.size_hint()),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.ends(self.complete || self.is_end_stream());
    }
}

impl Relay {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(bytes) = self.ahead.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let frame = ready!(self.patience.poll_data(&mut self.incoming, cx));
        let is_last = frame.is_none() || self.incoming.is_end_stream();
        match &frame {
            Some(Err(_)) => drop(self.lease.take().map(Lease::close)),
            _ if is_last => drop(self.lease.take().map(Lease::give_back)),
            _ => {}
        }
        if self.watch.is_some() {
            self.show(frame.as_ref(), is_last);
        }
        Poll::Ready(frame)
    }

    /// Before the client can have seen the end of the answer it is settled: whoever signs in and out in a row never waits
    /// for its own tokens.
    fn show(&mut self, frame: Option<&Result<Frame<Bytes>, BodyError>>, is_last: bool) {
        let Some(mut watch) = self.watch.take() else { return };
        match frame {
            // Dropped, and so a failure: what is missing might have said anything.
            Some(Err(_)) => {}
            Some(Ok(frame)) => {
                let has_enough = watch.sees(frame.data_ref().map_or(&[], |bytes| bytes));
                if has_enough || is_last {
                    let _ = watch.settle(is_last);
                } else {
                    self.watch = Some(watch);
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
pub(super) fn longer_by(here: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower().saturating_add(here));
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(here));
    }
    hint
}
