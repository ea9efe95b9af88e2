//! The body of an answer: the layer's own, or the application's, by which its attempt may be settled.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tollgate::proxy::transaction::in_process::AnswerInspector;

/// The body of an answer.
pub struct AnswerBody<B: Body>(AnswerSource<B>);

enum AnswerSource<B: Body> {
    /// The layer's own; `None` once it was read.
    Own(Option<Bytes>),
    Application(JudgedBody<B>),
}

/// A body of the application.
struct JudgedBody<B: Body> {
    body: Pin<Box<B>>,
    /// What was read of it before its head was sent.
    ahead: VecDeque<Frame<Bytes>>,
    /// Why no more could be read then.
    failed: Option<Box<B::Error>>,
    /// What settles the attempt by it. Dropped, the attempt is a failure: the client has gone.
    inspector: Option<Box<AnswerInspector>>,
    /// Bytes that are still to come, if the head or the body says how many: a server reads no further.
    left: Option<u64>,
}

impl<B: Body<Data = Bytes>> AnswerBody<B> {
    pub(crate) fn own(bytes: Bytes) -> Self {
        Self(AnswerSource::Own(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    pub(crate) fn passed(body: B) -> Self {
        Self::judged_by(body, None, None)
    }

    /// A body of this length, if it is known, that settles an attempt while it streams.
    pub(crate) fn judged(body: B, inspector: Box<AnswerInspector>, length: Option<u64>) -> Self {
        Self::judged_by(body, Some(inspector), length)
    }

    fn judged_by(body: B, inspector: Option<Box<AnswerInspector>>, left: Option<u64>) -> Self {
        let (body, ahead) = (Box::pin(body), VecDeque::new());
        Self(AnswerSource::Application(JudgedBody { body, ahead, failed: None, inspector, left }))
    }

    /// Reads until the outcome is known, and settles the attempt, whose client may get a cookie in these headers.
    pub(crate) async fn judged_before_head(
        body: B,
        inspector: Box<AnswerInspector>,
        headers: &mut HeaderMap,
    ) -> Self {
        let (body, ahead) = (Box::pin(body), VecDeque::new());
        let mut judged = JudgedBody { body, ahead, failed: None, inspector: None, left: None };
        judged.read_ahead(inspector, headers).await;
        Self(AnswerSource::Application(judged))
    }
}

impl<B: Body<Data = Bytes>> JudgedBody<B> {
    async fn read_ahead(&mut self, mut inspector: Box<AnswerInspector>, headers: &mut HeaderMap) {
        while !self.body.is_end_stream() {
            let frame = match poll_fn(|cx| self.body.as_mut().poll_frame(cx)).await {
                None => break,
                Some(Ok(frame)) => frame,
                // The missing part could decide either way: the inspector is dropped, and the attempt a failure.
                Some(Err(error)) => {
                    self.failed = Some(Box::new(error));
                    return;
                }
            };
            let has_enough = inspector.inspect(frame.data_ref().map_or(&[], |bytes| bytes));
            self.ahead.push_back(frame);
            if has_enough {
                let is_complete = self.body.is_end_stream();
                return inspector.settle_before(is_complete, headers);
            }
        }
        inspector.settle_before(true, headers);
    }

    /// Looks at the next frame; at the last one, the attempt is settled.
    fn note(&mut self, frame: Option<&Frame<Bytes>>) {
        let Some(mut inspector) = self.inspector.take() else { return };
        let bytes: &[u8] = frame.and_then(Frame::data_ref).map_or(&[], |bytes| bytes);
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        let has_enough = inspector.inspect(bytes);
        let is_over =
            frame.is_none_or(Frame::is_trailers) || self.left == Some(0) || self.body.is_end_stream();
        if has_enough || is_over {
            inspector.settle(is_over);
        } else {
            self.inspector = Some(inspector);
        }
    }
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let judged = match &mut self.get_mut().0 {
            AnswerSource::Own(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            AnswerSource::Application(judged) => judged,
        };
        if let Some(frame) = judged.ahead.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = judged.failed.take() {
            return Poll::Ready(Some(Err(*error)));
        }
        let frame = ready!(judged.body.as_mut().poll_frame(cx));
        match &frame {
            None => judged.note(None),
            Some(Ok(frame)) => judged.note(Some(frame)),
            // The missing part could decide either way: a failure.
            Some(Err(_)) => judged.inspector = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            AnswerSource::Own(bytes) => bytes.is_none(),
            AnswerSource::Application(judged) => {
                judged.ahead.is_empty() && judged.failed.is_none() && judged.body.is_end_stream()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            AnswerSource::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            AnswerSource::Application(JudgedBody { body, ahead, .. }) => {
                let ahead =
                    ahead.iter().filter_map(Frame::data_ref).map(|bytes| bytes.len() as u64).sum::<u64>();
                let rest = body.size_hint();
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(ahead));
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper.saturating_add(ahead));
                }
                hint
            }
        }
    }
}
