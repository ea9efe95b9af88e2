//! The body of a request that a message describes: it is here, or comes in another message if it is needed.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::BodyError;

/// The body of a request that a message describes. The copies are of one body.
#[derive(Debug, Clone)]
pub struct AskedBody(Rc<RefCell<AskedState>>);

#[derive(Debug)]
enum AskedState {
    /// Nobody has read it.
    Elsewhere,
    /// The decision needs it.
    Wanted,
    Here(Bytes),
    /// Its end is missing.
    Cut,
    Ended,
}

impl AskedBody {
    /// These bytes.
    #[must_use]
    pub(in crate::proxy) fn whole(bytes: Bytes) -> Self {
        Self(Rc::new(RefCell::new(AskedState::Here(bytes))))
    }

    /// What [`give`](Self::give) brings later.
    #[must_use]
    pub(in crate::proxy) fn elsewhere() -> Self {
        Self(Rc::new(RefCell::new(AskedState::Elsewhere)))
    }

    /// Whether it is waited for.
    pub(in crate::proxy) fn is_wanted(&self) -> bool {
        matches!(*self.0.borrow(), AskedState::Wanted)
    }

    /// Gives what it consists of. `is_cut`: what follows is missing. Whoever gives it polls its reader.
    pub(in crate::proxy) fn give(&self, bytes: Bytes, is_cut: bool) {
        self.0.replace(if is_cut { AskedState::Cut } else { AskedState::Here(bytes) });
    }

    pub(super) fn has_arrived(&self) -> bool {
        !matches!(*self.0.borrow(), AskedState::Elsewhere | AskedState::Wanted)
    }
}

impl Body for AskedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.0.replace(AskedState::Ended) {
            AskedState::Elsewhere | AskedState::Wanted => {
                self.0.replace(AskedState::Wanted);
                Poll::Pending
            }
            AskedState::Here(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            AskedState::Cut => Poll::Ready(Some(Err(BodyError::Cut))),
            AskedState::Ended => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(*self.0.borrow(), AskedState::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.0.borrow() {
            AskedState::Here(bytes) => SizeHint::with_exact(bytes.len() as u64),
            AskedState::Ended => SizeHint::with_exact(0),
            AskedState::Elsewhere | AskedState::Wanted | AskedState::Cut => SizeHint::new(),
        }
    }
}
