//! The request body sent to the upstream, and how far it has come.
//!
//! `upstream` and `transaction::forward` read the progress: after a response that precedes the end of the request,
//! neither connection is used again.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::buffer::BodyBuffer;
use super::held_end::HeldEnd;
use super::memory::MemoryReservation;
use super::start::add_to_hint;
use super::timeout::BodyTimeout;
use super::{BodyError, ClientBody};
use crate::policy::query;
use crate::proxy::error::Error;
use crate::proxy::headers::trailers::passed_trailers;
use crate::proxy::settings::ProxySettings;

/// A client's body before it is forwarded.
#[derive(Debug)]
pub enum IncomingBody {
    /// Nothing was read yet.
    Streaming(ClientBody),
    /// The whole body; `None` if it is empty.
    Buffered(Option<Bytes>),
    /// The beginning of the body, and the rest, which streams.
    Prefixed(Option<Bytes>, ClientBody),
}

impl IncomingBody {
    /// Whether no more data follows.
    #[must_use]
    pub fn is_end_stream(&self) -> bool {
        match self {
            Self::Streaming(incoming) => incoming.is_end_stream(),
            Self::Prefixed(first, incoming) => first.is_none() && incoming.is_end_stream(),
            Self::Buffered(bytes) => bytes.is_none(),
        }
    }

    /// The size of the data that follows.
    #[must_use]
    pub fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streaming(incoming) => incoming.size_hint(),
            Self::Prefixed(first, incoming) => {
                add_to_hint(first.as_ref().map_or(0, Bytes::len) as u64, &incoming.size_hint())
            }
            Self::Buffered(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// A client's body on its way to the upstream.
#[derive(Debug)]
pub struct RequestBody {
    source: IncomingBody,
    /// What was read before it is sent. Boxed: most bodies have come with their heads.
    ahead: Option<Box<AheadBody>>,
    /// The end that is held back, if it is. Boxed: that is rare.
    held: Option<Box<HeldFrame>>,
    /// The bytes of a form that is looked at, if it comes in one piece.
    watched_len: Option<usize>,
    timeout: BodyTimeout,
    progress: Rc<BodyProgress>,
    settings: Arc<ProxySettings>,
    client_header: Option<HeaderName>,
}

/// The part of a body that was read before it is sent.
#[derive(Debug, Default)]
struct AheadBody {
    bytes: Option<Bytes>,
    trailers: Option<HeaderMap>,
    /// Whether that is the whole body.
    is_whole: bool,
}

/// The last frame of a body whose end is held back.
#[derive(Debug)]
struct HeldFrame {
    end: Rc<HeldEnd>,
    /// `Some` once the body has come to its end.
    last: Option<Option<Frame<Bytes>>>,
}

impl HeldFrame {
    fn length(&self) -> u64 {
        let last = self.last.as_ref().and_then(Option::as_ref);
        last.and_then(Frame::data_ref).map_or(0, Bytes::len) as u64
    }
}

impl AheadBody {
    fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        let piece = self.bytes.take().map(Frame::data);
        piece.or_else(|| self.trailers.take().map(Frame::trailers))
    }
}

/// The progress of a client's body, for the task that waits for the response; `None` without a body.
#[derive(Debug, Default)]
pub struct UploadProgress(Option<Rc<BodyProgress>>);

#[derive(Debug)]
struct BodyProgress {
    state: Cell<UploadState>,
    last_progress: Cell<Option<Instant>>,
    has_password: Cell<bool>,
}

/// The state of a client's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// More data is expected.
    Partial,
    /// All of it was read.
    Complete,
    /// The client made no progress in time.
    Stalled,
    /// The client closed the connection, or sent an invalid body.
    Aborted,
}

