//! What one worker takes on in a round: requests that come in heaps, and handshakes.
//!
//! A worker does what is ready in turn, so its rounds are as long as all that is wanted at once, and everybody waits
//! several of them for an answer. Here stands how much of the dearest is begun in one; the rest waits where it is, in the
//! sockets. The surprising thing: nobody is slowed down who is alone, because an empty round takes no time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

/// One worker's.
#[derive(Debug, Default)]
pub(super) struct Turnstile {
    /// Of this round.
    left: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Waiting>>>,
    somebody: Notify,
}

/// What a connection passes with, time and again.
#[derive(Debug)]
pub(super) struct Ticket {
    turnstile: Rc<Turnstile>,
    waiting: Rc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Set while it waits.
    waker: RefCell<Option<Waker>>,
    /// It has waited, and others that came later have not.
    is_called: Cell<bool>,
}

impl Turnstile {
    pub(super) fn ticket(self: &Rc<Self>) -> Ticket {
        Ticket { turnstile: Rc::clone(self), waiting: Rc::default() }
    }

    /// Begins one round after the other, for ever.
    pub(super) async fn turn(&self) {
        loop {
            self.begin_round();
            if self.waiting.borrow().is_empty() {
                self.somebody.notified().await;
            }
            everybody_else().await;
        }
    }

    fn begin_round(&self) {
        self.left.set(A_ROUND);
        let calls = self.waiting.borrow().len().min(CALLS);
        for waiting in self.waiting.borrow_mut().drain(..calls) {
            waiting.is_called.set(true);
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Ticket {
    /// Whether something may be begun in this round; if not, the task is woken in another one.
    pub(super) fn poll_pass(&self, cx: &Context<'_>) -> Poll<()> {
        let Turnstile { left, waiting, somebody } = &*self.turnstile;
        if left.get() > 0 && (waiting.borrow().is_empty() || self.waiting.is_called.get()) {
            return Poll::Ready(());
        }
        if self.waiting.waker.replace(Some(cx.waker().clone())).is_none() {
            waiting.borrow_mut().push_back(Rc::clone(&self.waiting));
            somebody.notify_one();
        }
        Poll::Pending
    }

    /// So much was begun: a request is one.
    pub(super) fn takes(&self, count: usize) {
        self.waiting.is_called.set(false);
        self.turnstile.left.set(self.turnstile.left.get().saturating_sub(count));
    }

    /// Waits for a round with room for a handshake.
    pub(super) async fn shake_hands(&self) {
        poll_fn(|cx| self.poll_pass(cx)).await;
        self.takes(A_HANDSHAKE);
    }
}

/// Lets all run that are ready.
async fn everybody_else() {
    let mut had_their_turn = false;
    poll_fn(|cx| {
        if had_their_turn {
            return Poll::Ready(());
        }
        had_their_turn = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Requests: half a millisecond, all that follows from them included.
const A_ROUND: usize = 16;
/// Those that wait take four or more each.
const CALLS: usize = 4;
/// A private key is used in it.
const A_HANDSHAKE: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;

    use super::*;

    /// However many come at once.
    #[tokio::test]
    async fn a_round_begins_with_so_much_and_all_have_their_turn_in_the_end() {
        let everybody_comes_and_passes = async {
            let (turnstile, passed) = (Rc::new(Turnstile::default()), Rc::new(Cell::new(0)));
            for _ in 0..500 {
                let (ticket, passed) = (turnstile.ticket(), Rc::clone(&passed));
                tokio::task::spawn_local(async move {
                    poll_fn(|cx| ticket.poll_pass(cx)).await;
                    ticket.takes(1);
                    passed.set(passed.get() + 1);
                });
            }
            for round in 1..=200 {
                turnstile.begin_round();
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(passed.get() <= round * A_ROUND, "{} in {round} rounds", passed.get());
            }
            assert_eq!(passed.get(), 500);
        };
        LocalSet::new().run_until(everybody_comes_and_passes).await;
    }

    #[tokio::test]
    async fn who_asks_again_while_it_waits_stands_in_the_queue_once() {
        let turnstile = Rc::new(Turnstile::default());
        let ticket = turnstile.ticket();
        for _ in 0..100 {
            let asked = tokio::time::timeout(Duration::ZERO, poll_fn(|cx| ticket.poll_pass(cx)));
            assert!(asked.await.is_err());
        }
        assert_eq!(turnstile.waiting.borrow().len(), 1);
    }
}
