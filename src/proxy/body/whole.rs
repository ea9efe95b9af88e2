//! A client's body read to its end, because what it costs stands in it.
//!
//! Bounded, and with the same patience as a body that streams. The surprising thing: what its head says about the length
//! is believed only where it says too much, so nothing is set aside for a body that does not come.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;

use super::BodyError;
use super::patience::Patience;
use crate::proxy::error::Error;

/// What was read of a body.
pub(in crate::proxy) enum Read {
    /// All of it.
    Whole(Bytes),
    /// It is longer; its beginning, and the rest.
    Longer(Bytes, Incoming),
}

/// All of a body, at most so many bytes. That it is longer is said as soon as it is known.
///
/// # Errors
/// [`Error::ClientStalled`] if nothing comes within `timeout`; [`Error::ClientGone`] if it breaks off.
pub(in crate::proxy) async fn read(
    mut incoming: Incoming,
    most: usize,
    timeout: Duration,
) -> Result<Read, Error> {
    if incoming.size_hint().lower() > most as u64 {
        return Ok(Read::Longer(Bytes::new(), incoming));
    }
    let mut patience = Patience::with_client(timeout);
    let mut pieces = BytesMut::new();
    // To its very end, the trailers included: what follows is the next request.
    while let Some(piece) = poll_fn(|cx| patience.poll_data(&mut incoming, cx)).await {
        let piece = match piece {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(BodyError::Stalled) => return Err(Error::ClientStalled),
            Err(BodyError::Broken(_)) => return Err(Error::ClientGone),
        };
        pieces.extend_from_slice(&piece);
        if pieces.len() > most {
            return Ok(Read::Longer(pieces.freeze(), incoming));
        }
    }
    Ok(Read::Whole(pieces.freeze()))
}
