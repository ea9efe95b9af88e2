//! Buffers a request body whose fields decide what the request costs.
//!
//! Bounded, and with the same patience as a body that streams. The surprising thing: what its head says about the length
//! is believed only where it says too much, so nothing is set aside for a body that does not come.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, SizeHint};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::BodyError;
use super::memory::MemoryReservation;
use super::timeout::BodyTimeout;
use crate::proxy::error::Error;

/// What was read of a body.
pub(in crate::proxy) enum BufferedBody {
    /// All of it.
    Whole(Bytes),
    /// It is longer; its beginning, and the rest.
    Longer(Bytes, Incoming),
}

/// A request is counted as unread for as long as this lives, also if its client hangs up.
pub(in crate::proxy) struct UnreadGuard<'c>(&'c Cell<u32>);

impl<'c> UnreadGuard<'c> {
    pub(in crate::proxy) fn begins(count: &'c Cell<u32>) -> Self {
        count.set(count.get().saturating_add(1));
        Self(count)
    }
}

impl Drop for UnreadGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// All of a body, at most so many bytes, in memory that is taken before it is read. That it is longer is said as soon as
/// it is known.
///
/// # Errors
/// [`Error::ClientStalled`] if nothing comes within `patience`; [`Error::ClientGone`] if it breaks off;
/// [`Error::NoMemory`] if there is none for it within `patience`, or others need it more.
pub(in crate::proxy) async fn read(
    mut incoming: Incoming,
    most: usize,
    patience: Duration,
    hold: MemoryReservation,
) -> Result<BufferedBody, Error> {
    let announced = incoming.size_hint();
    if announced.lower() > most as u64 {
        return Ok(BufferedBody::Longer(Bytes::new(), incoming));
    }
    let mut buffer = BodyBuffer::new(hold, most, &announced);
    buffer.grow(1, patience).await?;
    let mut client = BodyTimeout::for_client(patience);
    // To its very end, the trailers included: what follows is the next request.
    while let Some(piece) = poll_fn(|cx| {
        let polled = client.poll_data(&mut incoming, cx);
        if polled.is_pending() && buffer.hold.poll_evicted(cx).is_ready() {
            return Poll::Ready(Err(Error::NoMemory));
        }
        polled.map(Ok)
    })
    .await?
    {
        let piece = match piece {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(BodyError::Stalled) => return Err(Error::ClientStalled),
            Err(BodyError::Broken(_)) => return Err(Error::ClientDisconnected),
        };
        let is_longer = buffer.bytes.len() + piece.len() > most;
        if !is_longer {
            buffer.grow(piece.len(), patience).await?;
        }
        // One that is longer is not read any further.
        buffer.bytes.reserve_exact(piece.len());
        buffer.bytes.extend_from_slice(&piece);
        if is_longer {
            return Ok(BufferedBody::Longer(buffer.freeze(), incoming));
        }
    }
    Ok(BufferedBody::Whole(buffer.freeze()))
}

/// What came of a body, in memory that was asked for.
struct BodyBuffer {
    bytes: Vec<u8>,
    hold: MemoryReservation,
    /// How long it may become.
    most: usize,
    /// How long its head says that it is.
    announced: Option<usize>,
}

impl BodyBuffer {
    fn new(hold: MemoryReservation, most: usize, announced: &SizeHint) -> Self {
        let announced = announced.exact().and_then(|length| usize::try_from(length).ok());
        Self { bytes: Vec::new(), hold, most, announced }
    }

    /// Room for so many bytes more. It grows with what has come, and not by what a head says.
    async fn grow(&mut self, count: usize, patience: Duration) -> Result<(), Error> {
        let (needed, capacity) = (self.bytes.len() + count, self.bytes.capacity());
        if needed <= capacity {
            return Ok(());
        }
        let most = self.announced.unwrap_or(self.most).min(self.most);
        let wanted = (2 * capacity).max(INITIAL_CAPACITY).min(most).max(needed);
        let taken = timeout(patience, poll_fn(|cx| self.hold.poll_reserve(wanted - capacity, cx))).await;
        let Ok(Ok(())) = taken else { return Err(Error::NoMemory) };
        self.bytes.reserve_exact(wanted - self.bytes.len());
        Ok(())
    }

    /// The memory is given back with the last of the bytes.
    fn freeze(self) -> Bytes {
        if self.bytes.is_empty() {
            return Bytes::new();
        }
        self.hold.pin();
        Bytes::from_owner(BufferedBytes { bytes: self.bytes, _hold: self.hold })
    }
}

struct BufferedBytes {
    bytes: Vec<u8>,
    _hold: MemoryReservation,
}

impl AsRef<[u8]> for BufferedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// More than a form of a sign-in has.
const INITIAL_CAPACITY: usize = 16 * 1024;
