//! Buffers a request body whose fields decide what the request costs.
//!
//! The buffer is bounded and has the time-outs of a streamed body. It grows with the data received; the announced
//! length is only an upper bound, so an announced body that never comes holds little memory. `memory` limits all
//! buffers.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, SizeHint};
use tokio::time::timeout;

use super::memory::{MemoryReservation, NoMemory};
use super::start::add_to_hint;
use super::timeout::BodyTimeout;
use super::{BodyError, ClientBody};
use crate::policy::body_coding::{BodyCoding, UndecodableBody};
use crate::proxy::error::Error;

/// The part of a body that was read.
pub(in crate::proxy) enum BufferedBody {
    /// The whole body.
    Whole(Bytes),
    /// The body is longer than the limit: its beginning, and the rest.
    Longer(Bytes, ClientBody),
}

/// Counts a request as unread while it lives, also if its client hangs up.
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

/// Reads a body of at most `max_bytes`, in memory that is reserved before each read. A longer body is reported as soon
/// as that is known.
///
/// # Errors
/// [`Error::ClientStalled`] if the body misses its time-outs; [`Error::ClientDisconnected`] if it is incomplete or
/// invalid; [`Error::NoMemory`] if no memory is free within `wait`, or the body was evicted for a smaller one.
pub(in crate::proxy) fn read(
    incoming: ClientBody,
    max_bytes: usize,
    wait: Duration,
    reservation: MemoryReservation,
) -> impl Future<Output = Result<BufferedBody, Error>> {
    read_behind(Bytes::new(), incoming, max_bytes, wait, reservation)
}

/// The same of a body whose beginning was read.
pub(in crate::proxy) async fn read_behind(
    beginning: Bytes,
    mut incoming: ClientBody,
    max_bytes: usize,
    wait: Duration,
    reservation: MemoryReservation,
) -> Result<BufferedBody, Error> {
    let announced = add_to_hint(beginning.len() as u64, &incoming.size_hint());
    if announced.lower() > max_bytes as u64 {
        return Ok(BufferedBody::Longer(beginning, incoming));
    }
    let mut buffer = BodyBuffer::new(reservation, max_bytes, &announced);
    buffer.grow(beginning.len().max(1), wait).await?;
    buffer.bytes.extend_from_slice(&beginning);
    drop(beginning);
    let mut client = BodyTimeout::for_client(wait);
    // Reads to the end of the trailers: the next request follows them.
    while let Some(piece) = poll_fn(|cx| {
        let polled = client.poll_frame(&mut incoming, cx);
        if polled.is_pending() && buffer.reservation.poll_evicted(cx).is_ready() {
            return Poll::Ready(Err(Error::NoMemory));
        }
        polled.map(Ok)
    })
    .await?
    {
        let piece = match piece {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(BodyError::Stalled) => return Err(Error::ClientStalled),
            Err(BodyError::Cut) => return Err(Error::BodyTooLong),
            Err(BodyError::Broken(_)) => return Err(Error::ClientDisconnected),
        };
        let is_longer = buffer.bytes.len() + piece.len() > max_bytes;
        if !is_longer {
            buffer.grow(piece.len(), wait).await?;
        }
        // The last piece of a body that is too long needs no reservation: nothing more is read.
        buffer.bytes.reserve_exact(piece.len());
        buffer.bytes.extend_from_slice(&piece);
        if is_longer {
            return Ok(BufferedBody::Longer(buffer.freeze(), incoming));
        }
    }
    Ok(BufferedBody::Whole(buffer.freeze()))
}

/// A body without its coding; `None` if it is longer than `max_bytes`.
///
/// # Errors
/// [`Error::NoMemory`] if none is free.
pub(in crate::proxy) fn decode(
    coding: BodyCoding,
    body: &[u8],
    max_bytes: usize,
    reservation: MemoryReservation,
) -> Result<Result<Option<Bytes>, UndecodableBody>, Error> {
    let mut buffer = BodyBuffer::new(reservation, max_bytes, &SizeHint::new());
    let mut has_memory = true;
    let is_whole = coding.decode(body, |piece| {
        let fits = buffer.len() + piece.len() <= max_bytes;
        has_memory = !fits || buffer.push(piece);
        fits && has_memory
    });
    let decoded = is_whole.map(|is_whole| is_whole.then(|| buffer.freeze()));
    if has_memory { Ok(decoded) } else { Err(Error::NoMemory) }
}

/// The received part of a body, in reserved memory.
pub(in crate::proxy) struct BodyBuffer {
    bytes: Vec<u8>,
    reservation: MemoryReservation,
    /// Upper bound of the length.
    max_bytes: usize,
    /// The length by the head of the request.
    announced: Option<usize>,
}

impl BodyBuffer {
    pub(in crate::proxy) fn new(
        reservation: MemoryReservation,
        max_bytes: usize,
        announced: &SizeHint,
    ) -> Self {
        let announced = announced.exact().and_then(|length| usize::try_from(length).ok());
        Self { bytes: Vec::new(), reservation, max_bytes, announced }
    }

    pub(in crate::proxy) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Ready when its memory was given to a smaller one.
    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.reservation.poll_evicted(cx)
    }

    /// Takes a piece. Returns whether there was memory for it.
    pub(in crate::proxy) fn push(&mut self, piece: &[u8]) -> bool {
        let new_capacity = self.new_capacity(piece.len());
        let more = new_capacity.saturating_sub(self.bytes.capacity());
        let is_reserved = more == 0 || self.reservation.try_reserve(more);
        if is_reserved {
            self.bytes.reserve_exact(new_capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        is_reserved
    }

    /// The capacity for `count` more bytes: it doubles with the data received, up to the announced length.
    fn new_capacity(&self, count: usize) -> usize {
        let (needed, capacity) = (self.bytes.len() + count, self.bytes.capacity());
        if needed <= capacity {
            return capacity;
        }
        let limit = self.announced.unwrap_or(self.max_bytes).min(self.max_bytes);
        (2 * capacity).max(INITIAL_CAPACITY).min(limit).max(needed)
    }

    /// Makes space for `count` more bytes.
    async fn grow(&mut self, count: usize, wait: Duration) -> Result<(), Error> {
        let new_capacity = self.new_capacity(count);
        let more = new_capacity - self.bytes.capacity();
        if more == 0 {
            return Ok(());
        }
        // Nearly all have their memory at once, and need no timer.
        let reserved = match poll_fn(|cx| Poll::Ready(self.reservation.poll_reserve(more, cx))).await {
            Poll::Ready(reserved) => reserved,
            Poll::Pending => {
                let reserved = poll_fn(|cx| self.reservation.poll_reserve(more, cx));
                timeout(wait, reserved).await.unwrap_or(Err(NoMemory))
            }
        };
        reserved.map_err(|NoMemory| Error::NoMemory)?;
        self.bytes.reserve_exact(new_capacity - self.bytes.len());
        Ok(())
    }

    /// The bytes; the last clone of them returns the memory.
    pub(in crate::proxy) fn freeze(self) -> Bytes {
        if self.bytes.is_empty() {
            return Bytes::new();
        }
        self.reservation.pin();
        Bytes::from_owner(BufferedBytes { bytes: self.bytes, _reservation: self.reservation })
    }
}

struct BufferedBytes {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for BufferedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// More than a sign-in form needs.
const INITIAL_CAPACITY: usize = 16 * 1024;
