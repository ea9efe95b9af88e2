//! A client's body read to its end, because what it costs stands in it.
//!
//! Bounded, and with the same patience as a body that streams. The surprising thing: what its head says about the length
//! is believed only where it says too much, so nothing is set aside for a body that does not come.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;

use super::{BodyError, Patience};
use crate::proxy::error::Error;

/// All of a body, at most so many bytes.
///
/// # Errors
/// [`Error::BodyTooLong`] as soon as that is known, before the rest is read; [`Error::ClientStalled`] if nothing comes
/// within `timeout`; [`Error::ClientGone`] if it breaks off.
pub(in crate::proxy) async fn read(
    mut incoming: Incoming,
    most: usize,
    timeout: Duration,
) -> Result<Bytes, Error> {
    if incoming.size_hint().lower() > most as u64 {
        return Err(Error::BodyTooLong);
    }
    let mut patience = Patience::new(timeout);
    let mut pieces = BytesMut::new();
    // To its very end, the trailers included: what follows is the next request.
    while let Some(piece) = poll_fn(|cx| patience.poll_data(&mut incoming, cx)).await {
        let piece = match piece {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(BodyError::Stalled) => return Err(Error::ClientStalled),
            Err(BodyError::Broken(_)) => return Err(Error::ClientGone),
        };
        if pieces.len() + piece.len() > most {
            return Err(Error::BodyTooLong);
        }
        pieces.extend_from_slice(&piece);
    }
    Ok(pieces.freeze())
}
