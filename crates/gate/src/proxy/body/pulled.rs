//! The body of a request that another part of the program serves: it comes piece by piece, and only if the decision needs it.
//!
//! Whoever has the body keeps what it gives, so that the application gets every byte of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};

use super::{BodyError, Http1Body};

/// The end that reads: the decision.
#[derive(Debug)]
pub struct PulledBody {
    /// Dropped when the body is first read.
    wanted: Option<oneshot::Sender<()>>,
    pieces: mpsc::Receiver<BodyPiece>,
    hint: SizeHint,
    has_ended: bool,
}

/// The end that has the body.
#[derive(Debug)]
pub struct BodyFeed {
    wanted: oneshot::Receiver<()>,
    pieces: mpsc::Sender<BodyPiece>,
}

/// A part of a body.
#[derive(Debug)]
pub enum BodyPiece {
    /// Bytes.
    Data(Bytes),
    /// What follows the last byte.
    Trailers(HeaderMap),
    /// Nothing follows.
    End,
    /// The body broke off.
    Broken,
}

/// Both ends of a body with at least as many bytes as this says.
#[must_use]
pub fn pulled(hint: SizeHint) -> (PulledBody, BodyFeed) {
    let (want, wanted) = oneshot::channel();
    // The next piece waits until the last one is read.
    let (give, pieces) = mpsc::channel(1);
    (PulledBody { wanted: Some(want), pieces, hint, has_ended: false }, BodyFeed { wanted, pieces: give })
}

impl BodyFeed {
    /// Waits until the decision needs the body; `false` if it does not.
    pub async fn is_wanted(&mut self) -> bool {
        (&mut self.wanted).await.is_ok()
    }

    /// Gives the next piece. Returns whether more may be needed.
    pub async fn give(&self, piece: BodyPiece) -> bool {
        self.pieces.send(piece).await.is_ok()
    }
}

impl Body for PulledBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        if let Some(want) = this.wanted.take() {
            // Whoever has the body may have gone: then no piece comes either.
            let _ = want.send(());
        }
        let piece = ready!(this.pieces.poll_recv(cx));
        this.has_ended = !matches!(piece, Some(BodyPiece::Data(_)));
        Poll::Ready(match piece {
            Some(BodyPiece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(BodyPiece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(BodyPiece::End) => None,
            // Without its end it is never taken for whole.
            Some(BodyPiece::Broken) | None => {
                Some(Err(BodyError::broken(io::Error::from(io::ErrorKind::UnexpectedEof))))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_ended { SizeHint::with_exact(0) } else { self.hint }
    }
}

impl Http1Body for PulledBody {
    fn has_arrived(&self) -> bool {
        self.has_ended
    }

    fn shrink(&self) {}
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn next(body: &mut PulledBody) -> Option<Result<Frame<Bytes>, BodyError>> {
        poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
    }

    #[tokio::test]
    async fn a_body_that_nobody_reads_is_not_wanted() {
        let (body, mut feed) = pulled(SizeHint::default());
        drop(body);
        assert!(!feed.is_wanted().await);
        assert!(!feed.give(BodyPiece::End).await);
    }

    #[tokio::test]
    async fn a_body_ends_where_its_giver_says_so() {
        let (mut body, mut feed) = pulled(SizeHint::default());
        let give = async {
            assert!(feed.is_wanted().await);
            for piece in [BodyPiece::Data(Bytes::from_static(b"a=b")), BodyPiece::End] {
                assert!(feed.give(piece).await);
            }
        };
        let read = async {
            assert_eq!(next(&mut body).await.unwrap().unwrap().into_data().unwrap(), "a=b");
            assert!(next(&mut body).await.is_none());
            assert!(next(&mut body).await.is_none());
        };
        tokio::join!(give, read);
    }

    #[tokio::test]
    async fn a_body_whose_giver_goes_is_broken_and_not_at_its_end() {
        let (mut body, feed) = pulled(SizeHint::default());
        assert!(feed.give(BodyPiece::Data(Bytes::from_static(b"user=an"))).await);
        drop(feed);
        assert!(next(&mut body).await.unwrap().is_ok());
        assert!(next(&mut body).await.unwrap().is_err());
    }
}
