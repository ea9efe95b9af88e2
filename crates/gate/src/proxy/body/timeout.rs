//! Body time-outs: for the next piece, and for client bodies a minimum transfer rate of 500 bytes a second on average.
//!
//! Only time spent waiting for the sender counts; data that is already here, or that the upstream is slow to accept,
//! costs nothing. The time for a client's body grows with the bytes received, so a long upload passes, and a byte every
//! half minute does not hold a connection for ever.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::BodyError;

/// Waits for the next piece of a body, for a bounded time. The timer is made at the first wait: most small bodies are
/// here already.
#[derive(Debug)]
pub(in crate::proxy) struct BodyTimeout {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Start of the wait for the next piece.
    waiting_since: Option<Instant>,
    /// Remaining time for the whole body; `None` is unlimited.
    credit: Option<Duration>,
}

impl BodyTimeout {
    /// Each next piece has to come within `timeout`. There is no minimum rate: an upstream may send events rarely.
    pub(in crate::proxy) fn for_upstream(timeout: Duration) -> Self {
        Self { timeout, timer: None, waiting_since: None, credit: None }
    }

    /// Each next piece has to come within `timeout`, and the whole body within `timeout` plus a second for each
    /// [`MIN_RATE`] bytes received.
    pub(super) fn for_client(timeout: Duration) -> Self {
        Self { credit: Some(timeout), ..Self::for_upstream(timeout) }
    }

    /// Waits for the next frame.
    pub(in crate::proxy) fn poll_frame<B>(
        &mut self,
        incoming: &mut B,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>>
    where
        B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
    {
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame {
                    self.credit_received(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.poll_timer(cx).map(|()| Some(Err(BodyError::Stalled))),
        }
    }

    fn credit_received(&mut self, length: usize) {
        let waited = self.waiting_since.take().map(|since| since.elapsed());
        if let Some(credit) = &mut self.credit {
            let gained = Duration::from_micros((length as u64).saturating_mul(1_000_000 / MIN_RATE));
            *credit = credit.saturating_add(gained).saturating_sub(waited.unwrap_or_default());
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let allowed = self.credit.map_or(self.timeout, |credit| credit.min(self.timeout));
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(allowed)));
        if self.waiting_since.is_none() {
            let now = Instant::now();
            self.waiting_since = Some(now);
            timer.as_mut().reset(now + allowed);
        }
        timer.as_mut().poll(cx)
    }
}

/// Minimum transfer rate of a client's body, in bytes a second: Apache's default (`MinRate` of mod_reqtimeout).
const MIN_RATE: u64 = 500;
