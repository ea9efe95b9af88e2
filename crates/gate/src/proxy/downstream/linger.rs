//! Lingering close: reads and discards what the client still sends, so that no reset takes the response back (RFC
//! 9112, 9.6).
//!
//! It is for a socket whose sending half is closed already. `connection::state` knows whether to linger.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;

/// A lingering close, before it begins and while it lasts.
#[derive(Default)]
pub(super) struct Linger(Option<LingerState>);

struct LingerState {
    until: Pin<Box<Sleep>>,
    left: usize,
}

impl Linger {
    pub(super) fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// Ready when the client has closed, too, or the limit of time or bytes is reached.
    pub(super) fn poll(&mut self, stream: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<()> {
        let state = self.0.get_or_insert_with(|| LingerState {
            until: Box::pin(tokio::time::sleep(LINGER)),
            left: LINGER_BYTES,
        });
        let mut scratch = [MaybeUninit::uninit(); 8192];
        while state.left > 0 && state.until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    state.left = state.left.saturating_sub(buffer.filled().len());
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024;
