//! Body time-outs: for the next piece, and for client bodies a minimum transfer rate of 500 bytes a second on average.
//!
//! Only waiting counts: a body that is there already, or that the upstream is slow to take, costs its sender no time.
//! The surprising thing: the time for a client's body grows with what has come of it, so an upload may take hours,
//! and a byte every half minute does not hold a place for ever.

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
pub(in crate::proxy) struct BodyTimeout {
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when the next piece is waited for.
    waiting_since: Option<Instant>,
    /// How much longer all of the body may be waited for; `None` is as long as its pieces come.
    credit: Option<Duration>,
}

impl BodyTimeout {
    /// Each piece has to come within this time, and nothing else is asked: an upstream may have little to say.
    pub(in crate::proxy) fn for_upstream(timeout: Duration) -> Self {
        Self { timeout, timer: None, waiting_since: None, credit: None }
    }

    /// Each piece has to come within this time, and all of them within it and a second for each [`MIN_RATE`] bytes.
    pub(super) fn for_client(timeout: Duration) -> Self {
        Self { credit: Some(timeout), ..Self::for_upstream(timeout) }
    }

    pub(in crate::proxy) fn poll_data(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut *incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) if !frame.is_data() => {}
                Poll::Ready(frame) => {
                    if let Some(Ok(frame)) = &frame {
                        self.credit_received(frame.data_ref().map_or(0, Bytes::len));
                    }
                    return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
                }
                Poll::Pending => return self.poll_timer(cx).map(|()| Some(Err(BodyError::Stalled))),
            }
        }
    }

    /// A piece of this length is here.
    fn credit_received(&mut self, length: usize) {
        let waited = self.waiting_since.take().map(|since| since.elapsed());
        if let Some(credit) = &mut self.credit {
            let earned = Duration::from_micros((length as u64).saturating_mul(1_000_000 / MIN_RATE));
            *credit = credit.saturating_add(earned).saturating_sub(waited.unwrap_or_default());
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

/// Bytes of a client's body that are worth a second of waiting: what Apache asks of one (`MinRate`), and less than any
/// telephone brings.
const MIN_RATE: u64 = 500;
