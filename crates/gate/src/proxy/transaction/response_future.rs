//! The future of a response, for the connection that sends it: a response that is ready, or a boxed future.
//!
//! `service` makes the response. Refusals in a flood are ready at once, so a ready response is not boxed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::proxy::body::ResponseBody;
use crate::proxy::connection::DownstreamConnection;
use crate::time::Span;

/// A response, now or later.
pub enum ResponseFuture {
    /// A response; `None` after it was polled.
    Ready(Option<Response<ResponseBody>>),
    /// A future that waits for a body, the store, the upstream or a delay.
    Boxed(Pin<Box<dyn Future<Output = Response<ResponseBody>>>>),
}

impl ResponseFuture {
    pub(super) fn ready(response: Response<ResponseBody>) -> Self {
        Self::Ready(Some(response))
    }

    /// A refusal that is held for `delay`, or sent at once if the connection has no place to hold it.
    pub(super) fn delayed(
        delay: Span,
        connection: &DownstreamConnection,
        response: Response<ResponseBody>,
    ) -> Self {
        if delay == Span::ZERO {
            return Self::ready(response);
        }
        let Some(place) = connection.permit().hold_refusal() else { return Self::ready(response) };
        Self::Boxed(Box::pin(async move {
            tokio::time::sleep(delay.to_std()).await;
            drop(place);
            response
        }))
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // A completed future is not polled again.
            Self::Ready(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Self::Boxed(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}
