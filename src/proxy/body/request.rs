//! The request body sent to the upstream, and how far it has come.
//!
//! `upstream` and `transaction::forward` read the progress: after a response that precedes the end of the request,
//! neither connection is used again.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::BodyError;
use super::response::add_to_hint;
use super::timeout::BodyTimeout;
use crate::policy::query;

/// A client's body before it is forwarded.
#[derive(Debug)]
pub enum IncomingBody {
    /// Nothing was read yet.
    Streaming(Incoming),
    /// The whole body; `None` if it is empty.
    Buffered(Option<Bytes>),
    /// The beginning of the body, and the rest, which streams.
    Prefixed(Option<Bytes>, Incoming),
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
    /// The bytes of a form that is looked at, if it comes in one piece.
    watched_len: Option<usize>,
    timeout: BodyTimeout,
    progress: Rc<UploadProgress>,
}

/// The progress of a client's body, shared with the task that waits for the response.
#[derive(Debug)]
pub struct UploadProgress {
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
    /// A body with `timeout` for each next piece, and a minimum transfer rate.
    pub fn new(source: IncomingBody, timeout: Duration) -> (Self, Rc<UploadProgress>) {
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
        let progress = Rc::new(UploadProgress {
            state: Cell::new(state),
            last_progress: Cell::new(None),
            has_password: Cell::new(false),
        });
        let timeout = BodyTimeout::for_client(timeout);
        (Self { source, watched_len: None, timeout, progress: Rc::clone(&progress) }, progress)
    }

    /// The same body, of which the names of the fields are looked at: it is a urlencoded form. Only a small form that
    /// comes in one piece is.
    #[must_use]
    pub fn watched(self) -> Self {
        let length = self.source.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        Self { watched_len: length.filter(|length| *length <= MAX_WATCHED), ..self }
    }
}

impl UploadProgress {
    /// Looks at a piece, if it is the whole of a watched form.
    fn watch(&self, bytes: &[u8], watched_len: Option<usize>) {
        if watched_len == Some(bytes.len())
            && let Ok(form) = std::str::from_utf8(bytes)
        {
            self.has_password.set(query::has_a_password(form));
        }
    }

    /// The state after the last read.
    #[must_use]
    pub fn state(&self) -> UploadState {
        self.state.get()
    }

    /// Whether a [watched](RequestBody::watched) form has a field that is called a password, as far as it was read.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.has_password.get()
    }

    /// When a piece other than the last one was last read.
    #[must_use]
    pub fn last_progress(&self) -> Option<Instant> {
        self.last_progress.get()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let incoming = match &mut this.source {
            IncomingBody::Buffered(bytes) => {
                let bytes = bytes.take();
                bytes.iter().for_each(|bytes| this.progress.watch(bytes, this.watched_len));
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            IncomingBody::Prefixed(first, incoming) => match first.take() {
                Some(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => incoming,
            },
            IncomingBody::Streaming(incoming) => incoming,
        };
        let polled = this.timeout.poll_data(incoming, cx);
        if this.watched_len.is_some()
            && let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            this.progress.watch(bytes, this.watched_len);
        }
        let state = match &polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(_))) if incoming.is_end_stream() => UploadState::Complete,
            Poll::Ready(Some(Ok(_))) => UploadState::Partial,
            Poll::Ready(None) => UploadState::Complete,
            Poll::Ready(Some(Err(BodyError::Stalled))) => UploadState::Stalled,
            Poll::Ready(Some(Err(BodyError::Broken(_)))) => UploadState::Aborted,
        };
        this.progress.state.set(state);
        if state == UploadState::Partial {
            this.progress.last_progress.set(Some(Instant::now()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

/// Bytes of a form that is looked at.
const MAX_WATCHED: usize = 4 * 1024;
