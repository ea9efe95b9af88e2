//! The end of a request's body, held back until the attempt has its slots.
//!
//! An application begins its work once it has a request as a whole. Until then a slow upload needs no slot, and its time tells
//! nothing of the application.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Between the body, which is read by the connection to the upstream, and the task that waits for slots.
#[derive(Debug, Default)]
pub(in crate::proxy) struct HeldEnd {
    is_reached: Cell<bool>,
    is_released: Cell<bool>,
    /// The task that waits for the end.
    waiting: RefCell<Option<Waker>>,
    /// The task that reads the body.
    reading: RefCell<Option<Waker>>,
}

impl HeldEnd {
    /// Waits until the client has sent all of the body.
    pub(in crate::proxy) async fn reached(&self) {
        poll_fn(|cx| {
            if self.is_reached.get() {
                return Poll::Ready(());
            }
            self.waiting.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Lets the end pass.
    pub(in crate::proxy) fn release(&self) {
        self.is_released.set(true);
        if let Some(reading) = self.reading.take() {
            reading.wake();
        }
    }

    /// The body has come to its end, which passes once this is ready.
    pub(super) fn poll_released(&self, cx: &Context<'_>) -> Poll<()> {
        self.is_reached.set(true);
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        if self.is_released.get() {
            return Poll::Ready(());
        }
        self.reading.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}
