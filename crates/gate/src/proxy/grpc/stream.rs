//! A call of many messages: each is read in reserved memory, and answered before the next one is read.
//!
//! The body of the response runs the story of the call, so that the story ends with its stream. The messages are left to
//! `transaction`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use prost::Message;

use super::{CallError, HEAD, framed, length_in, success, with_body};
use crate::proxy::body::{BodyBuffer, BodyError, BodyMemory, ClientBody, ResponseBody};

/// The messages of a peer.
pub(in crate::proxy) struct CallMessages {
    incoming: ClientBody,
    /// What was received behind the latest message.
    unread: Bytes,
    memory: Arc<BodyMemory>,
}

impl CallMessages {
    pub(in crate::proxy) fn new(incoming: ClientBody, memory: &Arc<BodyMemory>) -> Self {
        Self { incoming, unread: Bytes::new(), memory: Arc::clone(memory) }
    }

    /// The next message; `None` if none follows.
    ///
    /// # Errors
    /// [`CallError::MalformedFrame`], [`CallError::Unimplemented`] and [`CallError::Exhausted`].
    pub(in crate::proxy) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let mut head = [0; HEAD];
        let mut missing = &mut head[..];
        while !missing.is_empty() {
            if !self.receive().await? {
                return if missing.len() == HEAD { Ok(None) } else { Err(BROKEN) };
            }
            let piece = self.unread.split_to(self.unread.len().min(missing.len()));
            let (filled, rest) = missing.split_at_mut(piece.len());
            filled.copy_from_slice(&piece);
            missing = rest;
        }
        let length = usize::try_from(length_in(&mut &head[..])?).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            return Err(CallError::Exhausted("a message of more than 4 MiB"));
        }
        if self.unread.len() >= length {
            return Ok(Some(self.unread.split_to(length)));
        }
        let announced = SizeHint::with_exact(length as u64);
        let mut buffer = BodyBuffer::new(self.memory.reserve(None), MAX_MESSAGE, &announced);
        while buffer.len() < length {
            if !self.receive().await? {
                return Err(BROKEN);
            }
            let piece = self.unread.split_to(self.unread.len().min(length - buffer.len()));
            if !buffer.push(&piece) {
                return Err(CallError::Exhausted("no memory for the message"));
            }
        }
        Ok(Some(buffer.freeze()))
    }

    /// Waits until something is unread. Returns whether there is.
    async fn receive(&mut self) -> Result<bool, CallError> {
        while self.unread.is_empty() {
            match poll_fn(|cx| Pin::new(&mut self.incoming).poll_frame(cx)).await {
                None => return Ok(false),
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => return Err(BROKEN),
            }
        }
        Ok(true)
    }
}

/// Where a story leaves its answers, one at a time.
#[derive(Clone, Default)]
pub(in crate::proxy) struct Answers(Rc<RefCell<Option<Bytes>>>);

impl Answers {
    /// Answers as soon as the answer before was taken.
    pub(in crate::proxy) async fn send(&self, message: &impl Message) {
        // Whoever takes an answer polls the story again.
        poll_fn(|_| if self.0.borrow().is_some() { Poll::Pending } else { Poll::Ready(()) }).await;
        self.0.replace(Some(framed(message)));
    }
}

/// The response whose messages this story leaves there, and whose status is its result.
pub(in crate::proxy) fn response(
    answers: Answers,
    story: impl Future<Output = Result<(), CallError>> + 'static,
) -> Response<ResponseBody> {
    let body = StoryBody { story: Some(Box::pin(story)), answers, ended: None };
    with_body(ResponseBody::relayed(Box::new(body)).of_conversation())
}

type Story = Pin<Box<dyn Future<Output = Result<(), CallError>>>>;

struct StoryBody {
    story: Option<Story>,
    answers: Answers,
    ended: Option<Result<(), CallError>>,
}

impl Body for StoryBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(story) = &mut this.story
            && let Poll::Ready(ended) = story.as_mut().poll(cx)
        {
            (this.story, this.ended) = (None, Some(ended));
        }
        if let Some(answer) = this.answers.0.take() {
            return Poll::Ready(Some(Ok(Frame::data(answer))));
        }
        match (this.ended.take(), &this.story) {
            (Some(Ok(())), _) => Poll::Ready(Some(Ok(Frame::trailers(success())))),
            (Some(Err(error)), _) => Poll::Ready(Some(Ok(Frame::trailers(error.status())))),
            (None, Some(_)) => Poll::Pending,
            (None, None) => Poll::Ready(None),
        }
    }
}

const BROKEN: CallError = CallError::MalformedFrame("the call ends within a message");
/// Bytes of a message, as other servers of gRPC take them by default.
pub(in crate::proxy) const MAX_MESSAGE: usize = 4 * 1024 * 1024;
