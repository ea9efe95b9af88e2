//! The response future handed to hyper: a response that is ready, or a boxed future.
//!
//! It decides nothing. The surprising thing: an answer that is there already is no boxed future, because that is what a
//! flood gets.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::proxy::body::ResponseBody;
use crate::time::Span;

/// An answer that is there, or that will be.
pub enum ResponseFuture {
    /// Taken when it is asked for.
    Ready(Option<Response<ResponseBody>>),
    /// When the upstream has spoken, or a delay is over.
    Boxed(Pin<Box<dyn Future<Output = Response<ResponseBody>>>>),
}

impl ResponseFuture {
    pub(super) fn ready(response: Response<ResponseBody>) -> Self {
        Self::Ready(Some(response))
    }

    pub(super) fn delayed(delay: Span, response: Response<ResponseBody>) -> Self {
        if delay == Span::ZERO {
            return Self::ready(response);
        }
        Self::Boxed(Box::pin(async move {
            tokio::time::sleep(delay.to_std()).await;
            response
        }))
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // Nobody polls an answer that was already given.
            Self::Ready(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Self::Boxed(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}
