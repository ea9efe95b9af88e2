//! The one timer of a connection. It is rarely set again: only when it fires, or when a phase with an earlier deadline
//! begins.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep};

use crate::proxy::connection::Phase;
use crate::proxy::connection::state::{ConnectionState, Deadlines, Overdue};

pub(super) struct ConnectionTimer<'s> {
    sleep: Pin<&'s mut Sleep>,
    deadlines: Deadlines,
    /// The phase whose deadline it was set to.
    set_for: Phase,
    /// Once polled, it wakes the task; until then polling it again is useless.
    registered: bool,
}

impl<'s> ConnectionTimer<'s> {
    /// A timer that is not set yet.
    pub(super) fn new(sleep: Pin<&'s mut Sleep>, deadlines: Deadlines) -> Self {
        Self { sleep, deadlines, set_for: Phase::Head, registered: false }
    }

    /// Sets it to the next deadline.
    pub(super) fn set(&mut self, state: &ConnectionState) {
        // A rest lasts longer than the same phase with buffers: when it ends, the next phase has to set the timer.
        let ends_late = state.is_resting() && state.phase() == Phase::Idle;
        (self.set_for, self.registered) = (if ends_late { Phase::Busy } else { state.phase() }, false);
        self.sleep.as_mut().reset(Instant::now() + self.deadlines.next(state).to_std());
    }

    /// Follows a change of phase that makes the deadline earlier.
    pub(super) fn follow(&mut self, state: &ConnectionState) {
        let phase = state.phase();
        if phase == self.set_for || phase == Phase::Busy {
            return;
        }
        if phase == Phase::Head {
            state.head_begins();
        }
        self.set(state);
    }

    /// What is due.
    pub(super) fn poll(&mut self, state: &ConnectionState, cx: &mut Context<'_>) -> Poll<Overdue> {
        loop {
            if self.registered && !self.sleep.is_elapsed() {
                return Poll::Pending;
            }
            self.registered = true;
            ready!(self.sleep.as_mut().poll(cx));
            self.registered = false;
            match self.deadlines.overdue(state) {
                Overdue::Nothing => self.set(state),
                overdue => return Poll::Ready(overdue),
            }
        }
    }
}