impl RequestBody {
    /// A body with the time-out of these settings for each next piece, and a minimum transfer rate; `None` if there is
    /// nothing to send. `client_header` is the header with the client's address. Boxed, because it is moved several times.
    pub fn new(
        source: IncomingBody,
        settings: &Arc<ProxySettings>,
        client_header: Option<&HeaderName>,
    ) -> (Option<Box<Self>>, UploadProgress) {
        if source.is_end_stream() {
            return (None, UploadProgress::default());
        }
        let state = match &source {
            IncomingBody::Streaming(incoming) | IncomingBody::Prefixed(_, incoming)
                if !incoming.is_end_stream() =>
            {
                UploadState::Partial
            }
            IncomingBody::Streaming(_) | IncomingBody::Prefixed(..) | IncomingBody::Buffered(_) => {
                UploadState::Complete
            }
        };
        let progress = Rc::new(BodyProgress {
            state: Cell::new(state),
            last_progress: Cell::new(None),
            has_password: Cell::new(false),
        });
        let timeout = BodyTimeout::for_client(settings.body_timeout.to_std());
        let (settings, client_header) = (Arc::clone(settings), client_header.cloned());
        let shared = UploadProgress(Some(Rc::clone(&progress)));
        let (ahead, held, watched_len) = (None, None, None);
        let body = Self { source, ahead, held, watched_len, timeout, progress, settings, client_header };
        (Some(Box::new(body)), shared)
    }

    /// Whether a part of it is still to come from the client.
    pub(in crate::proxy) fn is_awaited(&self) -> bool {
        match &self.source {
            IncomingBody::Streaming(incoming) | IncomingBody::Prefixed(_, incoming) => {
                !incoming.has_arrived()
            }
            IncomingBody::Buffered(_) => false,
        }
    }

    /// Whether all bytes of a known length have been read. Over HTTP/2 the end of the stream may come later, in a frame of
    /// its own, and the upload does not wait for it.
    pub(in crate::proxy) fn has_no_bytes_left(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    /// Holds back its end until that is released.
    pub(in crate::proxy) fn hold_end(&mut self) -> Rc<HeldEnd> {
        let end = Rc::<HeldEnd>::default();
        self.held = Some(Box::new(HeldFrame { end: Rc::clone(&end), last: None }));
        end
    }

    /// Reads until the body is complete, `max_bytes` are there or no memory is free: the rest is read when it is sent.
    ///
    /// # Errors
    /// [`Error::ClientStalled`] if the body misses its time-outs; [`Error::ClientDisconnected`] if it is incomplete or
    /// invalid.
    pub(in crate::proxy) async fn read_ahead(
        &mut self,
        max_bytes: usize,
        reservation: MemoryReservation,
    ) -> Result<(), Error> {
        let (mut buffer, mut ahead) =
            (BodyBuffer::new(reservation, max_bytes, &self.size_hint()), Box::<AheadBody>::default());
        while buffer.len() < max_bytes {
            let next = poll_fn(|cx| match Pin::new(&mut *self).poll_frame(cx) {
                Poll::Pending if buffer.poll_evicted(cx).is_ready() => Poll::Ready(None),
                polled => polled.map(Some),
            });
            let frame = match next.await {
                None => break,
                Some(None) => {
                    ahead.is_whole = true;
                    break;
                }
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(BodyError::Stalled))) => return Err(Error::ClientStalled),
                Some(Some(Err(BodyError::Broken(_) | BodyError::Cut))) => {
                    return Err(Error::ClientDisconnected);
                }
            };
            match frame.into_data() {
                Ok(piece) if buffer.push(&piece) => {}
                Ok(_) => break,
                Err(frame) => {
                    ahead.trailers = frame.into_trailers().ok();
                    break;
                }
            }
        }
        if let IncomingBody::Streaming(incoming) | IncomingBody::Prefixed(_, incoming) = &self.source {
            incoming.shrink();
        }
        ahead.bytes = Some(buffer.freeze()).filter(|bytes| !bytes.is_empty());
        self.ahead = Some(ahead);
        Ok(())
    }

    /// A piece, or the trailers that pass; an empty piece in place of those that do not.
    fn filtered(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_trailers() {
            Err(piece) => piece,
            Ok(trailers) => {
                let drops =
                    |name: &HeaderName| self.settings.headers.drops(name, false, self.client_header.as_ref());
                let passed = passed_trailers(trailers, drops);
                passed.map_or_else(|| Frame::data(Bytes::new()), Frame::trailers)
            }
        }
    }

    /// Looks at the names of the fields: the body is a urlencoded form. Only a small form that comes in one piece is
    /// looked at.
    pub fn watch(&mut self) {
        let length = self.source.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        self.watched_len = length.filter(|length| *length <= MAX_WATCHED);
    }
}

