//! The response body sent to the client: generated here, or relayed from an upstream.
//!
//! A request ends with its response body, so the body carries the [`AtEnd`] action. `transaction::relay` reads from the
//! upstream.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};

use super::{BodyError, BodyStart, ReadAhead};
use crate::net::stream::NetStream;
use crate::proxy::headers::append_all;
use crate::proxy::headers::carried::{CarriedHeaders, ReadyLines};
use crate::proxy::headers::passed::PassedHeaders;

/// The body of a response to a client. Boxed, because a response is moved several times.
pub struct ResponseBody(Box<ResponseBodyInner>);

struct ResponseBodyInner {
    content: BodySource,
    end: Option<Box<dyn AtEnd>>,
    bytes: u64,
    complete: bool,
    /// What it carries of its head; the headers of the response itself are those that the gate adds.
    carried: Option<CarriedHeaders>,
    tunnel: Option<TunnelTask>,
    /// Whether it waits for limits that count bytes, or for messages of its client.
    is_paced: bool,
    /// What may be read ahead of the client, if that is more than nothing.
    ahead: Option<Box<ReadAhead>>,
}

/// What runs over the connection of a client after `101 Switching Protocols`. It gets the bytes that were read already.
pub type TunnelTask = Box<dyn FnOnce(NetStream, Bytes) -> Pin<Box<dyn Future<Output = ()>>>>;

/// An action at the end of a response.
pub trait AtEnd {
    /// Called once, when the body was read to its end, of which the last part may wait for the client, or the client has gone.
    /// `bytes` of it were handed to the connection;
    /// `complete` is whether that is the whole body.
    fn ended(&mut self, bytes: u64, complete: bool);
}

enum BodySource {
    Generated(BodyStart),
    Relayed(Box<RelayedSource>),
    /// All of it is here, and waits.
    HeldBack(Box<RelayedSource>),
}

/// The source of a relayed body.
type RelayedSource = dyn Body<Data = Bytes, Error = BodyError> + Unpin;

impl ResponseBody {
    /// Bytes of a body that is copied behind its head.
    pub const SHORT: usize = 4 * 1024;

    /// A generated body.
    #[must_use]
    pub fn generated(bytes: Bytes) -> Self {
        Self::with(BodySource::Generated(bytes.into()))
    }

    /// A body that was read as a whole.
    pub(in crate::proxy) fn whole(body: BodyStart) -> Self {
        Self::with(BodySource::Generated(body))
    }

    /// A body that is read from an upstream.
    pub(in crate::proxy) fn relayed(body: Box<RelayedSource>) -> Self {
        Self::with(BodySource::Relayed(body))
    }

    /// A body that was read as a whole, and comes later.
    pub(in crate::proxy) fn held_back(body: Box<RelayedSource>) -> Self {
        Self::with(BodySource::HeldBack(body))
    }

    /// The empty body of a response behind which another protocol follows.
    pub(in crate::proxy) fn tunnel(task: TunnelTask) -> Self {
        let mut body = Self::generated(Bytes::new());
        body.0.tunnel = Some(task);
        body
    }

    /// The same behind these headers of the application.
    #[must_use]
    pub(in crate::proxy) fn with_passed(mut self, passed: Box<PassedHeaders>) -> Self {
        self.0.carried = Some(CarriedHeaders::Passed(passed));
        self
    }

    /// The same behind these headers and the id of the request.
    #[must_use]
    pub(in crate::proxy) fn with_ready(mut self, lines: &Rc<ReadyLines>, request_id: &HeaderValue) -> Self {
        self.0.carried = Some(CarriedHeaders::Ready(Rc::clone(lines), request_id.clone()));
        self
    }

    /// What may be read ahead of the client. The sender of the body keeps it until the last byte has left: the body
    /// itself ends when it was read.
    pub(in crate::proxy) fn take_ahead(&mut self) -> Option<Box<ReadAhead>> {
        self.0.ahead.take()
    }

    /// The same, of which this much may be read ahead of the client.
    #[must_use]
    pub(in crate::proxy) fn with_ahead(mut self, ahead: ReadAhead) -> Self {
        self.0.ahead = Some(Box::new(ahead));
        self
    }

    /// The same, which waits for limits that count bytes.
    #[must_use]
    pub(in crate::proxy) fn paced(mut self) -> Self {
        self.0.is_paced = true;
        self
    }

    /// The same, which answers messages of its client one by one.
    #[must_use]
    pub(in crate::proxy) fn of_conversation(self) -> Self {
        self.paced()
    }

    /// Whether it waits for limits that count bytes, or for messages of its client.
    pub(in crate::proxy) fn is_paced(&self) -> bool {
        self.0.is_paced
    }

    /// Whether all of it is here, and nothing is awaited from an upstream.
    pub(in crate::proxy) fn is_whole(&self) -> bool {
        !matches!(self.0.content, BodySource::Relayed(_))
    }

    /// What it carries of its head.
    #[must_use]
    pub(in crate::proxy) fn carried(&self) -> Option<&CarriedHeaders> {
        self.0.carried.as_ref()
    }

    /// Removes a header of the application.
    pub(in crate::proxy) fn remove_passed(&mut self, name: &HeaderName) {
        if let Some(CarriedHeaders::Passed(passed)) = &mut self.0.carried {
            passed.remove(name);
        }
    }

    /// What follows the response, if that is another protocol.
    pub(in crate::proxy) fn take_tunnel(&mut self) -> Option<TunnelTask> {
        self.0.tunnel.take()
    }

    fn with(content: BodySource) -> Self {
        let (end, carried, tunnel, ahead) = (None, None, None, None);
        let (bytes, complete, is_paced) = (0, false, false);
        Self(Box::new(ResponseBodyInner { content, end, bytes, complete, carried, tunnel, is_paced, ahead }))
    }

    fn finish(&mut self, complete: bool) {
        if let Some(mut end) = self.0.end.take() {
            // An attempt that depends on the rest of the body is settled first, and the action sees its outcome.
            self.0.content = BodySource::Generated(BodyStart::default());
            end.ended(self.0.bytes, complete);
        }
    }

    /// Sets the action at the end of the body.
    pub fn at_end(&mut self, end: Box<dyn AtEnd>) {
        self.0.end = Some(end);
    }
}

/// Puts the headers that the body carries before those of the response itself.
pub(in crate::proxy) fn complete_headers(response: &mut Response<ResponseBody>) {
    let Some(carried) = response.body_mut().0.carried.take() else { return };
    let added = std::mem::replace(response.headers_mut(), carried.into_map());
    append_all(response.headers_mut(), added);
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = self.get_mut();
        let this = &mut *body.0;
        let frame = match &mut this.content {
            BodySource::Generated(body) => body.pop().map(Ok),
            BodySource::Relayed(body) | BodySource::HeldBack(body) => ready!(Pin::new(body).poll_frame(cx)),
        };
        match &frame {
            None => this.complete = true,
            Some(Ok(frame)) => this.bytes += frame.data_ref().map_or(0, Bytes::len) as u64,
            // The record has to say so before the connection ends.
            Some(Err(_)) => body.finish(false),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.0.content {
            BodySource::Generated(body) => body.is_empty(),
            BodySource::Relayed(body) | BodySource::HeldBack(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0.content {
            BodySource::Generated(body) => body.hint(&SizeHint::with_exact(0)),
            BodySource::Relayed(body) | BodySource::HeldBack(body) => body.size_hint(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.finish(self.0.complete || self.is_end_stream());
    }
}
