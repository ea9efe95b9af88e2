//! An answer, or the wait for one: what hyper is handed for a request.
//!
//! It decides nothing. The surprising thing: an answer that is there already is no boxed future, because that is what a
//! flood gets.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use super::body::ReplyBody;
use crate::time::Span;

/// An answer that is there, or that will be.
pub enum Answering {
    /// Taken when it is asked for.
    Now(Option<Response<ReplyBody>>),
    /// When the upstream has spoken, or a delay is over.
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

impl Answering {
    pub(super) fn now(response: Response<ReplyBody>) -> Self {
        Self::Now(Some(response))
    }

    pub(super) fn after(delay: Span, response: Response<ReplyBody>) -> Self {
        if delay == Span::ZERO {
            return Self::now(response);
        }
        Self::Later(Box::pin(async move {
            tokio::time::sleep(delay.to_std()).await;
            response
        }))
    }
}

impl Future for Answering {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // Nobody polls an answer that was already given.
            Self::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Self::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}
