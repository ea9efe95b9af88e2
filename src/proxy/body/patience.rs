//! How long the next piece of a body is waited for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::BodyError;

/// Waits for the next piece of a body, but not for ever. The timer is made only when there is something to wait
/// for: most small bodies are there already.
#[derive(Debug)]
pub(super) struct Patience {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, timer: None, waiting: false }
    }

    pub(super) fn poll_data(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut *incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) if !frame.is_data() => {}
                Poll::Ready(frame) => {
                    self.waiting = false;
                    return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
                }
                Poll::Pending => return self.poll_timer(cx).map(|()| Some(Err(BodyError::Stalled))),
            }
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        if !std::mem::replace(&mut self.waiting, true) {
            timer.as_mut().reset(Instant::now() + timeout);
        }
        timer.as_mut().poll(cx)
    }
}