impl BodyProgress {
    /// Looks at a piece, if it is the whole of a watched form.
    fn watch(&self, bytes: &[u8], watched_len: Option<usize>) {
        if watched_len == Some(bytes.len())
            && let Ok(form) = std::str::from_utf8(bytes)
        {
            self.has_password.set(query::has_a_password(form));
        }
    }
}

impl UploadProgress {
    /// The state after the last read.
    #[must_use]
    pub fn state(&self) -> UploadState {
        self.0.as_ref().map_or(UploadState::Complete, |body| body.state.get())
    }

    /// Whether a [watched](RequestBody::watch) form has a field that is called a password, as far as it was read.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.0.as_ref().is_some_and(|body| body.has_password.get())
    }

    /// When a piece other than the last one was last read, or a held end was let pass.
    #[must_use]
    pub fn last_progress(&self) -> Option<Instant> {
        self.0.as_ref()?.last_progress.get()
    }
}

impl RequestBody {
    /// The next frame of the client.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(frame) = self.ahead.as_mut().and_then(|ahead| ahead.next_frame()) {
            return Poll::Ready(Some(Ok(frame)));
        }
        let incoming = match &mut self.source {
            IncomingBody::Buffered(bytes) => {
                let bytes = bytes.take();
                bytes.iter().for_each(|bytes| self.progress.watch(bytes, self.watched_len));
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            IncomingBody::Prefixed(first, incoming) => match first.take() {
                Some(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => incoming,
            },
            IncomingBody::Streaming(incoming) => incoming,
        };
        let polled = self.timeout.poll_frame(incoming, cx);
        if self.watched_len.is_some()
            && let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            self.progress.watch(bytes, self.watched_len);
        }
        let state = match &polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(_))) if incoming.is_end_stream() => UploadState::Complete,
            Poll::Ready(Some(Ok(_))) => UploadState::Partial,
            Poll::Ready(None) => UploadState::Complete,
            Poll::Ready(Some(Err(BodyError::Stalled))) => UploadState::Stalled,
            Poll::Ready(Some(Err(BodyError::Broken(_) | BodyError::Cut))) => UploadState::Aborted,
        };
        self.progress.state.set(state);
        if state == UploadState::Partial {
            self.progress.last_progress.set(Some(Instant::now()));
        }
        polled.map(|frame| frame.map(|frame| frame.map(|frame| self.filtered(frame))))
    }

    /// The next frame, the last one of which waits. Until then the upload counts as one that goes on.
    fn poll_held(
        &mut self,
        mut held: Box<HeldFrame>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if held.last.is_none() {
            let polled = self.poll_next(cx);
            match polled {
                Poll::Ready(None) => held.last = Some(None),
                Poll::Ready(Some(Ok(frame))) if self.is_end_stream() || self.has_no_bytes_left() => {
                    held.last = Some(Some(frame));
                }
                _ => {
                    self.held = Some(held);
                    return polled;
                }
            }
        }
        if held.end.poll_released(cx).is_pending() {
            self.progress.state.set(UploadState::Partial);
            self.progress.last_progress.set(Some(Instant::now()));
            self.held = Some(held);
            return Poll::Pending;
        }
        // The application has the request as a whole only from now on: its time for an answer begins.
        self.progress.last_progress.set(Some(Instant::now()));
        self.progress.state.set(UploadState::Complete);
        Poll::Ready(held.last.flatten().map(Ok))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.held.take() {
            Some(held) => self.poll_held(held, cx),
            None => self.poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        // A held end is always waited for, also if the client has sent no byte and ended the stream meanwhile.
        if self.held.is_some() {
            return false;
        }
        let Some(ahead) = &self.ahead else { return self.source.is_end_stream() };
        ahead.bytes.is_none() && ahead.trailers.is_none() && (ahead.is_whole || self.source.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, |held| held.length());
        let Some(ahead) = &self.ahead else { return add_to_hint(held, &self.source.size_hint()) };
        let length = held + ahead.bytes.as_ref().map_or(0, Bytes::len) as u64;
        match &ahead.trailers {
            // Only chunks carry them.
            Some(_) => SizeHint::new(),
            None if ahead.is_whole => SizeHint::with_exact(length),
            None => add_to_hint(length, &self.source.size_hint()),
        }
    }
}

/// Bytes of a form that is looked at.
const MAX_WATCHED: usize = 4 * 1024;
